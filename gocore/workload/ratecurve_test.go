package workload

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func curveOf(t *testing.T, rows ...string) *RateCurve {
	t.Helper()
	c := NewRateCurve("curve.csv")
	text := "time_s,rate_rps\n" + strings.Join(rows, "\n") + "\n"
	if err := c.ReadFile(Source{Name: "curve.csv", Reader: strings.NewReader(text)}); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCurveStarts: a session starts where the integral of the rate reaches its number.
func TestCurveStarts(t *testing.T) {
	for _, c := range []struct {
		name  string
		rows  []string
		count int
		want  []float64 // ms
	}{
		{"a constant rate", []string{"0,2", "3,2"}, 0, []float64{0, 500, 1000, 1500, 2000, 2500}},
		{"a constant rate, again and again", []string{"0,2", "1,2"}, 5, []float64{0, 500, 1000, 1500, 2000}},
		{"fewer than the curve has", []string{"0,2", "3,2"}, 2, []float64{0, 500}},
		// The integral of 2x is x^2.
		{"a rate that rises from 0", []string{"0,0", "2,4"}, 0,
			[]float64{0, 1000, 1000 * math.Sqrt2, 1000 * math.Sqrt(3)}},
		// The integral of 4-2x is 4x-x^2.
		{"a rate that falls to 0", []string{"0,4", "2,0"}, 0,
			[]float64{0, 1000 * (2 - math.Sqrt(3)), 1000 * (2 - math.Sqrt2), 1000}},
		{"steps and a pause", []string{"0,1", "2,1", "2,0", "5,0", "5,2", "6,2"}, 6,
			[]float64{0, 1000, 5000, 5500, 6000, 7000}},
		{"nothing at the beginning", []string{"0,0", "10,0", "10,1", "12,1"}, 3, []float64{10_000, 11_000, 22_000}},
	} {
		got := Arrivals{Curve: curveOf(t, c.rows...)}.along(c.count, MaxTurns, nil)
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// TestCurvePoisson: the numbers of arrivals in equal parts of the curve have the means and variances of a Poisson
// process whose rate is the curve.
func TestCurvePoisson(t *testing.T) {
	curve := curveOf(t, "0,10", "50,30", "100,0")
	const parts, rounds = 10, 500
	counts := make([][]float64, parts)
	for i := range counts {
		counts[i] = make([]float64, rounds)
	}
	a := Arrivals{Process: Poisson, Curve: curve}
	starts := a.along(int(rounds*curve.due()), MaxTurns, rand.NewPCG(5, arrivalStream))
	if !slices.IsSorted(starts) {
		t.Fatal("time goes back")
	}
	for _, ms := range starts {
		round := math.Floor(ms / 100_000)
		if int(round) < rounds {
			counts[int((ms-round*100_000)/10_000)][int(round)]++
		}
	}
	rate := func(s float64) float64 {
		if s < 50 {
			return 10 + 20*s/50
		}
		return 30 - 30*(s-50)/50
	}
	for i, part := range counts {
		mean, cv := moments(part[:rounds-20]) // the last arrivals may come a little early
		want := 10 * rate(10*float64(i)+5)
		if variance := mean * mean * cv * cv; math.Abs(mean/want-1) > 0.02 || math.Abs(variance/want-1) > 0.15 {
			t.Errorf("part %d: got mean %v and variance %v, want %v", i, mean, variance, want)
		}
	}
}

// TestCurveMadeOrKept: turns that are made when they are asked for arrive when those arrive that are kept.
func TestCurveMadeOrKept(t *testing.T) {
	spec := smallSpec()
	spec.RequestCount, spec.Seed = 0, 3
	spec.Arrivals = Arrivals{Process: Poisson, Curve: curveOf(t, "0,5", "10,9")}
	kept, err := Synthetic(spec)
	if err != nil {
		t.Fatal(err)
	}
	spec.Passing = true
	passing, err := Synthetic(spec)
	if err != nil {
		t.Fatal(err)
	}
	if kept.Len() != passing.Len() || kept.Len() < 40 || kept.Len() > 110 {
		t.Fatalf("got %d and %d requests, want about 70", kept.Len(), passing.Len())
	}
	for i, session := range kept.Sessions {
		if got := passing.passing.startMs(int32(i)); got != session.StartMs {
			t.Errorf("session %d starts at %v or %v", i, got, session.StartMs)
		}
	}
}

func TestCurveRefuses(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "curve.csv: is empty, want a line with the names of the columns"},
		{"time,rate\n0,1\n", "curve.csv line 1: time_s: no column has this name, want a header with " +
			"time_s,rate_rps"},
		{"time_s,rate_rps\n", "curve.csv: got 0 rows, want two or more"},
		{"time_s,rate_rps\n0,1\n", "curve.csv: got 1 rows, want two or more"},
		{"time_s,rate_rps\n5,1\n9,1\n", `curve.csv line 2: time_s: got "5", want 0, as the curve begins at 0 s`},
		{"time_s,rate_rps\n0,1\n9,1\n8,1\n",
			`curve.csv line 4: time_s: got "8", want a time that is not before that of the row above, 9 s`},
		{"time_s,rate_rps\n0,1\n9,-1\n", `curve.csv line 3: rate_rps: got "-1", want a finite number >= 0`},
		{"time_s,rate_rps\n0,nan\n9,1\n", `curve.csv line 2: rate_rps: got "nan", want a finite number >= 0`},
		{"time_s,rate_rps\n0,1\n1e12,1\n", `curve.csv line 3: time_s: got "1e12", want at most 3.15e+11 s`},
		{"time_s,rate_rps\n0,1\n9\n", "curve.csv line 3: got 1 columns, want 2 as in the header"},
		{"time_s,rate_rps\n0,1\n0,2\n", "curve.csv: all rows have the time 0 s, want a curve that ends later"},
		{"time_s,rate_rps\n0,0\n9,0\n", "curve.csv: the rate is 0 all the time, want a rate above 0 in some row"},
		{"time_s,rate_rps\n0,1e308\n9,1e308", "curve.csv: the rates are too high, want numbers whose integral is finite"},
	} {
		err := NewRateCurve("curve.csv").ReadFile(Source{Name: "curve.csv", Reader: strings.NewReader(test.text)})
		if err == nil || err.Error() != test.want {
			t.Errorf("%q:\n got %v\nwant %s", test.text, err, test.want)
		}
	}
	spec := smallSpec()
	spec.Arrivals = Arrivals{RequestRate: 2, Curve: curveOf(t, "0,1", "1,1")}
	if _, err := Synthetic(spec); err == nil ||
		err.Error() != "request_rate: got 2, want it left out with request_rate_curve" {
		t.Errorf("both rates: %v", err)
	}
	spec.RequestCount, spec.Arrivals = 0, Arrivals{Curve: curveOf(t, "0,1e9", "1,1e9")}
	if _, err := Synthetic(spec); err == nil || !strings.Contains(err.Error(), "give a request_count") {
		t.Errorf("too many: %v", err)
	}
}

// FuzzRateCurve: any file is refused or gives arrivals that never go back.
func FuzzRateCurve(f *testing.F) {
	f.Add("time_s,rate_rps\n0,1\n5,2\n5,0\n9,3\n")
	f.Add("time_s,rate_rps\n0,1e-300\n1e-300,1e300\n")
	f.Fuzz(func(t *testing.T, text string) {
		c := NewRateCurve("f")
		if c.ReadFile(Source{Name: "f", Reader: strings.NewReader(text)}) != nil {
			return
		}
		starts := Arrivals{Curve: c}.along(50, MaxTurns, nil)
		if len(starts) != 50 || !slices.IsSorted(starts) || math.IsNaN(starts[49]) {
			t.Errorf("got %v", starts)
		}
	})
}
