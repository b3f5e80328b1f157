package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"
)

// ArrivalProcess says how the gaps between sessions are spread around their mean.
type ArrivalProcess uint8

const (
	Constant ArrivalProcess = iota // all gaps are equal
	Poisson                        // exponential gaps
	Gamma                          // gaps with the given coefficient of variation
	Weibull                        // likewise, with another tail
)

var processNames = []string{"constant", "poisson", "gamma", "weibull"}

func (p ArrivalProcess) String() string { return processNames[p] }

// ParseArrivalProcess reads the name of a process.
func ParseArrivalProcess(name string) (ArrivalProcess, error) {
	at := slices.Index(processNames, name)
	if at < 0 {
		return 0, fmt.Errorf("arrival_process: got %q, want one of %s", name, strings.Join(processNames, ", "))
	}
	return ArrivalProcess(at), nil
}

// Arrivals is when sessions start: RequestRate a second on average, or as a curve says. The coefficient of variation of
// the gaps, standard deviation by mean, is 0 for Constant, 1 for Poisson and CV for the others; above 1 sessions come
// in bursts.
type Arrivals struct {
	Process     ArrivalProcess
	RequestRate float64    // 0 = not given
	Curve       *RateCurve // nil = not given
	CV          float64    // 0 = not given
}

// Draws reports whether the starts depend on the seed.
func (a Arrivals) Draws() bool { return a.Process != Constant }

// MinCV and MaxCV bound the coefficient of variation.
const MinCV, MaxCV = 0.01, 100

func (a Arrivals) check() error {
	switch bursty := a.Process == Gamma || a.Process == Weibull; {
	case a.Curve != nil && a.RequestRate != 0:
		return fmt.Errorf("request_rate: got %v, want it left out with request_rate_curve", a.RequestRate)
	case a.RequestRate == 0 && a.Curve == nil && a.Process != Constant:
		return fmt.Errorf("request_rate: missing, want a number > 0: arrival_process is %v", a.Process)
	case a.RequestRate == 0 && a.Curve == nil && a.CV != 0:
		return fmt.Errorf("arrival_cv: got %v, want it left out: it is for arrival_process gamma and weibull", a.CV)
	case a.RequestRate != 0 && !(isDuration(a.RequestRate) && isDuration(1000/a.RequestRate)):
		return fmt.Errorf("request_rate: got %v, want a finite number > 0", a.RequestRate)
	case !bursty && a.CV != 0:
		return fmt.Errorf("arrival_cv: got %v, want it left out: arrival_process is %v", a.CV, a.Process)
	case bursty && a.CV == 0:
		return fmt.Errorf("arrival_cv: missing, want a number from %v to %v: arrival_process is %v", MinCV, MaxCV,
			a.Process)
	case bursty && !(a.CV >= MinCV && a.CV <= MaxCV):
		return fmt.Errorf("arrival_cv: got %v, want a number from %v to %v", a.CV, MinCV, MaxCV)
	}
	return nil
}

// starts draws the starts of count sessions, in milliseconds. The first is at 0. Equal gaps are products with the gap,
// so that they do not drift; others are added up.
func (a Arrivals) starts(count int, src rand.Source) []float64 {
	starts := make([]float64, count)
	meanMs := 1000 / a.RequestRate
	gap := a.gaps(meanMs, src)
	for i := 1; i < count; i++ {
		if a.Process == Constant {
			starts[i] = float64(i) * meanMs
		} else {
			starts[i] = starts[i-1] + gap()
		}
	}
	return starts
}

// along draws the starts of count sessions on the curve, in milliseconds; if count is 0, of all that start while it is
// gone through once, or of most+1.
func (a Arrivals) along(count, most int, src rand.Source) []float64 {
	var starts []float64
	due, gap := 0.0, a.gaps(1, src)
	for i := 0; i < count || count == 0 && due < a.Curve.due() && i <= most; i++ {
		starts = append(starts, a.Curve.atMs(due))
		due += gap()
	}
	return starts
}

// gaps draws gaps with the mean meanMs.
//
//	exponential: rate 1/m
//	gamma:       shape k = 1/cv^2, scale m/k
//	Weibull:     shape k from cv (see weibullShape), scale m / Gamma(1 + 1/k)
func (a Arrivals) gaps(meanMs float64, src rand.Source) func() float64 {
	switch a.Process {
	case Poisson:
		unit := distuv.Exponential{Rate: 1, Src: src}
		return func() float64 { return meanMs * unit.Rand() }
	case Gamma:
		shape := 1 / (a.CV * a.CV)
		unit := distuv.Gamma{Alpha: shape, Beta: shape, Src: src}
		return func() float64 { return meanMs * unit.Rand() }
	case Weibull:
		shape := weibullShape(a.CV)
		unit := distuv.Weibull{K: shape, Lambda: 1 / math.Gamma(1+1/shape), Src: src}
		return func() float64 { return meanMs * unit.Rand() }
	}
	return func() float64 { return meanMs }
}

// weibullShape finds the shape k of a Weibull distribution from its coefficient of variation, which falls with k:
//
//	cv^2 = Gamma(1 + 2/k) / Gamma(1 + 1/k)^2 - 1
//
// It halves an interval of 1/k that holds all allowed coefficients.
func weibullShape(cv float64) float64 {
	low, high := 1e-3, 20.0 // of 1/k
	for range 100 {
		middle := (low + high) / 2
		once, _ := math.Lgamma(1 + middle)
		twice, _ := math.Lgamma(1 + 2*middle)
		if math.Expm1(twice-2*once) < cv*cv {
			low = middle
		} else {
			high = middle
		}
	}
	return 1 / low
}
