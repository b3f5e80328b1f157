package sglang

import "dynosim/gocore/timing"

// coast runs many passes at once. While nothing can be admitted and no request ends, passes follow each other that give
// each running request one token and open a page now and then; all that a shell can see of them is when they end. Coast
// only computes the ends; Settle carries out as many of the passes as the shell wants, which may change its mind when a
// request arrives in the midst of them.
type coast struct {
	endsMs  []float64
	opening []int // slots that each of the passes opens when its batch is composed
}

// mostCoasted bounds the passes of a coast: an arrival throws away those that have not started.
const mostCoasted = 64

// Coast implements [engine.Coaster].
func (s *Scheduler) Coast(nowMs, untilMs float64) []float64 {
	a := s.lookAhead(nowMs)
	c := &s.coast
	c.endsMs = c.endsMs[:0]
	for atMs := nowMs; atMs < untilMs; {
		passMs, ok := a.next()
		endMs := atMs + passMs
		if !ok || endMs <= atMs {
			break
		}
		c.endsMs = append(c.endsMs, endMs)
		atMs = endMs
	}
	return c.endsMs
}

// ahead looks at passes of a coast, one after another.
type ahead struct {
	s               *Scheduler
	passes          int // that may follow
	context, phase  int
	available, free int
	whole           bool    // what leaves the tree matters
	flyingMs        float64 // how long the pass takes whose batch was composed last
}

// lookAhead begins to look at a coast, whose first pass starts at nowMs.
func (s *Scheduler) lookAhead(nowMs float64) ahead {
	a := ahead{s: s, passes: s.mereDecodes()}
	s.coast.opening = s.coast.opening[:0]
	if a.passes <= 0 || s.pool.Tiered() && s.pool.Clock() > nowMs {
		return ahead{}
	}
	a.context, a.phase = s.roll.context, s.composed%s.pageSize
	a.available, a.free = s.pool.Available(), s.pool.Free()
	a.whole = s.observed || s.pool.Tiered()
	if s.rules.Overlap {
		a.flyingMs = s.flying.ms
	}
	return a
}

// next returns how long the next pass takes, and whether there is one.
func (a *ahead) next() (passMs float64, ok bool) {
	if a.passes <= 0 {
		return 0, false
	}
	s, count := a.s, len(a.s.running)
	opening := s.roll.phases[a.phase] * s.pageSize
	if opening > a.available || a.whole && a.free < count*s.pageSize {
		return 0, false
	}
	if a.phase++; a.phase == s.pageSize {
		a.phase = 0
	}
	a.passes--
	a.available -= opening
	a.free -= opening
	a.context += count
	passMs = s.decodeMs(count, a.context)
	if s.rules.Overlap {
		passMs, a.flyingMs = a.flyingMs, passMs
	}
	s.coast.opening = append(s.coast.opening, opening)
	return passMs, true
}

// mereDecodes returns how many of the next passes compose a batch that gives the same requests one token each, and
// deliver one that did and ends none of them, as far as pages last.
func (s *Scheduler) mereDecodes() int {
	switch {
	case s.stepwise || s.shapes != nil || !timing.Pure(s.clock.Model):
		return 0
	case s.lapsed || s.receiver.prefill || len(s.running) == 0 || len(s.prefilled) > 0 || s.chunked != nil:
		return 0
	case s.over > 0 || s.roll.ending > 0:
		return 0
	case s.pool.Tiered() && s.pool.Copying(),
		s.prefetches != nil && len(s.prefetches.under)+len(s.prefetches.unseen) > 0:
		return 0
	case s.waiting.Len() > 0 && !s.full || len(s.rejected) > 0:
		return 0
	case s.going != len(s.running): // one has left the emitting set, and only its next pass shows it
		return 0
	}
	passes := min(mostCoasted, s.roll.nextEnd-s.composed)
	if b := s.flying; !s.rules.Overlap {
		passes-- // the token of the last one is delivered in the pass that composes it
	} else if b == nil || b.tokens != len(s.running) || len(b.fresh) > 0 {
		return 0
	}
	if s.unread.Len() > 0 {
		passes = min(passes, s.receiver.skips())
	}
	return passes
}

// Settle implements [engine.Coaster].
func (s *Scheduler) Settle(passes int) {
	if passes > 0 {
		s.lastEndMs = s.coast.endsMs[passes-1]
	}
	s.settle(passes)
}

// settle carries out the first passes passes that were looked at last, but for their ends.
func (s *Scheduler) settle(passes int) {
	for _, opening := range s.coast.opening[:passes] {
		s.pool.MakeRoom(len(s.running) * s.pageSize)
		s.pool.Take(opening)
		s.ratio.decay()
	}
	s.receiver.composed(passes)
	s.composed += passes
	s.delivered += passes
	s.roll.context += passes * len(s.running)
	s.roll.owed -= passes * len(s.running)
	if b := s.flying; b != nil && passes > 0 {
		b.number, b.context = s.composed, s.roll.context
		b.ms, b.inUse = s.decodeMs(len(s.running), b.context), s.inUse()
		if s.reporting {
			b.work = s.workOf(b)
		}
		s.takeEnds(b)
	}
}
