package workload

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMomentsOfArrivals(t *testing.T) {
	for _, c := range []struct {
		arrivals Arrivals
		cv       float64
	}{
		{Arrivals{Process: Constant, RequestRate: 8}, 0},
		{Arrivals{Process: Poisson, RequestRate: 8}, 1},
		{Arrivals{Process: Gamma, RequestRate: 8, CV: 0.3}, 0.3},
		{Arrivals{Process: Gamma, RequestRate: 0.25, CV: 1}, 1},
		{Arrivals{Process: Gamma, RequestRate: 8, CV: 3}, 3},
		{Arrivals{Process: Weibull, RequestRate: 8, CV: 0.3}, 0.3},
		{Arrivals{Process: Weibull, RequestRate: 8, CV: 1}, 1},
		{Arrivals{Process: Weibull, RequestRate: 8, CV: 2}, 2},
	} {
		starts := c.arrivals.starts(300_000, rand.NewPCG(7, arrivalStream))
		gaps := make([]float64, len(starts)-1)
		for i := range gaps {
			gaps[i] = starts[i+1] - starts[i]
		}
		mean, cv := moments(gaps)
		if want := 1000 / c.arrivals.RequestRate; starts[0] != 0 || math.Abs(mean/want-1) > 0.02 ||
			math.Abs(cv-c.cv) > 0.03*max(c.cv, 0.1) {
			t.Errorf("%+v: got mean %v and cv %v, want %v and %v", c.arrivals, mean, cv, want, c.cv)
		}
		if slices.Min(gaps) < 0 {
			t.Errorf("%+v: time goes back", c.arrivals)
		}
	}
}

func TestWeibullShape(t *testing.T) {
	if got := weibullShape(1); math.Abs(got-1) > 1e-12 {
		t.Errorf("cv 1: got shape %v, want 1", got)
	}
	for _, cv := range []float64{MinCV, 0.1, 0.5, 2, 10, MaxCV} {
		shape := weibullShape(cv)
		once, _ := math.Lgamma(1 + 1/shape)
		twice, _ := math.Lgamma(1 + 2/shape)
		if got := math.Sqrt(math.Expm1(twice - 2*once)); math.Abs(got/cv-1) > 1e-9 {
			t.Errorf("cv %v: shape %v has %v", cv, shape, got)
		}
	}
}

func TestParseArrivalProcess(t *testing.T) {
	for i, name := range processNames {
		if got, err := ParseArrivalProcess(name); err != nil || got != ArrivalProcess(i) || got.String() != name {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	if _, err := ParseArrivalProcess("Poisson"); err == nil ||
		err.Error() != `arrival_process: got "Poisson", want one of constant, poisson, gamma, weibull` {
		t.Errorf("got %v", err)
	}
}

func TestArrivalsRefuse(t *testing.T) {
	for want, arrivals := range map[string]Arrivals{
		"request_rate: missing, want a number > 0: arrival_process is poisson":             {Process: Poisson},
		"request_rate: got -1, want a finite number > 0":                                   {RequestRate: -1},
		"request_rate: got NaN, want a finite number > 0":                                  {RequestRate: math.NaN()},
		"request_rate: got +Inf, want a finite number > 0":                                 {RequestRate: math.Inf(1)},
		"request_rate: got 1e-320, want a finite number > 0":                               {RequestRate: 1e-320},
		"arrival_cv: got 2, want it left out: it is for arrival_process gamma and weibull": {CV: 2},
		"arrival_cv: got 2, want it left out: arrival_process is poisson": {Process: Poisson,
			RequestRate: 1, CV: 2},
		"arrival_cv: got 2, want it left out: arrival_process is constant": {RequestRate: 1,
			CV: 2},
		"arrival_cv: missing, want a number from 0.01 to 100: arrival_process is gamma": {Process: Gamma,
			RequestRate: 1},
		"arrival_cv: got 0.001, want a number from 0.01 to 100": {Process: Weibull,
			RequestRate: 1, CV: 0.001},
		"arrival_cv: got NaN, want a number from 0.01 to 100": {Process: Weibull,
			RequestRate: 1, CV: math.NaN()},
		"request_rate: got 1e-305, want a number that leaves the arrivals of 6 requests finite": {RequestRate: 1e-305},
	} {
		spec := smallSpec()
		spec.Arrivals = arrivals
		if _, err := Synthetic(spec); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestEqualGapsDoNotDrift compares a rate with the interval that it stands for.
func TestEqualGapsDoNotDrift(t *testing.T) {
	spec := smallSpec()
	spec.RequestCount, spec.ArrivalIntervalMs = 50, 1000/7.0
	want := starts(mustGenerate(t, spec))
	spec.ArrivalIntervalMs, spec.Arrivals.RequestRate = 1, 7
	if got := starts(mustGenerate(t, spec)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
