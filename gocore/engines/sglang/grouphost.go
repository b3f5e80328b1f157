package sglang

import (
	"math"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/internal/lockstep"
)

// Host tiers of a Group: each rank copies by itself. A rank that copies what it evicts (write_back) stands still until
// that copy has ended, and the others wait for its batch. What results back up is copied from the end of the round on.

// held reports whether a rank still stands still for a copy, and otherwise moves the clocks of all copies on.
func (g *Group) held(nowMs float64) bool {
	if !g.ranks[0].pool.Tiered() {
		return false
	}
	if g.ranks[0].rules.Overlap && g.ranks[0].pool.Clock() > nowMs { // those of all ranks are equal after meet
		return true
	}
	for _, s := range g.ranks {
		s.pool.Tell(nowMs)
	}
	return false
}

// meet makes batches that were composed together start together, once no rank stands still any more. It returns that
// time.
func (g *Group) meet(batches []*batch) (ms float64) {
	if !g.ranks[0].pool.Tiered() {
		return 0
	}
	for _, s := range g.ranks {
		ms = max(ms, s.pool.Clock())
	}
	for i, s := range g.ranks {
		s.pool.Tell(ms)
		batches[i].notBeforeMs = ms
	}
	return ms
}

// postpone keeps the batches of this round for the next one and reports whether they run ahead of their results. Until
// then the ranks only stand still.
func (g *Group) postpone() bool {
	if !g.ranks[0].rules.Overlap || !slices.ContainsFunc(g.batches, (*batch).runs) {
		return false
	}
	g.inFlight = true
	for i, s := range g.ranks {
		s.flying = g.batches[i]
	}
	return true
}

// stand ends a pass in which the ranks only stand still for copies to the host.
func (g *Group) stand() *engine.Pass {
	g.out.EndMs = g.ranks[0].pool.Clock()
	for i, s := range g.ranks {
		lockstep.Merge(&g.out, i, &s.out)
		s.out.EndMs, s.lastEndMs = g.out.EndMs, g.out.EndMs
		if g.parts != nil {
			lockstep.MergeParts(g.parts, i, s.parts, false)
		}
	}
	g.explainWait()
	return &g.out
}

// awaitCopy makes a round without a batch last until the next copy ends on a rank where requests wait.
func (g *Group) awaitCopy() {
	if !g.ranks[0].pool.Tiered() || slices.ContainsFunc(g.batches, (*batch).runs) {
		return
	}
	nextMs := math.Inf(1)
	for i, s := range g.ranks {
		if s.waiting.Len() == 0 && !g.batches[i].stuck {
			continue
		}
		if endMs, ok := s.pool.NextEnd(); ok {
			nextMs = min(nextMs, endMs)
		}
	}
	if !math.IsInf(nextMs, 1) {
		g.out.Waits, g.out.WaitsFromMs, g.out.EndMs = true, g.ranks[0].pool.Clock(), nextMs
		g.explainWait()
	}
}

// explainWait records that the scheduler waits for a copy in all of a pass.
func (g *Group) explainWait() {
	if g.parts != nil {
		g.parts.HostMs = g.out.EndMs - g.out.StartMs
	}
}
