package timing

import (
	"math/rand/v2"
	"testing"
)

// TestScaled: factors apply before rounding, and 1 changes nothing.
func TestScaled(t *testing.T) {
	prefill, decode := PrefillShape{Requests: 1, MeanISL: 64},
		DecodeShape{Requests: 1, ActiveTokens: 1, TotalTokens: 100}
	p := Polynomial{}
	s := Scale(nil, 2, 0.5)
	if got, want := s.PrefillMs(prefill), 2*p.PrefillMs(prefill); got != want {
		t.Errorf("prefill: got %v, want %v", got, want)
	}
	if got, want := s.DecodeMs(decode), p.DecodeMs(decode)/2; got != want {
		t.Errorf("decode: got %v, want %v", got, want)
	}
	if !Pure(s) || Pure(Scale(NewAsked(1, nil), 2, 1)) {
		t.Error("a scaled model must be as pure as the model")
	}
	if Scale(nil, 1, 1) != nil {
		t.Error("factors of 1 make a model of their own")
	}
}

func TestHost(t *testing.T) {
	for _, test := range []struct {
		host     Host
		speedup  float64
		requests int
		want     float64
	}{
		{Host{}, 1, 5, 0},
		{Host{StepMs: 1, SeqMs: 0.25}, 1, 0, 0},
		{Host{StepMs: 1, SeqMs: 0.25}, 1, 4, 2},
		{Host{StepMs: 1, SeqMs: 0.25, Ranks: 4}, 1, 5, 1.5},
		{Host{StepMs: 1, SeqMs: 0.25}, 4, 4, 0.5},
		{Host{StepMs: 1e-7}, 1, 4, 0}, // a tenth of a nanosecond
	} {
		clock := Clock{Speedup: test.speedup, Host: test.host}
		if got := clock.HostMs(test.requests); got != test.want {
			t.Errorf("%+v, %d requests: got %v, want %v", test.host, test.requests, got, test.want)
		}
	}
}

// TestRoundedTwice: a ratio of 1 rounds twice as any other does, although the second time is left out where it changes
// nothing.
func TestRoundedTwice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for range 100_000 {
		ms := rng.Float64() * float64(uint64(1)<<rng.IntN(42))
		if got, want := scaled(ms, 1), Seconds(Nanos(Seconds(Nanos(ms/1000))/1)); got != want {
			t.Fatalf("%v ms: got %v s, want %v", ms, got, want)
		}
	}
}
