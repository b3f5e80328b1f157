package sglangsrt

import "dynosim/gocore/timing"

// coast runs many passes at once. While nothing can be admitted and no request ends, passes follow each other that give each
// running request one token and open a page now and then; all that a shell can see of them is when they end. Coast only
// computes the ends; Settle carries out as many of the passes as the shell wants, which may change its mind when a request
// arrives in the midst of them.
type coast struct {
	endsMs  []float64
	opening []int // pages that each of the passes opens when its batch is composed
	phases  []int // requests by computed tokens modulo the page size; all 0 between calls
}

// mostCoasted bounds the passes of a coast: an arrival throws away those that have not started.
const mostCoasted = 64

// Coast implements [engine.Coaster].
func (s *Scheduler) Coast(nowMs, untilMs float64) []float64 {
	passes, context := s.mereDecodes()
	if passes == 0 {
		return nil
	}
	c := &s.coast
	c.endsMs, c.opening = c.endsMs[:0], c.opening[:0]
	s.countPhases(+1)
	available, free := s.pool.Available(), s.pool.Free()
	var aheadMs float64
	if s.rules.Overlap {
		aheadMs = s.flying.ms
	}
	for atMs := nowMs; atMs < untilMs && len(c.endsMs) < passes; {
		opening := c.phases[(s.pageSize-len(c.opening)%s.pageSize)%s.pageSize]
		if opening*s.pageSize > available || s.observed && free < len(s.running)*s.pageSize {
			break
		}
		available -= opening * s.pageSize
		free -= opening * s.pageSize
		context += len(s.running)
		passMs := s.decodeMs(len(s.running), context)
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
	s.countPhases(-1)
	return c.endsMs
}

// mereDecodes is how many of the next passes compose a batch that gives the same requests one token each, and deliver one
// that did and ends none of them, as far as pages last; and the computed tokens of these requests.
func (s *Scheduler) mereDecodes() (passes, context int) {
	if s.stepwise || s.shapes != nil || !timing.Pure(s.clock.Model) {
		return 0, 0
	}
	if s.receiver.prefill || len(s.running) == 0 || len(s.prefilled) > 0 || s.chunked != nil || s.over > 0 || s.waiting.Len() > 0 && !s.full || len(s.rejected) > 0 {
		return 0, 0
	}
	if s.rules.Overlap && (s.flying == nil || len(s.flying.decodes) != len(s.running)) {
		return 0, 0
	}
	passes = mostCoasted
	for _, r := range s.running {
		if r.lastEmitting != s.emittingPasses-1 {
			return 0, 0
		}
		passes = min(passes, r.maxOutput-r.scheduled)
		context += r.computed
	}
	if !s.rules.Overlap {
		passes-- // the token of the last one is delivered in the pass that composes it
	}
	if s.unread.Len() > 0 {
		passes = min(passes, s.receiver.skips())
	}
	return max(passes, 0), context
}

// countPhases counts the running requests into or out of phases.
func (s *Scheduler) countPhases(sign int) {
	if s.coast.phases == nil {
		s.coast.phases = make([]int, s.pageSize)
	}
	for _, r := range s.running {
		s.coast.phases[r.computed%s.pageSize] += sign
	}
}

// Settle implements [engine.Coaster].
func (s *Scheduler) Settle(passes int) {
	for _, opening := range s.coast.opening[:passes] {
		s.pool.MakeRoom(len(s.running) * s.pageSize)
		s.pool.Take(opening * s.pageSize)
		s.ratio.decay()
	}
	s.receiver.composed(passes)
	s.emittingPasses += passes
	context := 0
	for _, r := range s.running {
		r.computed += passes
		r.scheduled += passes
		r.generated += passes
		r.lastEmitting = s.emittingPasses - 1
		s.pool.Fit(&r.lease, r.computed)
		context += r.computed
	}
	if b := s.flying; b != nil && passes > 0 {
		b.context, b.ms, b.inUse = context, s.decodeMs(len(s.running), context), s.inUse()
		if s.reporting {
			b.work = workOf(b)
		}
	}
}
