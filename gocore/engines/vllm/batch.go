package vllm

import (
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/internal/transit"
)

// batch is one pass: what was composed for it, and which requests get a token at its end.
type batch struct {
	number int
	// steady is the number of requests that get a token without being looked at. ends are other steady requests, which
	// get their last one, in running order.
	steady int
	ends   []*sequence
	// emitting are the other requests that get a token, in running order.
	emitting []*sequence

	scheduled int  // requests that got a share
	computes  int  // tokens
	preempted int  // requests
	threshold int  // most tokens of a request, 0 for no limit
	prompts   bool // it computes prompt tokens, or those of a request after a preemption
	durations durations
	work      engine.Phases
	explained *engine.Parts // nil unless passes are to be explained
	noticed   []ending      // transfers that had ended when the batch was composed, which takes effect when it ends
	// With a tier of host memory: when the pass starts, which may have to wait for copies, or ends if it only waits.
	startMs float64
}

// durations is the shape of a batch, see package timing.
type durations struct {
	prefillCount, prefillISL, prefillStart int
	context                                int // tokens of the sequences that get one
	inUse                                  int // blocks
	// requests whose prompts end in this pass, so that they get their first token from it
	ended               int
	endedContext        int // their part of context
	decodes             int // tokens that the decode part was measured with, those of ended requests too
	prefillMs, decodeMs float64
	promptMs, hostMs    float64 // parts of these two
}

func (b *batch) empty() bool { return b.scheduled == 0 }

// tokens returns the number of requests that get a token.
func (b *batch) tokens() int { return b.steady + len(b.ends) + len(b.emitting) }

// compose decides what the next pass does: running requests first, then the waiting queue. Blocks are taken, registered
// and given up at once; tokens come with deliver.
func (s *Scheduler) compose() *batch {
	b := s.newBatch()
	s.composing = b
	s.newStates = s.newStates[:0]
	b.threshold = s.threshold()
	s.interval.begin(s.running)
	budget := s.serveRunning(b)
	switch {
	case b.preempted > 0:
	case s.offload != nil:
		s.offload.admit(b, budget)
	default:
		s.admitWaiting(b, budget)
	}
	if s.offload != nil {
		b.startMs = s.offload.launch(b, s.out.StartMs)
	}
	s.interval.end(composed{
		served: b.scheduled > 0, prompts: b.prompts, preempted: b.preempted > 0, waiting: s.waiting.Len() > 0,
	})
	if s.reporting { // before requests become steady whose prompts end in this batch
		b.work = s.workOf(b)
	}
	s.steady.enter(b)
	s.measure(b)
	s.notice(b)
	s.explainLost(b)
	s.composing = nil
	return b
}

func (s *Scheduler) newBatch() *batch {
	s.composed++
	b := s.spares.Take()
	explained := b.explained
	if explained == nil {
		explained = engine.NewParts(s.parts != nil)
	}
	explained.Reset()
	*b = batch{
		number: s.composed, ends: b.ends[:0], emitting: b.emitting[:0], noticed: b.noticed[:0], explained: explained,
	}
	return b
}

// measure sets how long a batch takes. Blocks in use are those after it was composed. The host's time goes with the
// tokens, if there are any.
func (s *Scheduler) measure(b *batch) {
	d := &b.durations
	d.prefillMs = float64(s.clock.PrefillSeconds(d.prefillCount, d.prefillISL, d.prefillStart) * 1000)
	d.inUse = s.pool.InUse()
	hostMs := s.clock.HostMs(b.scheduled)
	d.promptMs, d.hostMs = d.prefillMs, hostMs
	if b.tokens() > 0 && !s.prefills {
		d.decodes = b.tokens()
		d.decodeMs = s.decodePartMs(b) + hostMs
	} else {
		d.prefillMs += hostMs
	}
}

// decodePartMs returns what the tokens of a batch take. Of a fused pass that computes prompts these are only the tokens
// of requests that decode, and less what any forward takes, which the prompts pay: a step of one of these requests
// alone.
func (s *Scheduler) decodePartMs(b *batch) float64 {
	d := &b.durations
	if !s.rules.Fused || !b.computesPrompts() {
		return s.decodeMs(d.decodes, d.context, d.inUse)
	}
	count, context := d.decodeTokens(true), d.context-d.endedContext
	if count <= 0 {
		return 0
	}
	one := context / count
	return max(0, s.decodeMs(count, context, d.inUse)-s.decodeMs(1, one, s.ceilBlocks(one)))
}

func (s *Scheduler) decodeMs(count, context, blocks int) float64 {
	seconds := s.clock.DecodeSeconds(count, context, blocks*s.blockSize, s.pool.Capacity()*s.blockSize)
	return float64(seconds * 1000)
}

// deliver gives each request of a batch its token, if one is due, and ends those that have their last one.
func (s *Scheduler) deliver(b *batch) {
	s.giveBackLost()
	s.out.EndMs = s.startOf(b) + b.durations.prefillMs
	s.out.Scheduled = b.scheduled
	s.work = b.work
	if b.tokens() > 0 {
		s.out.EndMs += b.durations.decodeMs
		s.out.Tokens = b.tokens()
		for _, r := range b.ends {
			s.steady.deliver(r, b.number-1)
			s.emit(r)
		}
		for _, r := range b.emitting {
			s.emit(r)
		}
		s.emittingPasses++
	}
	s.delivered = b.number
	s.use.pass(s.out.EndMs - s.out.StartMs)
	s.explain(b)
	s.tell(b)
}

// startOf returns when a batch starts that is being delivered.
func (s *Scheduler) startOf(b *batch) float64 {
	if s.offload != nil {
		return b.startMs
	}
	return s.out.StartMs
}

// tell describes a pass to whatever listens. It ends where the pass that was delivered last does.
func (s *Scheduler) tell(b *batch) {
	if s.shapes == nil {
		return
	}
	d, decodes := b.durations, b.tokens()
	if s.prefills {
		decodes = 0
	}
	s.shapes(engine.Shape{
		StartMs: s.startOf(b), EndMs: s.out.EndMs,
		PrefillRequests: d.prefillCount, ISLSum: d.prefillISL, PrefixSum: d.prefillStart,
		DecodeRequests: decodes, ContextSum: d.context,
		InUse: d.inUse, ComputedTokens: b.computes, PreemptedRequests: b.preempted,
	})
}

// emit appends a token to r. A request that was preempted since the batch was composed gets it, too.
func (s *Scheduler) emit(r *sequence) {
	r.generated++
	if r.lastEmitting < s.emittingPasses-1 {
		s.out.Started = append(s.out.Started, engine.TokenRun{ID: r.id, Index: r.generated - 1})
	}
	r.lastEmitting = s.emittingPasses
	last := r.generated == r.maxOutput
	if s.observed && (r.generated == 1 || last) {
		s.out.Signals = append(s.out.Signals, engine.Signal{ID: r.id, Final: last})
	}
	if last {
		s.finish(r)
	}
}

func (s *Scheduler) finish(r *sequence) {
	s.out.Finished = append(s.out.Finished, r.id)
	if r.hold {
		s.out.Held = append(s.out.Held, r.id)
		s.keep(r)
	} else {
		s.remove(r)
	}
}

// remove forgets a request that waits or runs, and gives back all its blocks.
func (s *Scheduler) remove(r *sequence) {
	switch r.status {
	case running:
		s.leaveRunning(r)
		if s.offload != nil {
			s.offload.leave(r)
		}
		s.release(r)
	case loading:
		s.pulls.drop(r)
		s.release(r)
	default:
		s.waiting.Remove(s.waiting.Index(func(q *sequence) bool { return q == r }))
		s.headWaits = false
		if s.offload != nil {
			s.offload.forget(r)
		}
	}
	s.forget(r)
}

func (s *Scheduler) leaveRunning(r *sequence) {
	i, _ := slices.BinarySearchFunc(s.running, r, byPlace)
	s.running = slices.Delete(s.running, i, i+1)
	s.steady.leave(i)
}

// forget drops a request that holds no blocks.
func (s *Scheduler) forget(r *sequence) { s.spareSequences.Put(r) }

// Cancel implements [engine.Engine]. The pass in flight takes as long as it would have taken.
func (s *Scheduler) Cancel(id engine.RequestID) {
	s.pulls.awake = true
	s.overlook(id)
	if r, ok := s.pulls.kept.Take(id); ok {
		s.release(r)
		s.forget(r)
		return
	}
	r := transit.Find(s.running, &s.waiting, id)
	if i := slices.IndexFunc(s.pulls.held, func(q *sequence) bool { return q.id == id }); r == nil && i >= 0 {
		r = s.pulls.held[i]
	}
	if r == nil {
		if s.offload != nil {
			s.offload.cancel(id)
		}
		return
	}
	s.steady.clear()
	if b := s.flying; b != nil {
		isCancelled := func(q *sequence) bool { return q == r }
		b.ends = slices.DeleteFunc(b.ends, isCancelled)
		b.emitting = slices.DeleteFunc(b.emitting, isCancelled)
	}
	s.remove(r)
}
