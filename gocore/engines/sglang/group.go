package sglang

import (
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/internal/lockstep"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/timing"
)

// Group is an SGLang engine with data-parallel attention (dp_size): ranks that each have a scheduler, a pool and a tree
// of their own. Before every batch the ranks exchange how many tokens each has, since the expert layers of all ranks
// work together. So all start their batches together, and a round takes as long as the part of the slowest:
//
//	rank 0   |--prompts-------|-decode--|--prompts--|
//	rank 1   |-decode-........|-decode-.|...........|      dots: the rank waits
//
// A rank without work takes part with an empty batch. Requests go to the ranks in turn, as SGLang's controller sends
// them by default. With a host tier (host_cache) each rank has one of its own, and all wait for one that stands still
// for a copy (grouphost.go).
type Group struct {
	ranks []*Scheduler
	sent  int // requests so far that went in turn

	inFlight bool // with overlap scheduling: the next round has been composed
	lost     engine.Lockstep
	batches  []*batch // of the round that runs
	out      engine.Pass
	parts    *engine.Parts
	holders  lockstep.Holders // nil unless observed as one worker
	events   lockstep.Events
	coast    groupCoast
}

// conservativenessOfRanks is the factor that SGLang gives schedule_conservativeness with data-parallel attention.
const conservativenessOfRanks = 0.3

// NewGroup returns idle ranks, which share the chunk.
func NewGroup(args engineargs.Args, setup engine.Setup) *Group {
	g := &Group{parts: engine.NewParts(setup.Explain), ranks: make([]*Scheduler, args.Ranks)}
	args.SGLang.ChunkedPrefillSize /= args.Ranks
	args.SGLang.Conservativeness *= conservativenessOfRanks
	names := &kvcache.Namer{}
	for i := range g.ranks {
		g.ranks[i] = New(args, setup.OfRank(i))
		g.ranks[i].namer = names
	}
	g.batches = make([]*batch, len(g.ranks))
	return g
}

var (
	_ engine.CoastReporter = (*Group)(nil)
	_ engine.Ranked        = (*Group)(nil)
	_ engine.Abandoner     = (*Group)(nil)
)

// Add implements [engine.Engine].
func (g *Group) Add(req engine.Request) {
	to := req.OnRank - 1
	if to < 0 {
		to = g.ChooseRank(req.SentMs)
	}
	g.ranks[to].Add(req)
}

// ChooseRank implements [engine.Ranked].
func (g *Group) ChooseRank(float64) int {
	g.sent++
	return (g.sent - 1) % len(g.ranks)
}

// RunPass implements [engine.Engine]. With overlap scheduling all ranks compose the round after this one now, those
// included that have nothing to run in this one.
func (g *Group) RunPass(nowMs float64) (pass *engine.Pass, alive bool) {
	g.out.Reset(nowMs, g.parts)
	for _, s := range g.ranks {
		s.begin(nowMs)
	}
	if g.held(nowMs) {
		return g.stand(), true
	}
	for i, s := range g.ranks {
		if g.batches[i] = s.flying; !g.inFlight {
			g.batches[i] = s.compose()
		}
	}
	if !g.inFlight && g.meet(g.batches) > nowMs && g.postpone() {
		return g.stand(), true
	}
	ahead := g.composeAhead()
	g.deliver()
	g.inFlight = slices.ContainsFunc(ahead, (*batch).runs)
	for i, s := range g.ranks {
		s.spares.Put(g.batches[i])
		s.flying = nil
		if g.inFlight {
			s.flying = ahead[i]
		} else if ahead != nil {
			s.spares.Put(ahead[i])
		}
	}
	g.merge()
	changed := slices.ContainsFunc(g.ranks, func(s *Scheduler) bool { return len(s.out.KVEvents) > 0 })
	return &g.out, changed || !g.out.Idle() || g.Requests() == 0
}

// runs reports whether a batch has anything to compute.
func (b *batch) runs() bool { return !b.empty() }

// composeAhead composes the round after the one that starts now, with overlap scheduling; nil without, and if nothing
// runs now.
func (g *Group) composeAhead() []*batch {
	if !g.ranks[0].rules.Overlap || !slices.ContainsFunc(g.batches, (*batch).runs) {
		return nil
	}
	ahead := make([]*batch, len(g.ranks))
	for i, s := range g.ranks {
		s.flying = g.batches[i]
		ahead[i] = s.compose()
	}
	g.meet(ahead)
	return ahead
}

// deliver carries out the batches of all ranks.
func (g *Group) deliver() {
	g.shareExperts()
	emits, endMs := false, 0.0
	for i, s := range g.ranks {
		s.run(g.batches[i])
		emits, endMs = emits || g.batches[i].decodes > 0, max(endMs, s.out.EndMs)
	}
	for i, s := range g.ranks {
		b := g.batches[i]
		s.emits = emits
		s.results(b, endMs)
		if emits && b.tokens == 0 {
			s.lapsed = true
		}
	}
}

// shareExperts corrects how long batches take if the model knows the time of expert layers: they compute a rank's share
// of the tokens of all ranks, and each batch was measured as if all ranks had its own number of them.
func (g *Group) shareExperts() {
	clock := &g.ranks[0].clock
	if !clock.KnowsExperts() {
		return
	}
	prompts, decodes := 0, 0
	for _, b := range g.batches {
		prompts += b.promptTokens()
		decodes += b.decodes
	}
	n := len(g.ranks)
	prefillMs := clock.ExpertsMs(timing.Prefill, (prompts+n-1)/n)
	decodeMs := clock.ExpertsMs(timing.Decode, (decodes+n-1)/n)
	for _, b := range g.batches {
		if !b.empty() {
			more := prefillMs - clock.ExpertsMs(timing.Prefill, b.promptTokens())
			more = max(more, -b.promptMs)
			b.promptMs += more
			b.ms = max(b.promptMs, b.ms+more+decodeMs-clock.ExpertsMs(timing.Decode, b.decodes))
		}
	}
}

// promptTokens returns the number of prompt tokens that a batch computes, as the timing model is asked for them.
func (b *batch) promptTokens() int {
	n := len(b.prefills)
	if n == 0 {
		return 0
	}
	return n * max(0, b.islSum/n-b.prefixSum/n)
}

// merge puts together what the ranks did.
func (g *Group) merge() {
	slowest := 0
	g.out.EndMs = g.out.StartMs
	for i, s := range g.ranks {
		if s.out.EndMs > g.out.EndMs {
			g.out.EndMs, slowest = s.out.EndMs, i
		}
		if s.pool.Tiered() {
			s.out.Copied = s.takeCopied()
		}
		lockstep.Merge(&g.out, i, &s.out)
		if s.observed {
			s.out.KVEvents = s.pool.TakeEvents()
		}
		g.events.Add(g.holders, i, s.out.KVEvents)
	}
	g.out.KVEvents, g.out.KVEventsAtMs = g.events.Take(g.out.KVEvents), g.out.EndMs
	g.lost.PassMs += float64(len(g.ranks)) * (g.out.EndMs - g.out.StartMs)
	for i, s := range g.ranks {
		g.lost.WaitMs += g.out.EndMs - s.out.EndMs
		if g.parts != nil {
			lockstep.MergeParts(g.parts, i, s.parts, i == slowest)
		}
	}
	g.awaitCopy()
	for _, s := range g.ranks {
		s.lastEndMs = g.out.EndMs
	}
}

// Lockstep implements [engine.LockstepReporter].
func (g *Group) Lockstep() engine.Lockstep { return g.lost }

// Abandon implements [engine.Abandoner].
func (g *Group) Abandon(nowMs float64) (copied engine.Copied) {
	for _, s := range g.ranks {
		copied.Add(s.Abandon(nowMs))
	}
	return copied
}

// Cancel implements [engine.Engine].
func (g *Group) Cancel(id engine.RequestID) {
	for _, s := range g.ranks {
		s.Cancel(id)
	}
}

// Unblock implements [engine.Engine].
func (g *Group) Unblock() bool { return false }

// Requests implements [engine.Engine].
func (g *Group) Requests() int {
	all := 0
	for _, s := range g.ranks {
		all += s.Requests()
	}
	return all
}

// States implements [engine.Engine]: rank after rank.
func (g *Group) States() []engine.RequestState {
	var all []engine.RequestState
	for _, s := range g.ranks {
		all = append(all, s.States()...)
	}
	return all
}

// Observe implements [engine.Engine].
func (g *Group) Observe() {
	g.holders = lockstep.NewHolders()
	g.ObserveRanks()
}

// ObserveRanks implements [engine.Ranked].
func (g *Group) ObserveRanks() {
	for _, s := range g.ranks {
		s.Observe()
	}
}

// ReportWork implements [engine.Reporter].
func (g *Group) ReportWork() {
	for _, s := range g.ranks {
		s.ReportWork()
	}
}

// Work implements [engine.Reporter]: the sum of all ranks.
func (g *Group) Work() engine.Work {
	var all engine.Work
	for _, s := range g.ranks {
		w := s.Work()
		all.Scheduled.Merge(w.Scheduled)
		all.Queued.Merge(w.Queued)
	}
	return all
}

// Load implements [engine.Reporter]: the sum of all ranks.
func (g *Group) Load() (waiting, running, activeBlocks int) {
	for _, s := range g.ranks {
		w, r, b := s.Load()
		waiting, running, activeBlocks = waiting+w, running+r, activeBlocks+b
	}
	return waiting, running, activeBlocks
}

// RankLoad implements [engine.Ranked].
func (g *Group) RankLoad(rank int) (waiting, running, activeBlocks int) { return g.ranks[rank].Load() }

// RankWork implements [engine.Ranked].
func (g *Group) RankWork(rank int) engine.Work { return g.ranks[rank].Work() }

// RankPass implements [engine.Ranked].
func (g *Group) RankPass(rank int) *engine.Pass { return &g.ranks[rank].out }
