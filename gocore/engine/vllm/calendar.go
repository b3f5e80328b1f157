package vllm

import "slices"

// calendar is a shortcut for requests that merely decode. Each pass gives such a request one token, and hardly any pass
// needs to look at it: only those in which it opens a block or finishes.
//
//	emitting pass     7     8     9    10    11    12
//	due               A     -     C,A   -     -     B       A opens a block with its token of pass 7 and ends with pass 9
//	emitting          3     3     3     2     2     2
//
// The first size requests of the running list are on the calendar, each at the next pass in which it is due; as a block
// lasts block_size tokens, that many days are enough. In all other passes they are only counted: a pass costs what is due
// plus the requests that are not on the calendar. A request that is not due is brought up to date when it is
// looked at (catchUp); a preemption, or a shortage of blocks or budget, takes all requests off the calendar first.
//
// A request enters the calendar with its first token, once all requests before it in the running list are on it.
type calendar struct {
	off     bool // serve every request by itself
	size    int
	context int         // tokens of all sequences on the calendar
	days    []*sequence // due in the emitting pass of this number, modulo the length; linked by nextDue
	due     []*sequence // scratch
}

// serveCalendar takes the budget of the requests on the calendar, one token each.
func (s *Scheduler) serveCalendar() {
	if s.calendar.size > s.budget {
		s.clearCalendar(false)
	}
	s.budget -= s.calendar.size
	s.out.Scheduled += s.calendar.size
}

// emitByCalendar emits the tokens of the requests on the calendar. It reports false, with all requests off the calendar, if
// the blocks that this pass opens might not suffice: then each token needs the ordinary way.
func (s *Scheduler) emitByCalendar() bool {
	due := s.takeDue()
	opening := 0
	for _, r := range due {
		s.catchUp(r)
		opening += s.opensBlock(r)
	}
	for _, r := range s.ready {
		opening += s.opensBlock(r)
	}
	if opening > s.pool.Available() {
		s.clearCalendar(true)
		return false
	}
	s.calendar.context += s.calendar.size
	s.out.Tokens += s.calendar.size - len(due) // emitToken counts those that are due
	for _, r := range due {
		s.emitToken(r)
	}
	return true
}

// updateCalendar follows up a pass that emitted tokens: those that were due get a new day, and requests that have begun to
// decode enter.
func (s *Scheduler) updateCalendar() {
	for _, r := range s.calendar.due {
		if r.status == running {
			s.enterDay(r)
		}
	}
	s.calendar.due = s.calendar.due[:0]
	if s.calendar.off {
		return
	}
	for s.calendar.size < len(s.running) {
		r := s.running[s.calendar.size]
		if r.lastTokenPass != s.emittingPasses-1 {
			return
		}
		s.enterDay(r)
		s.calendar.size++
		s.calendar.context += r.tokens()
	}
}

// clearCalendar brings all requests up to date and leaves the calendar empty. served tells whether the pass being run has
// served them already.
func (s *Scheduler) clearCalendar(served bool) {
	if s.calendar.size == 0 {
		return
	}
	for _, r := range s.running[:s.calendar.size] {
		s.catchUp(r)
		if served {
			r.computed++
			r.allocated = max(r.allocated, r.computed)
			r.share = share{pass: s.passes, tokens: 1, promptBefore: r.promptTokens}
		}
	}
	s.calendar.size, s.calendar.context = 0, 0
	s.calendar.due = s.calendar.due[:0]
	clear(s.calendar.days)
}

// takeDue takes the requests that are due in this pass off their day, in running order.
func (s *Scheduler) takeDue() []*sequence {
	c := &s.calendar
	c.due = c.due[:0]
	if c.size == 0 {
		return nil
	}
	day := s.emittingPasses & (s.blockSize - 1)
	for r := c.days[day]; r != nil; r = r.nextDue {
		c.due = append(c.due, r)
	}
	c.days[day] = nil
	slices.SortFunc(c.due, func(a, b *sequence) int { return a.place - b.place })
	return c.due
}

// enterDay notes the next pass, from now on, in which r opens a block or finishes.
func (s *Scheduler) enterDay(r *sequence) {
	if s.calendar.days == nil {
		s.calendar.days = make([]*sequence, s.blockSize)
	}
	untilBlock := s.blockSize - (r.tokens()-1)&(s.blockSize-1)
	day := (s.emittingPasses + min(untilBlock, r.maxOutput-r.generated) - 1) & (s.blockSize - 1)
	r.nextDue = s.calendar.days[day]
	s.calendar.days[day] = r
}

// catchUp gives r, which is on the calendar, the tokens of the emitting passes since it was last looked at.
func (s *Scheduler) catchUp(r *sequence) {
	missed := s.missed(r)
	r.lastTokenPass += missed
	r.generated += missed
	r.computed = r.tokens() - 1
	r.allocated = max(r.allocated, r.computed)
}

// missed is how many tokens r, which is on the calendar, got since it was last looked at.
func (s *Scheduler) missed(r *sequence) int { return s.emittingPasses - 1 - r.lastTokenPass }

// opensBlock is 1 if the next token of r needs a block, else 0.
func (s *Scheduler) opensBlock(r *sequence) int {
	if r.tokens()&(s.blockSize-1) == 0 {
		return 1
	}
	return 0
}
