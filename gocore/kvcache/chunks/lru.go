package chunks

// lru evicts the chunk of the lowest rank. All chunks that a request uses have its rank while it runs, the last chunk
// the lowest; when it ends each gets the highest rank of all, the last chunk first. Requests rank by their first use of
// a chunk.
//
//	oldest                                                       youngest
//	[a2] [a1] [a0]    [b3] [b1] [b0] (b)    [c1] (c)    [d1] [d0]
//
// Here b and c still run: chunks that they use from now on go in front of (b) and (c). Chunks next to each other are
// one run as long as nothing happens to some of them only.
type lru struct {
	head   ranked // of a ring of all runs and of the requests that run
	count  int    // of requests so far
	groups int    // of layers
}

// ranked is an entry of the ring.
type ranked struct {
	older, younger *ranked
	run            *run   // nil for a request
	of             *group // whose rank it has; nil if the request has ended
	minor          int    // the index of the first chunk there
	major          int    // of two runs the one with the larger number ranks higher
}

// group is the rank of a request.
type group struct {
	mark   ranked
	number int     // 0 before it uses a chunk
	oldest *ranked // of its runs, nil for none
}

func newLRU() *lru {
	l := &lru{groups: 1}
	l.head.older, l.head.younger = &l.head, &l.head
	return l
}

// insert puts e in front of at.
func (e *ranked) insert(at *ranked) {
	e.older, e.younger = at.older, at
	e.older.younger, at.older = e, e
}

// leave takes e out of the ring.
func (e *ranked) leave() {
	if g := e.of; g != nil && g.oldest == e {
		if g.oldest = e.younger; g.oldest == &g.mark {
			g.oldest = nil
		}
	}
	e.older.younger, e.younger.older = e.younger, e.older
}

// join makes sure that a request has a rank.
func (l *lru) join(r *Request) {
	if r.number == 0 {
		l.count++
		r.number = l.count
		r.mark.insert(&l.head)
	}
}

func (l *lru) learn(*Request, *Store, []Span) {}

func (l *lru) evict(s *Store, count int) {
	for at := l.head.younger; count > 0; {
		e := at.run
		at = at.younger
		if e == nil || !e.idle() || e.offer == s.number {
			continue
		}
		n := min(count, e.count)
		count -= n
		if s.shorten(e, n) {
			e.ranked.leave()
		}
	}
}

func (l *lru) add(r *Request, e *run, index int) {
	e.ranked.run = e
	l.rank(&e.ranked, r, index)
}

// rank gives e the rank of chunks of r.
//
// Of the chunks of several groups that have the same tokens, that of the last group is the youngest.
func (l *lru) rank(e *ranked, r *Request, index int) {
	if l.groups > 1 {
		index += l.groups - 1 - 2*(index%l.groups)
	}
	e.of, e.minor, e.major = &r.group, index, r.group.number
	at := r.oldest
	if at == nil {
		at = &r.mark
	}
	oldest := true
	for ; at != &r.mark && at.minor > index; at = at.younger {
		oldest = false
	}
	e.insert(at)
	if oldest {
		r.oldest = e
	}
}

func (l *lru) touch(r *Request, e *run, index int) {
	if e.major < r.number {
		e.ranked.leave()
		l.rank(&e.ranked, r, index)
	}
}

func (l *lru) remove(e *run) { e.ranked.leave() }

func (l *lru) split(rest, part *run, end bool) {
	e, p := &rest.ranked, &part.ranked
	p.run, p.of, p.major = part, e.of, e.major
	if end {
		p.minor = e.minor + rest.count
		p.insert(e)
		if e.of != nil && e.of.oldest == e {
			e.of.oldest = p
		}
		return
	}
	p.minor = e.minor
	e.minor += part.count
	p.insert(e.younger)
}

func (l *lru) farewell(_ *access, e *run) {
	e.ranked.leave()
	l.count++
	e.of, e.major = nil, l.count
	e.ranked.insert(&l.head)
}

func (l *lru) forget(r *Request) {
	if r.number > 0 {
		r.mark.leave()
	}
}
