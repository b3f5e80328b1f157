package journal

import (
	"cmp"
	"math"
	"slices"
)

// histogram counts gaps between tokens, of which there may be millions. Those that differ by less than 1/512 share a
// bin, of which the mean is kept: percentiles are off by less than 0.2 %, and exact where all gaps of a bin are equal.
type histogram struct{ bins []bin }

type bin struct {
	key uint64
	n   int64
	sum float64
}

// keyBits is how many bits of a number do not matter to its bin: all but 9 of the mantissa.
const keyBits = 52 - 9

// add counts a value, which is not negative, n times.
func (h *histogram) add(value float64, n int64) {
	if n <= 0 {
		return
	}
	h.put(bin{key: math.Float64bits(value) >> keyBits, n: n, sum: float64(value * float64(n))})
}

// put adds a bin. The one that was used last stands at the end: passes that follow each other take about as long.
func (h *histogram) put(b bin) {
	for i := len(h.bins) - 1; i >= 0; i-- {
		if h.bins[i].key != b.key {
			continue
		}
		last := len(h.bins) - 1
		h.bins[i], h.bins[last] = h.bins[last], h.bins[i]
		h.bins[last].n += b.n
		h.bins[last].sum += b.sum
		return
	}
	h.bins = append(h.bins, b)
}

func (h *histogram) merge(other *histogram) {
	for _, b := range other.bins {
		h.put(b)
	}
}

// percentiles returns those of the values, NaN if there are none.
func (h *histogram) percentiles(percents []float64) []float64 {
	sorted := slices.Clone(h.bins)
	slices.SortFunc(sorted, func(a, b bin) int { return cmp.Compare(a.key, b.key) })
	return percentiles(sorted, percents)
}

// exactPercentiles returns those of a list.
func exactPercentiles(values, percents []float64) []float64 {
	sorted := make([]bin, len(values))
	for i, v := range values {
		sorted[i] = bin{n: 1, sum: v}
	}
	slices.SortFunc(sorted, func(a, b bin) int { return cmp.Compare(a.sum, b.sum) })
	return percentiles(sorted, percents)
}

// percentiles returns those of values in ascending bins: the nearest rank without interpolation, as in a report.
func percentiles(sorted []bin, percents []float64) []float64 {
	total := int64(0)
	for _, b := range sorted {
		total += b.n
	}
	found := make([]float64, len(percents))
	for i, p := range percents {
		found[i] = math.NaN()
		if total > 0 {
			found[i] = valueAt(sorted, min(total-1, int64(math.Round(float64(float64(total-1)*p)/100))))
		}
	}
	return found
}

// valueAt returns the value at a place, from 0, in ascending order.
func valueAt(sorted []bin, place int64) float64 {
	for _, b := range sorted {
		if place < b.n {
			return b.sum / float64(b.n)
		}
		place -= b.n
	}
	last := sorted[len(sorted)-1]
	return last.sum / float64(last.n)
}
