package vllm

import (
	"slices"

	"dynosim/gocore/engine"
)

// Hand-offs of a Group (engine.Puller): each rank keeps and loads prompts by itself, as pull.go has it. All ranks
// compose together, so one that is awake wakes the others; the ends of transfers are noticed in common passes.

var _ engine.Puller = (*Group)(nil)

// Awake implements [engine.Puller].
func (g *Group) Awake() bool {
	return slices.ContainsFunc(g.ranks, func(r rank) bool { return len(r.inbox) > 0 || r.Scheduler.Awake() })
}

// endsPending reports whether any transfer has ended without having had its effect yet.
func (g *Group) endsPending() bool {
	return slices.ContainsFunc(g.ranks, func(r rank) bool { return r.Scheduler.endsPending() })
}

// applyLate applies what an empty pass has noticed that was composed ahead, as [Scheduler.applyLate] does.
func (g *Group) applyLate() (trail, some bool) {
	for i := range g.ranks {
		has, noticed := g.ranks[i].applyLate()
		trail, some = trail || has, some || noticed
	}
	return trail, some
}

// again reports whether an empty pass is followed by another one at the same instant.
func (g *Group) again(trail, some bool) bool {
	for i := range g.ranks {
		b := g.ranks[i].batch
		some = some || b.preempted > 0 || len(b.noticed) > 0
	}
	for i := range g.ranks {
		g.ranks[i].again(g.ranks[i].batch, trail, some)
	}
	return some
}

// asks reports whether a rank has asked for prompts in the pass that is composed.
func (g *Group) asks() bool {
	return slices.ContainsFunc(g.ranks, func(r rank) bool { return len(r.out.Loads) > 0 })
}

// sleep puts all ranks to sleep: a pass in which nothing could run has changed nothing.
func (g *Group) sleep() {
	for i := range g.ranks {
		g.ranks[i].pulls.awake = false
	}
}

// Transferred implements [engine.Puller].
func (g *Group) Transferred(id engine.RequestID, atMs float64) {
	if r := g.partOf(id); r != nil {
		r.Transferred(id, atMs)
	}
}

// Instantly implements [engine.Puller].
func (g *Group) Instantly(is func(id engine.RequestID) bool) {
	for i := range g.ranks {
		g.ranks[i].Instantly(is)
	}
}

// partOf returns the rank that keeps or loads the prompt of a request, nil if none does.
func (g *Group) partOf(id engine.RequestID) *rank {
	i := slices.IndexFunc(g.ranks, func(r rank) bool { return r.pulls.kept.Has(id) || r.pulls.loads[id] != nil })
	if i < 0 {
		return nil
	}
	return &g.ranks[i]
}

// idles reports whether a rank has nothing to do in the next pass, and nothing will make it until a request comes or a
// transfer ends.
func (r *rank) idles() bool {
	return len(r.running) == 0 && r.waiting.Len() == 0 && (r.offload == nil || r.offload.quiet()) &&
		!r.pulls.mayRun() &&
		(r.flying == nil || r.flying.empty()) && !r.Scheduler.endsPending()
}
