package vllm

import "dynosim/gocore/engines/internal/calendar"

// steady is a shortcut for requests that merely decode. Each pass computes one token of such a request and delivers
// one; only a pass in which it opens a block or gets its last token has to look at it. Blocks that no other request can
// find are opened without a look, all of a pass at once (opensOnly).
//
//	batch             7     8     9    10    11    12
//	looked at         A     -     C,A   -     -     B       A opens a block in batch 7, its last token is of batch 9
//	steady            3     3     3     2     2     2
//
// The first prefix requests of the running list are steady, or ending: their last token is in flight. The counters of a
// steady request stand still (catchUp brings them up to date). A preemption or a cancelled request ends the steadiness
// of all.
//
// The scheduler has five places where it asks for this: serve, enter, deliver, leave and clear. Without steady requests
// each does nothing, and the scheduler does all the work itself, request by request.
type steady struct {
	s       *Scheduler
	off     bool // look at every request in every pass
	prefix  int
	size    int // requests of the prefix that are not ending
	context int // their computed tokens
	days    calendar.Calendar[*sequence]
}

// serve serves all steady requests. It reports false, with no request steady any more, if blocks are missing: then each
// needs the ordinary way.
func (t *steady) serve(b *batch) bool {
	if t.size == 0 {
		return true
	}
	var due []*sequence
	if !t.opensOnly(b.number) {
		due = t.takeDue(b.number)
		opening := 0
		for _, r := range due {
			opening += t.s.opensBlock(r)
		}
		if opening > t.s.pool.Free() {
			t.clear()
			return false
		}
	}
	b.scheduled, b.computes = t.size, t.size
	t.context += t.size
	b.durations.context = t.context
	b.ends = t.serveDue(due, b.number, b.ends)
	b.steady = t.size
	return true
}

// opensOnly takes the blocks that requests open in a batch, if there are enough and it has nothing else to do for these
// requests, nor when it opens their next blocks: none of them is looked at. catchUp gives them their blocks.
func (t *steady) opensOnly(batch int) bool {
	opening, plain := t.days.Due(batch)
	if opening == 0 {
		return true
	}
	if t.s.oddBlocks || plain < t.s.blockSize || !t.s.secluded() || !t.s.pool.Take(opening) {
		return false
	}
	t.days.Repeat(batch)
	return true
}

// takeDue takes off the calendar the requests that a batch has to look at, in running order, with their counters as
// they were before that batch.
func (t *steady) takeDue(batch int) []*sequence {
	due := t.days.Take(batch)
	for _, r := range due {
		t.catchUp(r, batch-1)
	}
	return due
}

// serveDue serves the requests that a batch has to look at, for which there are blocks enough. Those for which it is
// the last time are appended to ends and leave the steady ones.
func (t *steady) serveDue(due []*sequence, batch int, ends []*sequence) []*sequence {
	s := t.s
	for _, r := range due {
		s.trim(r)
		if !s.take(r, r.computed+1) {
			panic("vllm: a block that was counted is missing")
		}
		r.share = share{start: r.computed, tokens: 1}
		r.computed++
		r.scheduled++
		r.servedIn = batch
		s.register(r, min(r.computed, r.tokens()))
		if r.ending() {
			t.size--
			t.context -= r.computed
			ends = append(ends, r)
		} else {
			t.enterDay(r)
		}
	}
	return ends
}

// enter lets requests become steady that the batch, just composed, has made decode: all those that follow the prefix
// without a gap.
func (t *steady) enter(b *batch) {
	for !t.off && t.prefix < len(t.s.running) {
		r := t.s.running[t.prefix]
		if r.ending() {
			t.prefix++
			continue
		}
		if r.servedIn != b.number || r.deliveredIn != b.number || t.s.offload != nil && t.s.offload.offers(r) {
			return
		}
		t.prefix++
		t.size++
		t.context += r.computed
		t.enterDay(r)
	}
}

// enterDay puts r on the calendar, for the next batch that has to look at it: the one that opens a block, the one that
// gives it its last token, or the one that computes the last token of a block which others can see.
func (t *steady) enterDay(r *sequence) {
	s := t.s
	filled := r.computed - s.wholeBlocks(r.computed)*s.blockSize
	wait := 1 // until a block is opened
	if filled > 0 {
		wait = 1 + s.blockSize - filled
	}
	if !s.rules.Async && s.visible(r) { // an asynchronous engine knows the tokens of a block one batch later
		wait = min(wait, s.blockSize-filled)
	}
	if s.groups.Beside > 0 {
		wait = min(wait, s.untilTrim(r))
	}
	left := r.maxOutput - r.scheduled
	wait = min(wait, left)
	plain := left - wait
	if s.visible(r) || s.groups.Beside > 0 {
		plain = 0
	}
	t.days.Enter(&r.due, r.servedIn+wait, plain)
}

// catchUp brings the counters of a steady request to the state after a batch was composed.
func (t *steady) catchUp(r *sequence, batch int) {
	served := batch - r.servedIn
	if served > 0 {
		r.share = share{start: r.computed + served - 1, tokens: 1}
	}
	r.computed += served
	r.scheduled += served
	r.servedIn = batch
	if opened := t.s.ceilBlocks(r.computed) - r.blocks(); opened > 0 { // see opensOnly
		r.unregistered += opened
		t.s.register(r, (r.blocks()-1)*t.s.blockSize)
	}
	t.deliver(r, t.s.delivered)
}

// deliver gives r the tokens of the batches up to this one that counted it as steady.
func (t *steady) deliver(r *sequence, batch int) {
	if missed := batch - r.deliveredIn; missed > 0 {
		r.generated += missed
		r.deliveredIn = batch
		r.lastEmitting = t.s.emittingPasses - 1
	}
}

// leave notes that the request at this place of the running list has left it.
func (t *steady) leave(place int) {
	if place < t.prefix {
		t.prefix--
	}
}

// computed returns the number of computed tokens of a request after a batch was composed, and whether it is steady.
func (t *steady) computed(place int, batch int) (tokens int, ok bool) {
	r := t.s.running[place]
	return r.computed + batch - r.servedIn, place < t.prefix && !r.ending()
}

// clear brings all requests up to date and leaves none steady: batches that count them list them from now on.
func (t *steady) clear() {
	if t.prefix == 0 {
		return
	}
	s := t.s
	members := s.running[:t.prefix]
	served := s.composed
	if b := s.composing; b != nil && b.steady == 0 {
		served-- // their turn in this batch has not come yet
	}
	for _, r := range members {
		if r.ending() {
			t.deliver(r, s.delivered)
		} else {
			t.catchUp(r, served)
		}
	}
	for _, b := range []*batch{s.flying, s.composing} {
		if b != nil {
			b.list(members)
		}
	}
	t.prefix, t.size, t.context = 0, 0, 0
	t.days.Clear()
}

// list makes the batch name the steady requests that it counts. They precede those that it names already.
func (b *batch) list(steady []*sequence) {
	if b.steady == 0 {
		return
	}
	var named []*sequence
	for _, r := range steady {
		if r.deliveredIn < b.number && r.servedIn >= b.number && !(r.ending() && r.servedIn == b.number) {
			r.deliveredIn = b.number
			named = append(named, r)
		}
	}
	if len(named) != b.steady {
		panic("vllm: a batch counts other steady requests than there are")
	}
	b.emitting = append(named, b.emitting...)
	b.steady = 0
}

// opensBlock returns the number of blocks that the next token of r needs: one in each group, or none.
func (s *Scheduler) opensBlock(r *sequence) int {
	if s.wholeBlocks(r.computed)*s.blockSize == r.computed {
		return 1 + s.groups.Beside
	}
	return 0
}

// visible reports whether it matters outside r when its next block is registered.
func (s *Scheduler) visible(r *sequence) bool {
	return s.observed || r.listed() < r.key.Shareable
}
