package vllm

import (
	"slices"

	"dynosim/gocore/engine"
)

// emit gives one token to every running request whose tokens are all computed, including those whose prompt was
// completed in this very pass, and sets the end of the pass. The decode time is that of the whole ready set even if
// some of it loses its turn to a preemption, and zero if no request gets a token.
func (s *Scheduler) emit(decodeStartMs float64) {
	if s.drafts != nil {
		s.emitBursts(decodeStartMs)
		return
	}
	s.out.EndMs = decodeStartMs
	s.findReady()
	if s.steady.size == 0 && len(s.ready) == 0 {
		return
	}
	decode := 0.0 // the one token of a prefill worker is not part of any answer
	if s.role != engine.Prefill {
		decode = s.decodeSeconds()
	}
	if !s.steady.emit() {
		s.findReady()
	}
	for _, r := range s.ready {
		if r.status == running {
			s.emitToken(r)
		}
	}
	if len(s.leaving) > 0 {
		s.removeGone()
	}
	if s.out.Tokens > 0 {
		s.endAfter(decodeStartMs, float64(decode*1000))
		s.emittingPasses++
		s.steady.advance()
	}
}

// endAfter ends the pass with its decode part.
func (s *Scheduler) endAfter(decodeStartMs, decodeMs float64) {
	s.out.EndMs = decodeStartMs + decodeMs
	if s.parts != nil {
		s.parts.DecodeMs = decodeMs
	}
}

// findReady collects the requests that are owed a token, in running order; the steady ones are, all of them.
func (s *Scheduler) findReady() {
	s.ready = s.ready[:0]
	s.readyContext = 0
	for _, r := range s.running[s.steady.size:] {
		if r.ready() {
			s.ready = append(s.ready, r)
			s.readyContext += r.tokens()
		}
	}
}

// removeGone takes those that finished or were preempted out of the running list.
func (s *Scheduler) removeGone() {
	isGone := func(r *sequence) bool { return r.status != running }
	s.steady.leave()
	if len(s.leaving) > fewLeaving {
		s.running = slices.DeleteFunc(s.running, isGone)
		return
	}
	for _, r := range s.leaving {
		i, _ := slices.BinarySearchFunc(s.running, r, byPlace)
		s.running = slices.Delete(s.running, i, i+1)
	}
}

// fewLeaving is up to how many requests are looked up in the running list, instead of going through the whole list.
const fewLeaving = 8

// decodeSeconds returns the decode part of this pass, with the blocks that requests hold after scheduling and before
// emission.
func (s *Scheduler) decodeSeconds() float64 {
	return s.clock.DecodeSeconds(
		s.steady.size+len(s.ready), s.steady.context+s.readyContext,
		(s.pool.Active()-s.pool.Aside())<<s.blockShift, s.pool.Capacity()<<s.blockShift)
}

// emitToken appends a token to r, preempting until its block fits. When r itself is the victim it gets none.
func (s *Scheduler) emitToken(r *sequence) {
	for !s.appendToken(r) {
		if s.preemptWhileEmitting() == r {
			return
		}
	}
	s.out.Tokens++
	s.progressed(r)
	if r.lastTokenPass < s.emittingPasses-1 {
		s.out.Started = append(s.out.Started, engine.TokenRun{ID: r.id, Index: r.generated - 1})
	}
	r.lastTokenPass = s.emittingPasses
	if s.observed && (r.generated == 1 || r.generated == r.maxOutput) {
		s.out.Signals = append(s.out.Signals, engine.Signal{ID: r.id, Final: r.generated == r.maxOutput})
	}
	if r.generated == r.maxOutput {
		s.finish(r)
	}
}

// appendToken adds one generated token. A token that opens a block makes the block before it full and needs a new
// partial one; if none is left the token is taken back and false returned. The last token of a request is no exception.
func (s *Scheduler) appendToken(r *sequence) bool {
	r.generated++
	if (r.tokens()-1)&(s.blockSize-1) != 0 { // it has room in the last block
		return true
	}
	if !s.openBlock(r) {
		r.generated--
		return false
	}
	return true
}

// openBlock gives r a partial block for its next token, if there is one left. The block before it has become full.
func (s *Scheduler) openBlock(r *sequence) bool {
	if r.full < r.listed {
		s.pool.Promote(r.slots, r.key.Block(r.full))
		if r.full < r.key.Shareable {
			s.tookShareable()
		}
		r.full++
	}
	slots, ok := s.pool.UsePartial(r.slots)
	if !ok {
		return false
	}
	r.slots = slots
	r.allocated = r.listed<<s.blockShift + 1
	r.listed++
	return true
}

// opensBlock returns 1 if the next token of r needs a block, else 0.
func (s *Scheduler) opensBlock(r *sequence) int {
	if r.tokens()&(s.blockSize-1) == 0 {
		return 1
	}
	return 0
}

// finish releases everything r holds and forgets it; its blocks are there for the next request of the same emission. A
// source keeps both.
func (s *Scheduler) finish(r *sequence) {
	s.out.Finished = append(s.out.Finished, r.id)
	s.leaving = append(s.leaving, r)
	if r.hold {
		s.out.Held = append(s.out.Held, r.id)
		r.status = held
		s.sources.Keep(r)
		return
	}
	s.forget(r)
}

// forget releases everything r holds.
func (s *Scheduler) forget(r *sequence) {
	s.pool.Release(r.slots)
	r.slots = r.slots[:0]
	s.roomMade()
	s.drop(r)
}

// roomMade notes that blocks were given back, or a request less may run.
func (s *Scheduler) roomMade() {
	s.lookAgain()
	s.destinations.RoomMade()
}

// lookAgain forgets why no request could be admitted.
func (s *Scheduler) lookAgain() {
	s.headLacksBlocks = false
	s.stall.stuck = false
}
