package vllm

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/timing"
)

// Coasting runs many passes at once. While all running requests are steady (steady.go) and none can be admitted, passes
// follow each other that give each request one token and open a block now and then, and all that a shell could see of
// them is when they end:
//
//	pass      31    32    33    34    35
//	due       -     A     -     -     B       A opens a block, B ends
//	blocks    47    47    48    48
//	          |------- Coast --------|        pass 35 is for RunPass
//
// Coast only computes the ends. Settle carries out as many of the passes as the shell wants, so that it may change its
// mind when a request arrives in the midst of them.

// Coast implements [engine.Coaster].
func (s *Scheduler) Coast(nowMs, untilMs float64) []float64 {
	if s.drafts != nil {
		return s.coastBursts(nowMs, untilMs)
	}
	ends := s.coastEnds[:0]
	if !s.merelyDecodes() {
		return nil
	}
	c := &s.steady
	active, context, available := s.pool.Active()-s.pool.Aside(), c.context, s.pool.Available()
	if s.observed { // evictions are to be told
		available = s.pool.Free()
	}
	hostMs, decodeMs := s.clock.HostMs(c.size), 0.0
	for passes, atMs := s.blockSize-1, nowMs; len(ends) < passes && atMs < untilMs; {
		opening, plain := c.days.Due(s.emittingPasses + len(ends))
		passes = min(passes, len(ends)+plain)
		available -= opening
		if len(ends) >= passes || available < 0 {
			break
		}
		if decodeMs == 0 || s.clock.Model != nil { // the polynomial only looks at the blocks
			seconds := s.clock.DecodeSeconds(c.size, context, active<<s.blockShift, s.pool.Capacity()<<s.blockShift)
			decodeMs = float64(seconds * 1000)
		}
		endMs := (atMs + hostMs) + decodeMs
		if endMs <= atMs {
			break
		}
		ends, atMs = append(ends, endMs), endMs
		context += c.size
		if opening > 0 {
			active, decodeMs = active+opening, 0
		}
	}
	s.coastEnds = ends
	return ends
}

// merelyDecodes reports whether the next pass gives each steady request a token, and does nothing besides.
func (s *Scheduler) merelyDecodes() bool {
	c := &s.steady
	if c.size == 0 || c.size < len(s.running) || c.size > s.args.MaxNumBatchedTokens || s.role == engine.Prefill {
		return false
	}
	if s.destinations.MayReserve() { // at the end of the pass
		return false
	}
	if s.trace != nil { // whose lines should come in the order of time
		return false
	}
	if s.stall.overtaking || s.stall.givesUp { // until a request emits a token, and this pass is the one
		return false
	}
	return timing.Pure(s.clock.Model) && (s.waiting.Len() == 0 || s.headLacksBlocks ||
		len(s.running) >= s.args.MaxNumSeqs)
}

// CoastHostMs implements [engine.CoastExplainer].
func (s *Scheduler) CoastHostMs() float64 { return s.clock.HostMs(len(s.running)) }

// Settle implements [engine.Coaster].
func (s *Scheduler) Settle(passes int) {
	if s.drafts != nil {
		s.settleBursts(passes)
		return
	}
	s.ready = s.ready[:0]
	s.passes += passes
	s.stall.passes, s.stall.instant = 0, 0
	t := &s.steady
	for range passes {
		if due, _ := t.days.Due(s.emittingPasses); due == 0 {
			t.context += t.size
			s.emittingPasses++
			continue
		}
		t.emit()
		s.emittingPasses++
		t.advance()
	}
	if s.observed { // of blocks that only one request can have
		s.pool.TakeEvents()
	}
}
