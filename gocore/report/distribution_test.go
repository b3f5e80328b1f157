package report

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// ones gives every value the weight 1.
func ones(values ...float64) []weighted {
	var all []weighted
	for _, v := range values {
		all = append(all, weighted{value: v, weight: 1})
	}
	return all
}

// TestPercentileRanks is the table of the specification: which of N sorted values each percentile picks, counted from 0.
func TestPercentileRanks(t *testing.T) {
	for _, c := range []struct {
		n    int
		want []float64 // p50, p75, p90, p95, p99
	}{
		{1, []float64{0, 0, 0, 0, 0}},
		{2, []float64{1, 1, 1, 1, 1}},
		{3, []float64{1, 2, 2, 2, 2}},
		{4, []float64{2, 2, 3, 3, 3}},
		{5, []float64{2, 3, 4, 4, 4}},
		{6, []float64{3, 4, 5, 5, 5}},
		{101, []float64{50, 75, 90, 95, 99}},
	} {
		var values []float64
		for i := range c.n {
			values = append(values, float64(i))
		}
		if got := percentiles(ones(values...), int64(c.n), 50, 75, 90, 95, 99); !slices.Equal(got, c.want) {
			t.Errorf("of %d values: got %v, want %v", c.n, got, c.want)
		}
	}
}

func TestStatistics(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []weighted
		want   [9]float64 // mean, min, max, median, p75, p90, p95, p99, std
	}{
		{"none", nil, [9]float64{}},
		{"one", ones(7), [9]float64{7, 7, 7, 7, 7, 7, 7, 7, 0}},
		{"unsorted", ones(3, 1), [9]float64{2, 1, 3, 3, 3, 3, 3, 3, 1}},
		{"weights", []weighted{{5, 1}, {1, 3}}, [9]float64{2, 1, 5, 1, 1, 5, 5, 5, math.Sqrt(3)}},
		{"four TTFTs of the reference", ones(22.356144, 22.47083099999999, 22.585480000000018, 22.700090999999986),
			[9]float64{22.5281365, 22.356144, 22.700090999999986, 22.585480000000018, 22.585480000000018,
				22.700090999999986, 22.700090999999986, 22.700090999999986, 0.12818148018434486}},
	} {
		if got := statistics(c.values); !near(got[:], c.want[:]) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// TestWeightsStandForRepetitions compares with the same values written out.
func TestWeightsStandForRepetitions(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var short []weighted
		var long []float64
		for range 1 + rng.IntN(30) {
			v := weighted{value: float64(rng.IntN(50)) / 7, weight: 1 + rng.Int64N(20)}
			short = append(short, v)
			for range v.weight {
				long = append(long, v.value)
			}
		}
		want := naiveStatistics(long)
		if got := statistics(short); !near(got[:], want[:]) {
			t.Fatalf("seed %d: got %v, want %v", seed, got, want)
		}
	}
}

// naiveStatistics follows the definition on a plain list.
func naiveStatistics(values []float64) [9]float64 {
	if len(values) == 0 {
		return [9]float64{}
	}
	slices.Sort(values)
	n := float64(len(values))
	at := func(p float64) float64 { return values[int(math.Round((n-1)*p/100))] }
	sum, squares := 0.0, 0.0
	for _, v := range values {
		sum += v
	}
	for _, v := range values {
		squares += (v - sum/n) * (v - sum/n)
	}
	return [9]float64{sum / n, values[0], values[len(values)-1], at(50), at(75), at(90), at(95), at(99), math.Sqrt(squares / n)}
}

// near compares up to the rounding of sums, whose order is free.
func near(got, want []float64) bool {
	return slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*max(1, math.Abs(b)) })
}
