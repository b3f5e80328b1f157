package radix

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCopies compares random runs with a map from page to count.
func TestCopies(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var fast copies
		slow := map[page]int{}
		var runs [][2]int // those counted
		spread := 1 + rng.IntN(3000)
		for range 600 {
			if len(runs) > 0 && rng.IntN(5) < 2 {
				i := rng.IntN(len(runs))
				first, n := page(runs[i][0]), runs[i][1]
				runs = slices.Delete(runs, i, i+1)
				var want []page
				for id := first; id < first+page(n); id++ {
					if slow[id]--; slow[id] == 0 {
						want = append(want, id)
					}
				}
				if got := slices.Collect(fast.remove(first, n, nil).All()); !slices.Equal(got, want) {
					t.Fatalf("seed %d: %v are gone, want %v", seed, got, want)
				}
				continue
			}
			first, n := page(rng.IntN(spread)), 1+rng.IntN(200)
			runs = append(runs, [2]int{int(first), n})
			want := 0
			for want < n && slow[first+page(want)] > 0 {
				want++
			}
			for id := first; id < first+page(n); id++ {
				slow[id]++
			}
			if got := fast.add(first, n); got != want {
				t.Fatalf("seed %d: of %d pages from %d on the first %d are known, want %d", seed, n, first, got, want)
			}
		}
		for _, r := range runs {
			fast.remove(page(r[0]), r[1], nil)
		}
		for i, set := range append(fast.more, fast.present) {
			if set.used != 0 || slices.ContainsFunc(set.entries, func(e pageUnit) bool { return e.pages != 0 }) {
				t.Fatalf("seed %d: set %d is left with %d units of nothing", seed, i, set.used)
			}
		}
	}
}
