package report

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestUnsortedStatistics compares with sorting, for values that repeat and values that do not.
func TestUnsortedStatistics(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for round := range 2000 {
		values := make([]float64, rng.IntN(300))
		for i := range values {
			values[i] = rng.Float64()
			if round%2 == 0 {
				values[i] = float64(rng.IntN(1 + round%7))
			}
		}
		sorted := slices.Clone(values)
		slices.Sort(sorted)
		want, got := statistics(sorted), unsortedStatistics(values)
		for i, name := range statNames {
			if math.Abs(got[i]-want[i]) > 1e-12 {
				t.Fatalf("round %d: %s of %d values is %v, want %v", round, name, len(values), got[i], want[i])
			}
		}
	}
}
