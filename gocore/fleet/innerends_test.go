package fleet

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestInnerEnds compares the first of the ends with the least in a list, while ends change and workers are added.
func TestInnerEnds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for workers := 1; workers <= 130; workers += 1 + workers/2 {
		var ends innerEnds
		want := make([]float64, workers)
		for i := range want {
			want[i] = math.Inf(1)
		}
		for range 2000 {
			if atMs, _ := ends.first(); atMs != slices.Min(want) {
				t.Fatalf("%d workers: the first end is at %v, want %v", workers, atMs, slices.Min(want))
			} else if _, i := ends.first(); !math.IsInf(atMs, 1) && want[i] != atMs {
				t.Fatalf("%d workers: worker %d ends at %v, got %v", workers, i, want[i], atMs)
			}
			i, atMs := rng.IntN(workers), float64(rng.IntN(50))/4
			if rng.IntN(4) == 0 {
				atMs = math.Inf(1)
			}
			want[i] = atMs
			ends.set(i, atMs)
		}
	}
}
