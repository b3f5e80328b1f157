package report

import "slices"

// repeated is a value that weight requests have at once, and that count times. Workers that only decode have the same gap
// again and again: a million gaps are some thousands of these.
type repeated struct {
	value         float64
	weight, count int64
}

// mergeFrom is how many entries more than before a list may have until equal ones are merged. It bounds the memory
// for runs with many workers.
const mergeFrom = 1 << 16

// tokenGaps lists all inter-token latencies of the run in ascending order, those that are equal by ascending weight.
func (c *Collector) tokenGaps() []repeated {
	most := len(c.gaps)
	for i := range c.workers {
		most += c.workers[i].passes
	}
	all := make([]repeated, 0, min(most, 2*mergeFrom)) // grown step by step it would be copied, and memory used for the first time is slow
	for _, gap := range c.gaps {
		all = append(all, repeated{value: gap, weight: 1, count: 1})
	}
	if c.zeroGaps > 0 {
		all = append(all, repeated{value: 0, weight: c.zeroGaps, count: 1})
	}
	merged := 0
	for i := range c.workers {
		all = c.workers[i].appendGaps(all)
		if c.passing != nil { // nothing else needs the passes
			c.workers[i] = timeline{}
		}
		if len(all) > 2*merged+mergeFrom {
			all = merge(all)
			merged = len(all)
		}
	}
	return merge(all)
}

// merge sorts values and makes one entry of those with equal value and weight, in place.
func merge(all []repeated) []repeated {
	sortGaps(all)
	merged := all[:0]
	for _, next := range all {
		if last := len(merged) - 1; last >= 0 && merged[last].value == next.value && merged[last].weight == next.weight {
			merged[last].count += next.count
		} else {
			merged = append(merged, next)
		}
	}
	return merged
}

// tokenRates turns sorted gaps, in place, into tokens per second of one user, sorted as well; gaps of zero have no rate.
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
