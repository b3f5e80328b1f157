package tracestats

import (
	"math"
	"slices"
)

// Summary describes some numbers; all fields are 0 if there are none. The p-th percentile is the smallest
// number that at least p percent of all numbers do not exceed.
type Summary struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean"`
	Std   float64 `json:"std"` // of the numbers as they are, divided by their count
	Min   float64 `json:"min"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// summarise sorts values and describes them.
func summarise(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	slices.Sort(values)
	count := float64(len(values))
	sum := 0.0
	for _, x := range values {
		sum += x
	}
	mean := sum / count
	squares := 0.0
	for _, x := range values {
		squares += float64((x - mean) * (x - mean))
	}
	percentile := func(p float64) float64 { return values[max(int(math.Ceil(p*count/100)), 1)-1] }
	return Summary{
		Count: len(values),
		Mean:  mean,
		Std:   math.Sqrt(squares / count),
		Min:   values[0],
		P50:   percentile(50),
		P90:   percentile(90),
		P99:   percentile(99),
		Max:   values[len(values)-1],
	}
}
