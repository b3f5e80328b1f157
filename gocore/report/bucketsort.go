package report

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// A run whose passes all last differently has a gap for each of them, and sorting these by comparisons took a quarter
// of the time.

const (
	bucketBits = 10
	fewToSort  = 1 << 7 // comparisons are faster for so few
)

// sortGaps sorts values, none of them negative or NaN, and those that are equal by weight. It divides them among
// buckets by the leading bits in which they differ, in place, and sorts each of these in the same way.
func sortGaps(all []repeated) {
	if len(all) <= fewToSort {
		slices.SortFunc(all, byValueAndWeight)
		return
	}
	least, most := keyRange(all)
	if least == most {
		slices.SortFunc(all, byValueAndWeight)
		return
	}
	shift := max(0, bits.Len64(most-least)-bucketBits)
	bucket := func(r repeated) uint64 { return (math.Float64bits(r.value) - least) >> shift }
	var ends, next [1 << bucketBits]int
	for _, r := range all {
		ends[bucket(r)]++
	}
	sum := 0
	for i, n := range ends {
		next[i] = sum
		sum += n
		ends[i] = sum
	}
	for i := range next {
		for next[i] < ends[i] { // what is there goes to the next place of its own bucket
			r := all[next[i]]
			to := bucket(r)
			all[next[i]], all[next[to]] = all[next[to]], r
			next[to]++
		}
	}
	start := 0
	for _, end := range ends {
		if end-start > 1 {
			sortGaps(all[start:end])
		}
		start = end
	}
}

// keyRange returns the least and the greatest value, as bits: those of numbers that are not negative have the same
// order.
func keyRange(all []repeated) (least, most uint64) {
	least = math.MaxUint64
	for _, r := range all {
		key := math.Float64bits(r.value)
		least, most = min(least, key), max(most, key)
	}
	return least, most
}

func byValueAndWeight(a, b repeated) int {
	switch { // no NaN to care for, unlike cmp.Compare
	case a.value < b.value:
		return -1
	case a.value > b.value:
		return 1
	}
	return cmp.Compare(a.weight, b.weight)
}
