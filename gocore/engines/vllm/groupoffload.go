package vllm

import "math"

// Host memory of a Group: each rank copies by itself, as offload.go has it. Copies that had ended when the part of a
// rank started are noticed when the common pass ends, by a rank that serves nothing, too.

// noticeCopies takes note of the copies that had ended when the parts of a pass started that serves requests.
func (g *Group) noticeCopies() {
	for i := range g.ranks {
		if r := &g.ranks[i]; r.offload != nil {
			r.offload.notice(r.batch.startMs)
		}
	}
}

// endCopies has the copies of all ranks go on from the end of the common pass.
func (g *Group) endCopies() {
	for i := range g.ranks {
		if o := g.ranks[i].offload; o != nil {
			o.endMs = g.out.EndMs
		}
	}
}

// looksAgain reports whether a pass that serves nothing is followed by another one at the same instant.
func (g *Group) looksAgain(trail, some bool) bool {
	if g.ranks[0].offload == nil {
		return g.again(trail, some)
	}
	waits, again, nextMs := false, false, math.Inf(1)
	for i := range g.ranks {
		o, b := g.ranks[i].offload, g.ranks[i].batch
		noticed := o.notice(b.startMs)
		waits = waits || b.startMs > g.out.StartMs
		again = again || noticed || o.outstanding() || b.preempted > 0
		nextMs = min(nextMs, o.nextMs())
	}
	if waits || again {
		return !waits
	}
	if !math.IsInf(nextMs, 1) && g.Requests() > 0 {
		g.out.Waits, g.out.WaitsFromMs = true, g.out.StartMs
		for i := range g.ranks {
			g.ranks[i].batch.startMs = nextMs
		}
	}
	return false
}
