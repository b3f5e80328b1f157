package chunks

// lru evicts the chunk of the lowest rank. All chunks that a request uses have its rank while it runs, the last chunk the lowest;
// when it ends each gets the highest rank of all, the last chunk first. Requests rank by their first use of a chunk.
//
//	oldest                                                       youngest
//	[a2] [a1] [a0]    [b3] [b1] [b0] (b)    [c1] (c)    [d1] [d0]
//
// Here b and c still run: chunks that they use from now on go in front of (b) and (c).
type lru struct {
	head  ranked // of a ring of all chunks and requests that run
	count int    // of requests so far
	gone  []*Chunk
}

// ranked is an entry of the ring.
type ranked struct {
	older, younger *ranked
	chunk          *Chunk // nil for a request
	of             *group // whose rank it has; nil if the request has ended
	minor          int    // the index of the chunk there
	major          int    // of two chunks the one with the larger number ranks higher
}

// group is the rank of a request.
type group struct {
	mark   ranked
	number int     // 0 before it uses a chunk
	oldest *ranked // of its chunks, nil for none
}

func newLRU() *lru {
	l := &lru{}
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

func (l *lru) learn(*Request, []*Chunk) {}

func (l *lru) evict(count, offer int) []*Chunk {
	l.gone = l.gone[:0]
	for e := l.head.younger; len(l.gone) < count; {
		next := e.younger
		if c := e.chunk; c != nil && c.idle() && c.offer != offer {
			e.leave()
			l.gone = append(l.gone, c)
		}
		e = next
	}
	return l.gone
}

func (l *lru) add(r *Request, c *Chunk) {
	c.ranked.chunk = c
	l.rank(&c.ranked, r, c.index)
}

// rank gives e the rank of a chunk of r.
func (l *lru) rank(e *ranked, r *Request, index int) {
	e.of, e.minor, e.major = &r.group, index, r.number
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

func (l *lru) touch(r *Request, c *Chunk, index int) {
	l.join(r)
	if c == nil {
		return
	}
	if e := &c.ranked; e.major < r.number {
		e.leave()
		l.rank(e, r, index)
	}
}

func (l *lru) farewell(_ *access, c *Chunk) {
	e := &c.ranked
	e.leave()
	l.count++
	e.of, e.major = nil, l.count
	e.insert(&l.head)
}

func (l *lru) forget(r *Request) {
	if r.number > 0 {
		r.mark.leave()
	}
}
