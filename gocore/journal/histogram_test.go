package journal

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestPercentiles compares those of a histogram with exact ones.
func TestPercentiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var all []float64
	var one, other histogram
	for i := range 4000 {
		value := math.Exp(4 * rng.Float64())
		n := 1 + rng.IntN(3)
		if i%2 == 0 {
			one.add(value, int64(n))
		} else {
			other.add(value, int64(n))
		}
		for range n {
			all = append(all, value)
		}
	}
	one.merge(&other)
	wanted := []float64{0, 10, 50, 99, 100}
	got, exact := one.percentiles(wanted), exactPercentiles(all, wanted)
	for i := range wanted {
		if math.Abs(got[i]/exact[i]-1) > 0.002 {
			t.Errorf("percentile %v: got %v, exactly %v", wanted[i], got[i], exact[i])
		}
	}
	if none := (&histogram{}).percentiles(wanted); !math.IsNaN(none[0]) {
		t.Errorf("percentile of nothing: %v", none)
	}
	var equal histogram
	equal.add(7.25, 3)
	equal.add(0, 1)
	if got := equal.percentiles([]float64{0, 50}); got[0] != 0 || got[1] != 7.25 || len(got) != 2 {
		t.Errorf("got %v", got)
	}
}

// TestWiden: a series without a given step has a bounded number of windows, and nothing gets lost when they are joined.
func TestWiden(t *testing.T) {
	s := newSeries(0)
	total := 0.0
	for i := range 3000 {
		from := float64(i) * 700
		s.at(from).arrivals++
		s.use(from, from+400, inUse{blocks: 10}, inUse{blocks: 20})
		total += 400 * 15
	}
	if len(s.windows) > mostChosen || s.stepMs != 8000 {
		t.Errorf("%d windows of %v ms", len(s.windows), s.stepMs)
	}
	arrivals, blocks, busy := int64(0), 0.0, 0.0
	for _, in := range s.windows {
		arrivals += in.arrivals
		blocks += in.blocksMs
		busy += in.busyMs
	}
	if arrivals != 3000 || math.Abs(blocks-total) > 1e-6*total || math.Abs(busy-3000*400) > 1e-3 {
		t.Errorf("%d arrivals, %v block ms, want %v, %v ms busy", arrivals, blocks, total, busy)
	}
}
