package sglang

import "dynosim/gocore/timing"

// coast runs many passes at once. While nothing can be admitted and no request ends, passes follow each other that give each
// running request one token and open a page now and then; all that a shell can see of them is when they end. Coast only
// computes the ends; Settle carries out as many of the passes as the shell wants, which may change its mind when a request
// arrives in the midst of them.
type coast struct {
	endsMs  []float64
	opening []int // slots that each of the passes opens when its batch is composed
}

// mostCoasted bounds the passes of a coast: an arrival throws away those that have not started.
const mostCoasted = 64

// Coast implements [engine.Coaster].
func (s *Scheduler) Coast(nowMs, untilMs float64) []float64 {
	passes := s.mereDecodes()
	if passes <= 0 || s.pool.Tiered() && s.pool.Clock() > nowMs {
		return nil
	}
	c := &s.coast
	c.endsMs, c.opening = c.endsMs[:0], c.opening[:0]
	count, context, phase := len(s.running), s.roll.context, s.composed%s.pageSize
	available, free := s.pool.Available(), s.pool.Free()
	whole := s.observed || s.pool.Tiered() // what leaves the tree matters
	var aheadMs float64
	if s.rules.Overlap {
		aheadMs = s.flying.ms
	}
	for atMs := nowMs; atMs < untilMs && len(c.endsMs) < passes; {
		opening := s.roll.phases[phase] * s.pageSize
		if opening > available || whole && free < count*s.pageSize {
			break
		}
		if phase++; phase == s.pageSize {
			phase = 0
		}
		available -= opening
		free -= opening
		context += count
		passMs := s.decodeMs(count, context)
		if s.rules.Overlap {
			passMs, aheadMs = aheadMs, passMs
		}
		endMs := atMs + passMs
		if endMs <= atMs {
			break
		}
		c.endsMs, c.opening = append(c.endsMs, endMs), append(c.opening, opening)
		atMs = endMs
	}
	return c.endsMs
}

// mereDecodes returns how many of the next passes compose a batch that gives the same requests one token each, and deliver one
// that did and ends none of them, as far as pages last.
func (s *Scheduler) mereDecodes() int {
	switch {
	case s.stepwise || s.shapes != nil || !timing.Pure(s.clock.Model):
		return 0
	case s.receiver.prefill || len(s.running) == 0 || len(s.prefilled) > 0 || s.chunked != nil || s.over > 0 || s.roll.ending > 0:
		return 0
	case s.pool.Tiered() && s.pool.Copying():
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
	for _, opening := range s.coast.opening[:passes] {
		s.pool.MakeRoom(len(s.running) * s.pageSize)
		s.pool.Take(opening)
		s.ratio.decay()
	}
	if passes > 0 {
		s.lastEndMs = s.coast.endsMs[passes-1]
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
