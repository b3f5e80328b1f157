package sglang

import "dynosim/gocore/engine"

// groupCoast is the coast of ranks that run their rounds together; see coast.
type groupCoast struct {
	endsMs, waitMs []float64 // of each round, and how long ranks wait in it
	atMs           float64   // when it begins
	ranks          []ahead   // that decode
}

// Coast implements [engine.Coaster]. Each rank has nothing to do or merely decodes.
func (g *Group) Coast(nowMs, untilMs float64) []float64 {
	c := &g.coast
	c.endsMs, c.waitMs, c.ranks, c.atMs = c.endsMs[:0], c.waitMs[:0], c.ranks[:0], nowMs
	if g.ranks[0].clock.KnowsExperts() || g.ranks[0].rules.Overlap && !g.inFlight {
		return nil
	}
	for _, s := range g.ranks {
		if s.Requests() == 0 {
			continue
		}
		a := s.lookAhead(nowMs)
		if a.passes <= 0 {
			return nil
		}
		c.ranks = append(c.ranks, a)
	}
	for atMs := nowMs; len(c.ranks) > 0 && atMs < untilMs; {
		endMs, busyMs := atMs, 0.0
		for i := range c.ranks {
			passMs, ok := c.ranks[i].next()
			if !ok {
				return c.endsMs
			}
			endMs = max(endMs, atMs+passMs)
			busyMs += passMs
		}
		if endMs <= atMs {
			break
		}
		c.endsMs = append(c.endsMs, endMs)
		c.waitMs = append(c.waitMs, float64(float64(len(g.ranks))*(endMs-atMs))-busyMs)
		atMs = endMs
	}
	return c.endsMs
}

// Settle implements [engine.Coaster].
func (g *Group) Settle(passes int) {
	if passes == 0 {
		return
	}
	c := &g.coast
	lastEndMs := c.endsMs[passes-1]
	g.lost.PassMs += float64(len(g.ranks)) * (lastEndMs - c.atMs)
	for _, ms := range c.waitMs[:passes] {
		g.lost.WaitMs += ms
	}
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

// CoastHostMs implements [engine.CoastExplainer]: the host time of the rank with the most requests.
func (g *Group) CoastHostMs() float64 {
	most := 0.0
	for _, s := range g.ranks {
		most = max(most, s.CoastHostMs())
	}
	return most
}
