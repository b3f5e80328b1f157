package vllm

import (
	"slices"

	"dynosim/gocore/engineargs"
)

// victim returns the running request that gives up its blocks next: the one admitted last, or first under FIFO, unless
// a policy chooses. During emission the list still holds requests that have left.
func (s *Scheduler) victim() (int, *sequence) {
	if s.choice.policy != nil {
		i := s.chosenVictim()
		return i, s.running[i]
	}
	for i := range s.running {
		if s.args.Preemption == engineargs.LIFO {
			i = len(s.running) - 1 - i
		}
		if r := s.running[i]; r.status == running {
			return i, r
		}
	}
	panic("vllm: a block is missing although no request runs")
}

// preemptWhileServing preempts a running request, takes its share of this pass back, and bars admission in this pass.
func (s *Scheduler) preemptWhileServing() *sequence {
	s.steady.clear(true)
	i, r := s.victim()
	s.running = slices.Delete(s.running, i, i+1)
	if r.share.pass == s.passes {
		s.count(r, -1)
		r.share.pass = -1
	}
	s.preempted = true
	s.parts.LoseAtStart(r.id)
	s.preempt(r)
	return r
}

// preemptWhileEmitting preempts a running request; emit removes it from the list afterwards.
func (s *Scheduler) preemptWhileEmitting() *sequence {
	_, r := s.victim()
	s.leaving = append(s.leaving, r)
	s.parts.LoseAtEnd(r.id)
	s.preempt(r)
	return r
}

// preempt takes all blocks from r and puts it at the front of the waiting queue. Its tokens stay; their KV is lost.
func (s *Scheduler) preempt(r *sequence) {
	s.pool.Release(r.slots)
	r.slots = r.slots[:0]
	r.status = preempted
	r.computed, r.allocated = 0, 0
	s.waiting.PushFront(r)
	s.roomMade()
	s.stall.preemptions++
}
