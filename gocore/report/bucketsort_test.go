package report

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSortGaps compares with a sort by comparisons: gaps that are close together, far apart, equal and zero.
func TestSortGaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for _, n := range []int{0, 1, fewToSort, fewToSort + 1, 5000, 100_000} {
		for range 4 {
			gaps := make([]repeated, n)
			for i := range gaps {
				value := 6 + rng.Float64()/10
				switch rng.IntN(8) {
				case 0:
					value *= float64(uint64(1) << rng.IntN(60))
				case 1:
					value = float64(rng.IntN(3))
				}
				gaps[i] = repeated{value: value, weight: int64(rng.IntN(5)), count: 1}
			}
			want := slices.Clone(gaps)
			slices.SortFunc(want, byValueAndWeight)
			sortGaps(gaps)
			if !slices.Equal(gaps, want) {
				t.Fatalf("%d gaps are not sorted", n)
			}
		}
	}
}
