package sglang

import "slices"

// retractUntilFits retracts running requests until there are slots for what the others may emit, and pages where that
// starts some. The two are counted separately: the slots that are left in last pages do not count as room for new
// pages. One request is left in any case. The slots that the others may need are returned.
func (s *Scheduler) retractUntilFits() (slots int) {
	if s.drafts != nil {
		if slots, ok := s.ampleForBursts(); ok {
			return slots
		}
	}
	for {
		actual := s.pool.Available()
		slots, growth := s.demand()
		if len(s.running) == 1 || actual >= slots && max(0, actual-s.load.overhead()) >= growth {
			return slots
		}
		s.retract(s.victim())
	}
}

// demand returns the slots for what the running requests may emit in this pass, and those of the pages that this
// starts.
func (s *Scheduler) demand() (slots, growth int) {
	if s.drafts != nil {
		return s.demandOfBursts()
	}
	return len(s.running), s.load.full * s.pageSize
}

// victim returns the place of the running request with the fewest output tokens, of equals that of the first.
func (s *Scheduler) victim() int {
	fewest := 0
	for i, r := range s.running {
		if s.generated(r) < s.generated(s.running[fewest]) {
			fewest = i
		}
	}
	return fewest
}

// retract makes a running request give its slots back. Its tokens stay, and so does what the tree has of them, until it
// is evicted.
func (s *Scheduler) retract(i int) {
	admittedNow := i >= s.joined
	r := s.stop(i)
	if admittedNow { // its prompt is part of this pass
		s.parts.LoseAtEnd(r.id)
	} else {
		s.parts.LoseAtStart(r.id)
	}
	s.pool.Retract(&r.holding)
	r.status = retracted
	s.retracted = append(s.retracted, r)
	s.out.Scheduled++
}

// stop takes a request out of the running ones and brings it up to date.
func (s *Scheduler) stop(i int) *sequence {
	r := s.running[i]
	s.running = slices.Delete(s.running, i, i+1)
	if i < s.joined {
		s.joined--
		s.catchUp(r, s.emissions)
	}
	s.count(r, -1)
	r.generated = s.generated(r)
	r.status = waiting
	return r
}

// requeueRetracted ends a pass: retracted requests go to the front of the queue, the first one foremost, and the
// ratio is set for the next pass.
func (s *Scheduler) requeueRetracted() {
	for _, r := range slices.Backward(s.retracted) {
		s.waiting.PushFront(r)
	}
	s.ratio.next(len(s.retracted) > 0)
	if len(s.retracted) > 0 {
		s.lpm.sorted = false
		s.destinations.RoomMade()
	}
	s.retracted = s.retracted[:0]
}

// newTokenRatio is how much of their future output running requests are expected to generate before one of them
// finishes. It starts pessimistic, decays pass by pass, and jumps back when a retraction has shown that it was too low.
type newTokenRatio struct {
	value, initial, lowest, step float64
}

func newRatio(conservativeness float64) newTokenRatio {
	initial := 0.7 * conservativeness
	lowest := initial * 0.14
	return newTokenRatio{value: initial, initial: initial, lowest: lowest, step: (initial - lowest) / 600}
}

// next sets the ratio after a pass, an idle one included.
func (r *newTokenRatio) next(retracted bool) {
	if retracted {
		r.value = r.initial
	}
	r.value = max(r.value-r.step, r.lowest)
}
