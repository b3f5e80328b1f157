package report

import (
	"math"
	"slices"
)

// weighted is a value that occurs weight times.
type weighted struct {
	value  float64
	weight int64
}

// statNames are the statistics of a distribution, in the order of the report.
var statNames = [...]string{"mean", "min", "max", "median", "p75", "p90", "p95", "p99", "std"}

// statistics computes those of statNames over values, which it sorts; all are 0 for no values.
//
// Percentiles are nearest ranks without interpolation: with N values, number round((N-1)*p/100), counted from 0, half
// away from zero. So the median of two values is the larger. std is the population's.
func statistics(values []weighted) [len(statNames)]float64 {
	if len(values) == 0 {
		return [len(statNames)]float64{}
	}
	slices.SortFunc(values, func(a, b weighted) int {
		switch { // no NaN to care for, unlike cmp.Compare
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		}
		return 0
	})
	total, sum := int64(0), 0.0
	for _, v := range values {
		total += v.weight
		sum += float64(float64(v.weight) * v.value)
	}
	mean := sum / float64(total)
	squares := 0.0
	for _, v := range values {
		d := v.value - mean
		squares += float64(float64(v.weight) * float64(d*d))
	}
	p := percentiles(values, total, 50, 75, 90, 95, 99)
	return [...]float64{
		mean, values[0].value, values[len(values)-1].value,
		p[0], p[1], p[2], p[3], p[4],
		math.Sqrt(squares / float64(total)),
	}
}

// plainStatistics is statistics for values of which each counts once.
func plainStatistics(values []float64) [len(statNames)]float64 {
	if len(values) == 0 {
		return [len(statNames)]float64{}
	}
	slices.Sort(values)
	count, sum := float64(len(values)), 0.0
	for _, v := range values {
		sum += v
	}
	mean := sum / count
	squares := 0.0
	for _, v := range values {
		d := v - mean
		squares += float64(d * d)
	}
	at := func(p float64) float64 {
		return values[min(len(values)-1, int(math.Round(float64(len(values)-1)*p/100)))]
	}
	return [...]float64{
		mean, values[0], values[len(values)-1], at(50), at(75), at(90), at(95), at(99), math.Sqrt(squares / count),
	}
}

// percentiles walks sorted values once; the wanted ranks must ascend.
func percentiles(sorted []weighted, total int64, wanted ...float64) []float64 {
	found := make([]float64, 0, len(wanted))
	below := int64(0) // values before sorted[i]
	i := 0
	for _, p := range wanted {
		rank := min(total-1, int64(math.Round(float64(total-1)*p/100)))
		for below+sorted[i].weight <= rank {
			below += sorted[i].weight
			i++
		}
		found = append(found, sorted[i].value)
	}
	return found
}
