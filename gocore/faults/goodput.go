package faults

import (
	"math"
	"sort"
)

// Goodput is how many requests per second were completed in time, around a fault.
type Goodput struct {
	BeforeRPS, DuringRPS, AfterRPS float64 // NaN where there is no time
	// RecoveryMs is the time from the beginning of the fault until goodput is back: the first window that ends after
	// the fault has begun, in which it is at least 95 % of that before. 0 if it never was below, NaN if it does not
	// come back.
	RecoveryMs float64
}

// Bounds of the window over which goodput is measured: long enough for a number of requests, but not shorter than a
// time.
const (
	windowRequests = 100
	leastWindowMs  = 10_000
	recovered      = 0.95
	steps          = 10 // of a window, between two looks
)

// Around measures goodput around a fault that begins at atMs and is over at untilMs. good are the times at which
// requests completed in time, ascending, of a run that ends at endMs.
func Around(good []float64, atMs, untilMs, endMs float64) Goodput {
	untilMs = min(max(untilMs, atMs), endMs)
	windowMs := window(good, atMs)
	fromMs := max(0, atMs-windowMs)
	g := Goodput{
		BeforeRPS: rate(good, fromMs, atMs),
		DuringRPS: rate(good, atMs, untilMs),
		AfterRPS:  rate(good, untilMs, min(untilMs+windowMs, endMs)),
	}
	g.RecoveryMs = recovery(good, g.BeforeRPS, atMs, untilMs, endMs, windowMs)
	return g
}

// window returns the time that windowRequests take on average before atMs.
func window(good []float64, atMs float64) float64 {
	n := count(good, 0, atMs)
	if n == 0 {
		return leastWindowMs
	}
	return max(leastWindowMs, atMs/float64(n)*windowRequests)
}

// recovery looks at windows that end at equal distances after the fault has begun.
func recovery(good []float64, before, atMs, untilMs, endMs, windowMs float64) float64 {
	if math.IsNaN(before) || before == 0 {
		return before // nothing is known, or it cannot be worse than before
	}
	fell := false
	for step := 1; ; step++ {
		afterMs := windowMs * float64(step) / steps
		toMs := atMs + afterMs
		if toMs > endMs {
			break
		}
		switch low := rate(good, toMs-windowMs, toMs) < recovered*before; {
		case low:
			fell = true
		case fell:
			return afterMs
		case step >= steps && toMs >= untilMs: // it never fell
			return 0
		}
	}
	if fell {
		return math.NaN()
	}
	return 0
}

// rate returns the number of times in (fromMs, toMs] per second.
func rate(times []float64, fromMs, toMs float64) float64 {
	if toMs <= fromMs {
		return math.NaN()
	}
	return float64(count(times, fromMs, toMs)) / (toMs - fromMs) * 1000
}

func count(times []float64, fromMs, toMs float64) int {
	until := func(ms float64) int { return sort.Search(len(times), func(i int) bool { return times[i] > ms }) }
	return max(0, until(toMs)-until(fromMs))
}
