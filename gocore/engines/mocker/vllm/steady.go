package vllm

import "dynosim/gocore/engines/internal/calendar"

// steady is the fast path: a shortcut for requests that merely decode. Each pass gives such a request one token, and
// hardly any pass needs to look at it: only those in which it opens a block or finishes.
//
//	emitting pass     7     8     9    10    11    12
//	due               A     -     C,A   -     -     B       A opens a block with its token of pass 7 and ends with pass 9
//	emitting          3     3     3     2     2     2
//
// The first size requests of the running list are steady, each on the calendar for the next pass in which it is due; as
// a block lasts block_size tokens, that many days are enough. In all other passes they are only counted: a pass costs
// what is due plus the requests that are not steady. The counters of a request that is not due stand still until it is
// looked at (catchUp). A preemption, or a shortage of blocks or budget, makes all requests ordinary first.
//
// A request becomes steady with its first token, once all requests before it in the running list are.
//
// The scheduler has five places where it asks for this: serve, emit, advance, leave and clear. Without steady requests
// each does nothing, and the scheduler does all the work itself, request by request.
type steady struct {
	s       *Scheduler
	off     bool // no request becomes steady
	size    int
	context int // tokens of all steady sequences
	days    calendar.Calendar[*sequence]
	due     []*sequence // in the pass being run
}

// serve takes the budget of the steady requests, one token each.
func (t *steady) serve() {
	s := t.s
	if t.size > s.budget {
		t.clear(false)
	}
	s.budget -= t.size
	s.out.Scheduled += t.size
}

// emit emits the tokens of the steady requests. It reports false, with none of them steady any more, if the blocks that
// this pass opens might not suffice: then each token needs the ordinary way.
func (t *steady) emit() bool {
	s := t.s
	t.due = t.days.Take(s.emittingPasses)
	opening := 0
	for _, r := range t.due {
		t.catchUp(r)
		opening += s.opensBlock(r)
	}
	for _, r := range s.ready {
		opening += s.opensBlock(r)
	}
	if opening > s.pool.Available() {
		t.clear(true)
		return false
	}
	t.context += t.size
	s.out.Tokens += t.size - len(t.due) // emitToken counts those that are due
	for _, r := range t.due {
		s.emitToken(r)
	}
	return true
}

// leave takes the steady requests that have just finished out of the counts.
func (t *steady) leave() {
	for _, r := range t.due {
		if r.status != running {
			t.size--
			t.context -= r.tokens()
		}
	}
}

// advance follows up a pass that emitted tokens: those that were due get a new day, and requests that have begun to
// decode become steady.
func (t *steady) advance() {
	s := t.s
	for _, r := range t.due {
		if r.status == running {
			t.enterDay(r)
		}
	}
	t.due = t.due[:0]
	if t.off {
		return
	}
	for t.size < len(s.running) {
		r := s.running[t.size]
		if r.lastTokenPass != s.emittingPasses-1 {
			return
		}
		t.enterDay(r)
		t.size++
		t.context += r.tokens()
	}
}

// clear brings all requests up to date and leaves none steady. served tells whether the pass being run has served them
// already.
func (t *steady) clear(served bool) {
	if t.size == 0 {
		return
	}
	s := t.s
	for _, r := range s.running[:t.size] {
		t.catchUp(r)
		if served {
			r.computed++
			r.allocated = max(r.allocated, r.computed)
			r.share = share{pass: s.passes, tokens: 1, promptBefore: r.promptTokens}
		}
	}
	t.size, t.context = 0, 0
	t.due = t.due[:0]
	t.days.Clear()
}

// enterDay puts r on the calendar for the next pass, from now on, in which it opens a block or finishes.
func (t *steady) enterDay(r *sequence) {
	s := t.s
	untilBlock := s.blockSize - (r.tokens()-1)&(s.blockSize-1)
	left := r.maxOutput - r.generated - 1 // tokens but the last one
	wait := min(untilBlock-1, left)
	plain := left - wait
	if r.full < min(r.listed, r.key.Shareable) { // it announces a block that others may have, or finds it in the cache
		plain = 0
	}
	t.days.Enter(&r.due, s.emittingPasses+wait, plain)
}

// catchUp gives r, which is steady, the tokens of the emitting passes since it was last looked at.
func (t *steady) catchUp(r *sequence) {
	missed := t.missed(r)
	r.lastTokenPass += missed
	r.generated += missed
	r.computed = r.tokens() - 1
	r.allocated = max(r.allocated, r.computed)
}

// missed returns how many tokens r, which is steady, got since it was last looked at.
func (t *steady) missed(r *sequence) int { return t.s.emittingPasses - 1 - r.lastTokenPass }
