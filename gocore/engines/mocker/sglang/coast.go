package sglang

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/timing"
)

// Coasting runs many passes at once. While no request can be admitted and none ends, passes follow each other that give
// each running request one token; all that a shell can see of them is when they end:
//
//	emission   31    32    33    34    35
//	tokens      3     3     3     3     3        one of the requests ends with emission 35
//	          |-------- Coast --------|        that pass is for RunPass
//
// Coast only computes the ends. Settle carries out as many of the passes as the shell wants, so that it may change its
// mind when a request arrives in the midst of them. The scheduler does not know of it.

var _ engine.Coaster = (*Scheduler)(nil)

// mostCoasted bounds the passes of a coast: those that an arrival cuts off have been computed for nothing.
const mostCoasted = 64

// Coast implements [engine.Coaster].
func (s *Scheduler) Coast(nowMs, untilMs float64) []float64 {
	if !s.merelyDecodes() {
		return nil
	}
	if s.drafts != nil {
		return s.coastBursts(nowMs, untilMs)
	}
	ends, load, count := s.coastEnds[:0], s.load, len(s.running)
	available := s.pool.Available()
	if s.observed { // evictions are to be told
		available = s.pool.Free()
	}
	total, passes := s.pool.Total(), min(s.nextFinish-s.emissions-1, mostCoasted)
	hostMs := s.clock.HostMs(count)
	for atMs := nowMs; atMs < untilMs && len(ends) < passes; {
		if available < count || count > 1 && available-load.overhead() < load.full*s.pageSize { // see retractUntilFits
			break
		}
		seconds := s.clock.DecodeSeconds(count, load.tokens, min(load.tokens, total), total)
		endMs := atMs + float64(seconds*1000)
		endMs += hostMs
		if endMs <= atMs {
			break
		}
		ends, atMs = append(ends, endMs), endMs
		available -= count
		load.emit()
	}
	s.coastEnds = ends
	return ends
}

// merelyDecodes reports whether the next pass gives each running request a token, and does nothing besides, as far as
// slots last.
func (s *Scheduler) merelyDecodes() bool {
	d := &s.destinations
	switch {
	case s.stepwise || s.drafts != nil && !s.bursts.allowed || !timing.Pure(s.clock.Model):
		return false
	case len(s.running) == 0 || s.joined < len(s.running) || s.named > 0:
		return false
	case d.prebuilt.Len() > 0 || d.MayReserve(): // they run next, or at the end of the pass
		return false
	case s.waiting.Len() == 0:
		return true
	}
	return len(s.running) >= s.args.MaxNumSeqs && s.args.SGLang.Policy == engineargs.FCFS
}

// CoastHostMs implements [engine.CoastExplainer].
func (s *Scheduler) CoastHostMs() float64 { return s.clock.HostMs(len(s.running)) }

// Settle implements [engine.Coaster].
func (s *Scheduler) Settle(passes int) {
	if s.drafts != nil {
		s.settleBursts(passes)
		return
	}
	for range passes {
		if !s.pool.Take(len(s.running)) {
			panic("sglang: slots that were counted are missing")
		}
		s.load.emit()
		s.ratio.next(false)
	}
	if passes > 0 {
		s.emissions += passes
		s.uses = 0
		s.rescue.emitted()
	}
}
