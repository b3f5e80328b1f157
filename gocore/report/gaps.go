package report

import "slices"

// repeated is a value that weight requests have at once, and that count times. Workers that only decode have the same
// gap again and again: a million gaps are some thousands of these.
type repeated struct {
	value         float64
	weight, count int64
}

// mergeFrom is how many entries more than before a list may have until equal ones are merged. It bounds the memory
// for runs with many workers.
const mergeFrom = 1 << 16

// gapList is gaps, the first of which are merged. What is appended to all is merged with them when settle finds that it
// has become too much: a quarter, as there may be many millions.
type gapList struct {
	all    []repeated
	merged int
}

func (g *gapList) settle() {
	if len(g.all)-g.merged > g.merged/4+mergeFrom {
		g.merge()
	}
}

// merge sorts all gaps and makes one entry of equal ones.
func (g *gapList) merge() []repeated {
	if g.merged == 0 {
		g.all = merge(g.all)
		g.merged = len(g.all)
		return g.all
	}
	fresh := merge(slices.Clone(g.all[g.merged:]))
	g.all = g.all[:g.merged+len(fresh)]
	old := g.merged - 1
	for at, next := len(g.all)-1, len(fresh)-1; next >= 0; at-- {
		if old >= 0 && byValueAndWeight(fresh[next], g.all[old]) < 0 {
			g.all[at] = g.all[old]
			old--
		} else {
			g.all[at] = fresh[next]
			next--
		}
	}
	g.all = joinEqual(g.all)
	g.merged = len(g.all)
	return g.all
}

// tokenGaps lists all inter-token latencies of the run in ascending order, those that are equal by ascending weight.
func (c *Collector) tokenGaps() []repeated {
	list := c.past
	c.past = gapList{}
	most := len(c.gaps)
	for i := range c.workers {
		most += c.workers[i].passes
	}
	// Grown step by step it would be copied, into memory that is slow as it is used for the first time.
	list.all = slices.Grow(list.all, min(most, 2*mergeFrom))
	for _, gap := range c.gaps {
		list.all = append(list.all, repeated{value: gap, weight: 1, count: 1})
	}
	if c.zeroGaps > 0 {
		list.all = append(list.all, repeated{value: 0, weight: c.zeroGaps, count: 1})
	}
	for i := range c.workers {
		if c.passing != nil || c.folds() { // nothing else needs the passes
			c.workers[i].foldAll(&list)
			continue
		}
		list.all = c.workers[i].appendGaps(list.all)
		list.settle()
	}
	return list.merge()
}

// merge sorts values and makes one entry of those with equal value and weight, in place.
func merge(all []repeated) []repeated {
	sortGaps(all)
	return joinEqual(all)
}

// joinEqual makes one entry of neighbours with equal value and weight, in place.
func joinEqual(all []repeated) []repeated {
	merged := all[:0]
	for _, next := range all {
		if last := len(merged) - 1; last >= 0 && merged[last].value == next.value &&
			merged[last].weight == next.weight {
			merged[last].count += next.count
		} else {
			merged = append(merged, next)
		}
	}
	return merged
}

// tokenRates turns sorted gaps, in place, into tokens per second of one user, sorted as well; gaps of zero have no
// rate.
func tokenRates(gaps []repeated) []repeated {
	rates := gaps[:0]
	for _, g := range gaps {
		if g.value > 0 {
			g.value = 1000 / g.value
			rates = append(rates, g)
		}
	}
	slices.Reverse(rates)
	return rates
}
