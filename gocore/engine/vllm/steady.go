package vllm

import "slices"

// steady is a shortcut through passes in which every running request just gets its next token and nobody can be admitted.
// Such a pass touches only the requests that open a block or finish with it; the rest is counting:
//
//	emitting pass     7     8     9    10    11    12
//	due               A     -     C,A   -     -     B       A opens a block with its token of pass 7 and ends with pass 9
//	emitting          3     3     3     2     2     2
//
// The calendar holds every running request at the next pass in which it is due; with a block at most every block_size
// tokens, that many days are enough. A request that is not due is brought up to date only when somebody looks at it
// (catchUp). The shortcut ends when an arrival, a finished request or a shortage of blocks could change what is
// scheduled; the ordinary pass that follows finds everything as if there were no shortcut.
type steady struct {
	on       bool
	off      bool // for tests: never take the shortcut
	calendar []*sequence
	due      []*sequence // scratch
}

// enterSteady starts the shortcut if the pass that has just been run was the last interesting one.
func (s *Scheduler) enterSteady() {
	if s.steady.off || s.stall.alone || s.out.Tokens == 0 || len(s.running) == 0 ||
		len(s.running) > s.args.MaxNumBatchedTokens || !s.admissionClosed() {
		return
	}
	for _, r := range s.running {
		if r.lastTokenPass != s.emittingPasses-1 { // no token in this pass
			return
		}
	}
	if s.steady.calendar == nil {
		s.steady.calendar = make([]*sequence, s.blockSize)
	}
	for _, r := range s.running {
		s.enterCalendar(r)
	}
	s.steady.on = true
}

// admissionClosed reports whether the next pass is sure to admit and to reject nobody as long as all that happens is that
// requests generate tokens: then the blocks that the head of the queue lacks become ever fewer.
func (s *Scheduler) admissionClosed() bool {
	if s.waiting.Len() == 0 || len(s.running) >= s.args.MaxNumSeqs {
		return true
	}
	return s.headLacksBlocks && !s.left && s.args.ChunkedPrefill
}

// runSteady runs a pass by the calendar. It reports false, with everything up to date, if the pass needs the ordinary way.
func (s *Scheduler) runSteady(nowMs float64) bool {
	if !s.steady.on {
		return false
	}
	due := s.takeDue()
	opening := 0
	for _, r := range due {
		s.catchUp(r)
		if s.opensBlock(r) {
			opening++
		}
	}
	if opening > s.pool.Available() {
		s.leaveSteady()
		return false
	}
	s.begin(nowMs)
	s.out.Scheduled = len(s.running)
	s.out.Tokens = len(s.running) - len(due) // emitToken adds those that are due
	s.out.EndMs = nowMs + s.decodeSeconds()*1000
	for _, r := range due {
		s.emitToken(r)
	}
	s.emittingPasses++
	for _, r := range due {
		if r.status == running {
			s.enterCalendar(r)
		}
	}
	if s.left {
		s.removeGone()
		if s.waiting.Len() > 0 || len(s.running) == 0 {
			s.leaveSteady()
		}
	}
	return true
}

// leaveSteady brings everybody up to date for an ordinary pass.
func (s *Scheduler) leaveSteady() {
	if !s.steady.on {
		return
	}
	s.steady.on = false
	clear(s.steady.calendar)
	for _, r := range s.running {
		s.catchUp(r)
	}
}

// takeDue removes the requests that are due in this pass from the calendar, in running order.
func (s *Scheduler) takeDue() []*sequence {
	day := s.emittingPasses & (s.blockSize - 1)
	due := s.steady.due[:0]
	for r := s.steady.calendar[day]; r != nil; r = r.nextDue {
		due = append(due, r)
	}
	s.steady.calendar[day] = nil
	slices.SortFunc(due, func(a, b *sequence) int { return a.place - b.place })
	s.steady.due = due
	return due
}

// enterCalendar notes the next pass, from now on, in which r opens a block or finishes.
func (s *Scheduler) enterCalendar(r *sequence) {
	untilBlock := s.blockSize - (r.tokens()-1)&(s.blockSize-1)
	day := (s.emittingPasses + min(untilBlock, r.maxOutput-r.generated) - 1) & (s.blockSize - 1)
	r.nextDue = s.steady.calendar[day]
	s.steady.calendar[day] = r
}

// catchUp gives r the tokens of the emitting passes in which it was not due.
func (s *Scheduler) catchUp(r *sequence) {
	missed := s.emittingPasses - 1 - r.lastTokenPass
	r.lastTokenPass += missed
	r.generated += missed
	r.computed = r.tokens() - 1
	r.allocated = max(r.allocated, r.computed)
}

// opensBlock reports whether the next token of r needs a block.
func (s *Scheduler) opensBlock(r *sequence) bool {
	return r.tokens()&(s.blockSize-1) == 0
}
