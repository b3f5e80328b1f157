package vllm

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/timing"
)

// Coasting runs many passes at once. While all running requests are steady and none can be admitted, passes follow each
// other that give each request one token and open a block now and then; all that a shell can see of them is when they
// end. Coast only computes the ends; Settle carries out as many of the passes as the shell wants, which may change its
// mind when a request arrives in the midst of them.

// Coast implements [engine.Coaster].
func (s *Scheduler) Coast(nowMs, untilMs float64) []float64 {
	if !s.merelyDecodes() {
		return nil
	}
	ends := s.coastEnds[:0]
	c := s.newCoast()
	for atMs := nowMs; atMs < untilMs && c.composeNext(); {
		endMs := atMs + c.passMs
		if endMs <= atMs {
			break
		}
		ends, atMs = append(ends, endMs), endMs
	}
	s.coastEnds, s.coastAtMs = ends, nowMs
	return ends
}

// merelyDecodes reports whether the next pass gives all running requests a token, and does nothing besides.
func (s *Scheduler) merelyDecodes() bool {
	t := &s.steady
	if t.size == 0 || t.size < len(s.running) || t.size > s.args.MaxNumBatchedTokens || s.trace != nil ||
		s.shapes != nil || !timing.Pure(s.clock.Model) {
		return false
	}
	if s.rules.Async && (s.flying == nil || s.flying.steady != t.size || s.flying.tokens() != t.size ||
		s.flying.durations.prefillCount > 0) {
		return false
	}
	if s.endsPending() || s.offload != nil && !s.offload.quiet() {
		return false
	}
	return len(s.running) >= s.rules.MaxActiveSeqs || !s.pulls.mayRun() && (s.waiting.Len() == 0 || s.headWaits)
}

// coast looks ahead at batches of steady requests.
type coast struct {
	s       *Scheduler
	batch   int // composed last
	last    int // the last batch that may be composed
	context int
	inUse   int
	batchMs float64 // how long the batch takes that was composed last
	// with the blocks that are in use now; those of a request that ended since may have been in use then
	measured  bool
	passMs    float64 // how long the next pass takes
	hostMs    float64 // of each pass
	available int
}

func (s *Scheduler) newCoast() coast {
	c := coast{
		s: s, batch: s.composed, last: s.composed + s.blockSize - 1,
		context: s.steady.context, inUse: s.pool.InUse(), available: s.pool.Free(),
		hostMs: s.clock.HostMs(s.steady.size),
	}
	if s.rules.Async {
		c.batchMs = s.flying.durations.decodeMs
	}
	return c
}

// composeNext looks at the next batch and reports whether it merely decodes. An asynchronous engine composes it while
// the one before runs, another one when it starts itself.
func (c *coast) composeNext() bool {
	s := c.s
	c.batch++
	opening, plain := s.steady.days.Due(c.batch)
	c.last = min(c.last, c.batch+plain-1)
	if c.batch > c.last || opening > c.available {
		return false
	}
	c.available -= opening
	c.inUse += opening
	c.context += s.steady.size
	c.passMs = c.batchMs
	if opening > 0 || !c.measured || s.clock.Model != nil { // the polynomial only looks at the blocks
		c.measured = true
		c.batchMs = s.decodeMs(s.steady.size, c.context, c.inUse) + c.hostMs
	}
	if !s.rules.Async {
		c.passMs = c.batchMs
	}
	return true
}

// Settle implements [engine.Coaster].
func (s *Scheduler) Settle(passes int) {
	t := &s.steady
	if passes > 0 && s.use.lacks != engine.NoLack {
		s.use.pass(s.coastEnds[passes-1] - s.coastAtMs)
	}
	for range passes {
		s.composed++
		s.interval.begin(s.running)
		s.interval.end(composed{served: true, waiting: s.waiting.Len() > 0})
		t.context += t.size
		if !t.opensOnly(s.composed) {
			t.serveDue(t.takeDue(s.composed), s.composed, nil) // none of them ends
		}
		s.delivered++
		s.emittingPasses++
	}
	if s.rules.Async && passes > 0 {
		b := s.flying
		b.explained.Reset()
		*b = batch{
			number: s.composed, steady: t.size, scheduled: t.size, ends: b.ends[:0], emitting: b.emitting[:0],
			noticed:   b.noticed[:0],
			explained: b.explained,
		}
		b.durations.context = t.context
		s.measure(b)
		if s.reporting {
			b.work = s.workOf(b)
		}
	}
}
