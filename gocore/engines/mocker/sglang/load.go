package sglang

// load is what the running requests add up to. Each emitting pass adds a token to every one of them; those that emit
// bursts add their tokens and pages by themselves (emitBursts), and the rest of the fields is not used then.
type load struct {
	pageSize int
	requests int
	tokens   int
	pages    int // started ones

	emitted int // passes so far
	full    int // requests that fill their last page exactly: the next token starts one
	// phases counts requests by tokens - emitted, modulo the page size. That never changes while a request runs, and
	// tells how many of them are full. Nil if requests emit bursts.
	phases []int32
}

func newLoad(pageSize int, bursts bool) load {
	if bursts {
		return load{pageSize: pageSize}
	}
	return load{pageSize: pageSize, phases: make([]int32, pageSize)}
}

// overhead returns the number of slots that the last pages of all requests have left.
func (l *load) overhead() int { return l.pages*l.pageSize - l.tokens }

func (l *load) phase(tokens int) int {
	phase := (tokens - l.emitted) % l.pageSize
	if phase < 0 {
		phase += l.pageSize
	}
	return phase
}

// count adds (sign +1) or takes away (-1) a request of tokens tokens.
func (l *load) count(tokens, sign int) {
	l.requests += sign
	l.tokens += sign * tokens
	l.pages += sign * ceilDiv(tokens, l.pageSize)
	if l.phases == nil {
		return
	}
	if tokens%l.pageSize == 0 {
		l.full += sign
	}
	l.phases[l.phase(tokens)] += int32(sign)
}

// count adds (sign +1) or takes away (-1) a running request.
func (s *Scheduler) count(r *sequence, sign int) {
	s.load.count(s.tokens(r), sign)
	if r.named {
		s.named += sign
	}
}

// emit adds a token to every request.
func (l *load) emit() {
	l.pages += l.full
	l.tokens += l.requests
	l.emitted++
	l.full = int(l.phases[l.phase(0)])
}
