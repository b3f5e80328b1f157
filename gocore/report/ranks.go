package report

import (
	"math"
	"slices"
)

// unsortedStatistics does what statistics does, for values in any order, which it rearranges. It does not sort them,
// which takes several times as long; sums may differ in the last digits.
func unsortedStatistics(values []float64) (found [len(statNames)]float64) {
	if len(values) == 0 {
		return found
	}
	count, sum := float64(len(values)), 0.0
	least, most := values[0], values[0]
	for _, v := range values {
		sum += v
		least, most = min(least, v), max(most, v)
	}
	if least == most { // most parts are 0 in most runs
		for i := range len(found) - 1 {
			found[i] = most
		}
		return found
	}
	mean, squares := sum/count, 0.0
	for _, v := range values {
		squares += float64((v - mean) * (v - mean))
	}
	found[0], found[1], found[2] = mean, least, most
	from := 0
	for i, percent := range percents {
		rank := int(rankOf(percent, int64(len(values))))
		if from <= rank {
			putInPlace(values[from:], rank-from)
			from = rank + 1
		}
		found[3+i] = values[rank]
	}
	found[len(found)-1] = math.Sqrt(squares / count)
	return found
}

// fewValues are sorted.
const fewValues = 32

// putInPlace puts the value with this rank where it would be if all were sorted, with no larger one before it and no
// smaller one behind it (quickselect).
func putInPlace(values []float64, rank int) {
	for len(values) > fewValues {
		low, high := partition(values)
		switch {
		case rank < low:
			values = values[:low]
		case rank >= high:
			values, rank = values[high:], rank-high
		default:
			return
		}
	}
	slices.Sort(values)
}

// partition moves values below a pivot to the front, and those above it behind low and high, between which all equal
// it.
func partition(values []float64) (low, high int) {
	pivot := median(values[0], values[len(values)/2], values[len(values)-1])
	high = len(values)
	for i := 0; i < high; {
		switch v := values[i]; {
		case v < pivot:
			values[low], values[i] = v, values[low]
			low++
			i++
		case v > pivot:
			high--
			values[i], values[high] = values[high], v
		default:
			i++
		}
	}
	return low, high
}

func median(a, b, c float64) float64 { return max(min(a, b), min(max(a, b), c)) }
