package vllmv1

import "slices"

// steady is a shortcut for requests that merely decode. Each pass computes one token of such a request and delivers one;
// only a pass in which it opens a block or gets its last token has to look at it.
//
//	batch             7     8     9    10    11    12
//	looked at         A     -     C,A   -     -     B       A opens a block in batch 7 and gets its last token from batch 9
//	steady            3     3     3     2     2     2
//
// The first prefix requests of the running list are steady, or ending: their last token is in flight. The wheel has a day
// for each of the next block_size batches, with the requests that have to be looked at then. The counters of a request
// stand still meanwhile (catchUp brings them up to date). A preemption or a cancelled request ends the steadiness of all.
type steady struct {
	off     bool // look at every request in every pass
	prefix  int
	size    int // requests of the prefix that are not ending
	context int // their computed tokens
	wheel   []*sequence
	due     []*sequence // scratch
}

// serveSteady serves all steady requests. It reports false, with no request steady any more, if blocks are missing: then
// each needs the ordinary way.
func (s *Scheduler) serveSteady(b *batch) bool {
	t := &s.steady
	if t.size == 0 {
		return true
	}
	due := s.takeDue(b.number)
	opening := 0
	for _, r := range due {
		opening += s.opensBlock(r)
	}
	if opening > s.pool.Free() {
		s.clearSteady()
		return false
	}
	b.scheduled, b.computes = t.size, t.size
	t.context += t.size
	b.durations.context = t.context
	b.ends = s.serveDue(due, b.number, b.ends)
	b.steady = t.size
	return true
}

// takeDue takes the requests off the wheel that a batch has to look at, in running order, with their counters as they were
// before that batch.
func (s *Scheduler) takeDue(batch int) []*sequence {
	t := &s.steady
	t.due = t.due[:0]
	day := s.day(batch)
	for r := t.wheel[day]; r != nil; r = r.nextDue {
		s.catchUp(r, batch-1)
		t.due = append(t.due, r)
	}
	t.wheel[day] = nil
	slices.SortFunc(t.due, func(a, b *sequence) int { return a.place - b.place })
	return t.due
}

// opensBlock is 1 if the next token that r computes needs a block, else 0.
func (s *Scheduler) opensBlock(r *sequence) int {
	if r.computed&(s.blockSize-1) == 0 {
		return 1
	}
	return 0
}

// serveDue serves the requests that a batch has to look at, for which there are blocks enough. Those for which it is the last time are
// appended to ends and leave the steady ones.
func (s *Scheduler) serveDue(due []*sequence, batch int, ends []*sequence) []*sequence {
	for _, r := range due {
		if !s.take(r, r.computed+1) {
			panic("vllmv1: a block that was counted is missing")
		}
		r.computed++
		r.scheduled++
		r.servedIn = batch
		s.register(r, min(r.computed, r.tokens()))
		if r.ending() {
			s.steady.size--
			s.steady.context -= r.computed
			ends = append(ends, r)
		} else {
			s.enterDay(r)
		}
	}
	return ends
}

// enterSteady lets requests become steady that the batch, just composed, has made decode: all those that follow the prefix
// without a gap.
func (s *Scheduler) enterSteady(b *batch) {
	t := &s.steady
	for !t.off && t.prefix < len(s.running) {
		r := s.running[t.prefix]
		if r.ending() {
			t.prefix++
			continue
		}
		if r.servedIn != b.number || r.deliveredIn != b.number {
			return
		}
		t.prefix++
		t.size++
		t.context += r.computed
		s.enterDay(r)
	}
}

// enterDay puts r on the wheel, for the next batch that has to look at it: the one that opens a block, the one that gives it
// its last token, or the one that computes the last token of a block which others can see.
func (s *Scheduler) enterDay(r *sequence) {
	filled := r.computed & (s.blockSize - 1)
	wait := 1 // until a block is opened
	if filled > 0 {
		wait = 1 + s.blockSize - filled
	}
	if !s.rules.Async && s.visible(r) { // an asynchronous engine knows the tokens of a block one batch later
		wait = min(wait, s.blockSize-filled)
	}
	day := s.day(r.servedIn + min(wait, r.maxOutput-r.scheduled))
	r.nextDue = s.steady.wheel[day]
	s.steady.wheel[day] = r
}

// visible reports whether it matters outside r when its next block is registered.
func (s *Scheduler) visible(r *sequence) bool { return s.observed || len(r.held) < r.shareable }

// day is the place of a batch on the wheel.
func (s *Scheduler) day(batch int) int { return batch & (s.blockSize - 1) }

// catchUp brings the counters of a steady request to the state after a batch was composed.
func (s *Scheduler) catchUp(r *sequence, batch int) {
	served := batch - r.servedIn
	r.computed += served
	r.scheduled += served
	r.servedIn = batch
	s.deliverSteady(r, s.delivered)
}

// deliverSteady gives r the tokens of the batches up to this one that counted it as steady.
func (s *Scheduler) deliverSteady(r *sequence, batch int) {
	if missed := batch - r.deliveredIn; missed > 0 {
		r.generated += missed
		r.deliveredIn = batch
		r.lastEmitting = s.emittingPasses - 1
	}
}

// clearSteady brings all requests up to date and leaves none steady: batches that count them list them from now on.
func (s *Scheduler) clearSteady() {
	t := &s.steady
	if t.prefix == 0 {
		return
	}
	members := s.running[:t.prefix]
	served := s.composed
	if b := s.composing; b != nil && b.steady == 0 {
		served-- // their turn in this batch has not come yet
	}
	for _, r := range members {
		if r.ending() {
			s.deliverSteady(r, s.delivered)
		} else {
			s.catchUp(r, served)
		}
	}
	for _, b := range []*batch{s.flying, s.composing} {
		if b != nil {
			b.list(members)
		}
	}
	t.prefix, t.size, t.context = 0, 0, 0
	clear(t.wheel)
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
		panic("vllmv1: a batch counts other steady requests than there are")
	}
	b.emitting = append(named, b.emitting...)
	b.steady = 0
}
