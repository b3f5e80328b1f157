package sglang

// budget is what the prefill batch may still spend, in tokens.
type budget struct {
	// set is what is set aside of the pool for tokens that are not there yet. It is only worked out, request by
	// request, where about does not decide, which is set but for roundings.
	set, about   float64
	worked       bool
	charges      []int // of the pool, until set is worked out
	input, chunk int
	mixed        int // running requests that may get a token from the batch
	window       int // set aside of the pool of the layers with a window
}

// newBudget sets tokens aside that running requests are expected to generate. In a mixed batch each of them gets a
// token at the expense of the prompts.
func (s *Scheduler) newBudget() budget {
	mixed := 0
	if s.rules.MixedChunk {
		mixed = len(s.running)
	}
	return budget{
		mixed:   mixed,
		about:   float64(s.roll.owed)*s.expected() + float64(mixed),
		charges: s.charges[:0],
		input:   s.rules.MaxPrefillTokens - mixed,
		chunk:   s.rules.ChunkedPrefillSize - mixed,
	}
}

// rounding is more than all roundings in a sum of a million terms can change of it.
const rounding = 1e-9

// expected returns the part of their future output that running requests are expected to generate.
func (s *Scheduler) expected() float64 {
	if s.rules.IgnoreEOS {
		return 1
	}
	return s.ratio.value
}

// left returns the part of the pool that is neither in use nor set aside.
func (s *Scheduler) left(b *budget) float64 {
	if !b.worked {
		s.workOut(b)
	}
	return float64(s.pool.Available()) - b.set
}

// workOut adds up what is set aside. The terms are added in batch order: the last bit can decide.
func (s *Scheduler) workOut(b *budget) {
	b.worked = true
	ratio := s.expected()
	for _, r := range s.running {
		b.set += float64(float64(s.owed(r)) * ratio)
	}
	b.set += float64(b.mixed)
	for _, tokens := range b.charges {
		b.set += float64(tokens)
	}
}

// leaves reports whether more than the given number of tokens are left. If some request owes more than counts, about is
// only a bound.
func (s *Scheduler) leaves(b *budget, tokens int) bool {
	spare := float64(s.pool.Available()-tokens) - b.about
	switch doubt := 1 + b.about*rounding; {
	case s.stepwise: // which looks at every request
	case spare > doubt:
		return true
	case spare < -doubt && s.roll.long == 0:
		return false
	}
	return s.left(b) > float64(tokens)
}

// charge takes from the budgets what a request needs that computes tokens tokens and gets output more, a page of
// reserve included.
func (s *Scheduler) charge(b *budget, tokens, output int) {
	reserve := s.ceil(tokens) + s.pageSize + output
	if s.pool.Windowed() {
		b.window += s.windowNeed(b, tokens, output)
	}
	b.about += float64(reserve)
	if b.worked {
		b.set += float64(reserve)
	} else {
		b.charges = append(b.charges, reserve)
		s.charges = b.charges
	}
	b.input -= s.ceil(tokens)
	b.chunk -= s.ceil(tokens)
}

// windowNeed returns what a request needs in the pool of the layers with a window that computes tokens tokens and gets
// output more: what of the batch's share of the prompt leaves the window at its end, and what is in sight after it.
func (s *Scheduler) windowNeed(b *budget, tokens, output int) int {
	if !s.pool.Windowed() {
		return 0
	}
	window := s.rules.Window.Tokens
	tokens = s.ceil(tokens)
	return max(min(tokens, b.chunk)-window, 0) + min(tokens+output, window) + s.pageSize
}

// leavesWindow reports whether more than the given number of window slots are left.
func (s *Scheduler) leavesWindow(b *budget, tokens int) bool {
	return !s.pool.Windowed() || s.pool.WindowAvailable()-b.window > tokens
}
