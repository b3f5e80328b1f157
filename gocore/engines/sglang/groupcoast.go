package sglang

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/engines/internal/lockstep"
)

// groupCoast is the coast of ranks that run their rounds together; see coast.
type groupCoast struct {
	rounds lockstep.Rounds
	ranks  []ahead // that decode
}

// Coast implements [engine.Coaster]. Each rank has nothing to do or merely decodes.
func (g *Group) Coast(nowMs, untilMs float64) []float64 {
	c := &g.coast
	c.rounds.Begin(nowMs)
	c.ranks = c.ranks[:0]
	if g.ranks[0].clock.KnowsExperts() || g.ranks[0].rules.Overlap && !g.inFlight {
		return nil
	}
	for _, s := range g.ranks {
		if s.Requests() == 0 {
			if s.pool.Tiered() && s.pool.Copying() {
				return nil
			}
			continue
		}
		a := s.lookAhead(nowMs)
		if a.passes <= 0 {
			return nil
		}
		c.ranks = append(c.ranks, a)
	}
	for atMs := nowMs; len(c.ranks) > 0 && atMs < untilMs; {
		endMs, busyMs, hostMs := atMs, 0.0, 0.0
		for i := range c.ranks {
			passMs, ok := c.ranks[i].next()
			if !ok {
				return c.rounds.EndsMs
			}
			if ms := atMs + passMs; ms > endMs {
				endMs, hostMs = ms, c.ranks[i].s.CoastHostMs()
			}
			busyMs += passMs
		}
		if endMs <= atMs || !c.rounds.Add(len(g.ranks), atMs, endMs, busyMs, hostMs) {
			break
		}
		atMs = endMs
	}
	return c.rounds.EndsMs
}

// Settle implements [engine.Coaster].
func (g *Group) Settle(passes int) {
	if passes == 0 {
		return
	}
	c := &g.coast
	lastEndMs := c.rounds.Settle(passes, len(g.ranks), &g.lost)
	for i := range c.ranks {
		c.ranks[i].s.settle(passes)
	}
	for _, s := range g.ranks {
		s.lastEndMs = lastEndMs
	}
}

// CoastWork implements [engine.CoastReporter].
func (g *Group) CoastWork() engine.Phases {
	var all engine.Phases
	for _, s := range g.ranks {
		all.Merge(s.CoastWork())
	}
	return all
}

// CoastHostMs implements [engine.CoastExplainer]: the host time of the slowest rank.
func (g *Group) CoastHostMs() float64 { return g.coast.rounds.HostMs }
