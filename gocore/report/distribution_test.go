package report

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPercentileRanks checks the table of the specification: which of N sorted values each percentile picks, counted
// from
// 0.
func TestPercentileRanks(t *testing.T) {
	for _, c := range []struct {
		n    int
		want [5]int64 // p50, p75, p90, p95, p99
	}{
		{1, [5]int64{}},
		{2, [5]int64{1, 1, 1, 1, 1}},
		{3, [5]int64{1, 2, 2, 2, 2}},
		{4, [5]int64{2, 2, 3, 3, 3}},
		{5, [5]int64{2, 3, 4, 4, 4}},
		{6, [5]int64{3, 4, 5, 5, 5}},
		{101, [5]int64{50, 75, 90, 95, 99}},
	} {
		for i, percent := range percents {
			if got := rankOf(percent, int64(c.n)); got != c.want[i] {
				t.Errorf("p%v of %d values: got number %d, want %d", percent, c.n, got, c.want[i])
			}
		}
	}
}

func TestStatistics(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []repeated
		want   [9]float64 // mean, min, max, median, p75, p90, p95, p99, std
	}{
		{"none", nil, [9]float64{}},
		{"one", []repeated{{7, 1, 1}}, [9]float64{7, 7, 7, 7, 7, 7, 7, 7, 0}},
		{"unsorted", []repeated{{3, 1, 1}, {1, 1, 1}}, [9]float64{2, 1, 3, 3, 3, 3, 3, 3, 1}},
		{"weights", []repeated{{5, 1, 1}, {1, 3, 1}}, [9]float64{2, 1, 5, 1, 1, 5, 5, 5, math.Sqrt(3)}},
		{"counts", []repeated{{5, 1, 1}, {1, 1, 3}}, [9]float64{2, 1, 5, 1, 1, 5, 5, 5, math.Sqrt(3)}},
		{"four TTFTs of the reference", []repeated{{22.356144, 1, 1}, {22.47083099999999, 1, 1},
			{22.585480000000018, 1, 1}, {22.700090999999986, 1, 1}},
			[9]float64{22.5281365, 22.356144, 22.700090999999986, 22.585480000000018, 22.585480000000018,
				22.700090999999986, 22.700090999999986, 22.700090999999986, 0.12818148018434486}},
	} {
		if got := repeatedStatistics(merge(slices.Clone(c.values))); !near(got[:], c.want[:]) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		if got := statistics(slices.Sorted(slices.Values(writtenOut(c.values)))); !near(got[:], c.want[:]) {
			t.Errorf("%s, written out: got %v, want %v", c.name, got, c.want)
		}
	}
}

// writtenOut lists repeated values one by one.
func writtenOut(values []repeated) []float64 {
	var all []float64
	for _, r := range values {
		for range r.weight * r.count {
			all = append(all, r.value)
		}
	}
	return all
}

// TestRepetitions compares with the same values written out.
func TestRepetitions(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var short []repeated
		for range 1 + rng.IntN(30) {
			short = append(short, repeated{value: float64(rng.IntN(50)) / 7, weight: 1 + rng.Int64N(20),
				count: 1 + rng.Int64N(30)})
		}
		want := naiveStatistics(writtenOut(short))
		if got := repeatedStatistics(merge(short)); !near(got[:], want[:]) {
			t.Fatalf("seed %d: got %v, want %v", seed, got, want)
		}
	}
}

// TestAddTimes compares with additions one by one, to the last bit: sums of all sizes beside the term, terms that lie
// half way between two steps, and sums that pass several powers of two.
func TestAddTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for range 20_000 {
		sum := math.Ldexp(1+rng.Float64(), rng.IntN(12))
		term := math.Ldexp(1+rng.Float64(), rng.IntN(75)-62)
		if rng.IntN(4) == 0 {
			term = math.Ldexp(float64(1+rng.IntN(64)), rng.IntN(20)-58)
		}
		if rng.IntN(20) == 0 {
			sum = 0
		}
		times := rng.Int64N(2000)
		want := sum
		for range times {
			want += term
		}
		if got := addTimes(sum, term, times); got != want {
			t.Fatalf("%v and %d times %v: got %v, want %v", sum, times, term, got, want)
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
	return [9]float64{sum / n, values[0], values[len(values)-1], at(50), at(75), at(90), at(95), at(99),
		math.Sqrt(squares / n)}
}

// near compares up to the rounding of sums, whose order is free.
func near(got, want []float64) bool {
	return slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*max(1, math.Abs(b)) })
}
