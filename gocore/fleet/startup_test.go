package fleet

import (
	"math"
	"testing"
)

// TestStartUps: drawn times have the mean and the coefficient of variation that were asked for, and depend on seed,
// pool and worker only.
func TestStartUps(t *testing.T) {
	s := startUps{seconds: 60, cv: 0.5, seed: 7, stream: decodeStartUps}
	const n = 20_000
	sum, squares := 0.0, 0.0
	for id := range n {
		seconds := s.ms(id) / 1000
		if seconds <= 0 {
			t.Fatalf("worker %d takes %v s", id, seconds)
		}
		sum += seconds
		squares += seconds * seconds
	}
	mean := sum / n
	if cv := math.Sqrt(squares/n-mean*mean) / mean; math.Abs(mean/60-1) > 0.02 || math.Abs(cv/0.5-1) > 0.03 {
		t.Errorf("got mean %v and coefficient %v, want 60 and 0.5", mean, cv)
	}
	other := s
	other.seed = 8
	prefill := s
	prefill.stream = prefillStartUps
	if s.ms(3) != s.ms(3) || s.ms(3) == other.ms(3) || s.ms(3) == prefill.ms(3) {
		t.Error("want times that depend on seed, pool and worker")
	}
	s.cv = 0
	if got := s.ms(3); got != 60_000 {
		t.Errorf("without variation: got %v ms", got)
	}
}
