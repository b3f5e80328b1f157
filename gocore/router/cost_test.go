package router

import (
	"errors"
	"math"
	"slices"
	"testing"
)

// priced returns candidates of given costs.
func priced(costs ...float64) *candidates {
	c := &candidates{cost: costs, cheapest: slices.Min(costs)}
	for _, cost := range costs {
		if cost == c.cheapest {
			c.tied++
		}
	}
	return c
}

// TestSampleFrequencies compares draws with the probabilities worked out by hand for costs 8, 11 and 17.
func TestSampleFrequencies(t *testing.T) {
	for _, test := range []struct {
		temperature float64
		want        [3]float64
	}{
		{1, [3]float64{0.4797, 0.3437, 0.1765}},
		{0.2, [3]float64{0.8364, 0.1580, 0.0056}},
	} {
		const draws = 200_000
		var counts, again [3]int
		for _, to := range []*[3]int{&counts, &again} {
			c, rng := priced(8, 11, 17), naiveRand(1)
			for range draws {
				to[c.sample(test.temperature, rng)]++
			}
		}
		if counts != again {
			t.Errorf("temperature %v: got %v, then %v", test.temperature, counts, again)
		}
		for w, n := range counts {
			if got := float64(n) / draws; math.Abs(got-test.want[w]) > 0.004 {
				t.Errorf("temperature %v: worker %d is chosen with %v, want %v", test.temperature, w, got, test.want[w])
			}
		}
	}
}

// TestTies: all of the cheapest are equally probable, and no other worker has a chance.
func TestTies(t *testing.T) {
	const draws = 60_000
	var counts [5]int
	c, rng := priced(3, 2, 2, 4, 2), naiveRand(1)
	for range draws {
		counts[c.pickCheapest(rng)]++
	}
	for w, n := range counts {
		want := 0.0
		if c.cost[w] == 2 {
			want = 1.0 / 3
		}
		if got := float64(n) / draws; math.Abs(got-want) > 0.01 {
			t.Errorf("worker %d is chosen with %v, want %v", w, got, want)
		}
	}
}

// TestNoNeedlessDraw: what needs no draw must not move the generator.
func TestNoNeedlessDraw(t *testing.T) {
	rng, untouched := naiveRand(1), naiveRand(1)
	priced(3, 2, 4).pickCheapest(rng)
	if rng.Uint64() != untouched.Uint64() {
		t.Error("a single cheapest worker took a draw")
	}
}

// TestExtremeTemperatures: where the softmax is no number, the cheapest worker is taken.
func TestExtremeTemperatures(t *testing.T) {
	for _, test := range []struct {
		costs       []float64
		temperature float64
	}{
		{[]float64{5, 2, 4}, 1e-320},
		{[]float64{5, 0, 4}, 1e-320},
		{[]float64{5, 2, 4}, 1e-3},
		{[]float64{math.Inf(1), 2, 4}, 1},
		{[]float64{1e308, 2, 1e307}, 1e-300},
	} {
		if got := priced(test.costs...).sample(test.temperature, naiveRand(1)); got != 1 {
			t.Errorf("costs %v, temperature %v: got worker %d", test.costs, test.temperature, got)
		}
	}
	if got := priced(2, 2, 2).sample(1, naiveRand(1)); got != priced(2, 2, 2).pickCheapest(naiveRand(1)) {
		t.Errorf("equal costs: got worker %d, not the one of a tie", got)
	}
}

// TestPinAtTemperature: a checked pin may name any worker that can be drawn.
func TestPinAtTemperature(t *testing.T) {
	for _, test := range []struct {
		temperature float64
		worker      int
		ok          bool
	}{
		{0.5, 0, true}, {0.5, 1, true}, {0.0001, 0, false}, {0.0001, 1, true}, {0.5, 2, false}, {0.5, -1, false},
	} {
		config := DefaultConfig()
		config.Temperature = test.temperature
		k := New(Options{
			Config: config, Workers: 2, BlockSize: 64, MaxNumBatchedTokens: 8192, Rand: naiveRand(0), Stage: "decode",
			Pin: func(id int32) (int, bool) { return []int{0, test.worker}[id], true },
		})
		if _, err := k.Submit(Request{ID: 0, PromptTokens: 640, Prompt: benchPrompt(0, 10)}, 0); err != nil {
			t.Fatal(err)
		}
		admitted, err := k.Submit(Request{ID: 1, PromptTokens: 64, Prompt: benchPrompt(100, 1)}, 12.5)
		var pin *PinError
		switch {
		case test.ok && (err != nil || admitted[0].Worker != test.worker):
			t.Errorf("%+v: admitted %+v, error %v", test, admitted, err)
		case !test.ok && (!errors.As(err, &pin) || pin.AtMs != 12.5 || pin.ID != 1 || pin.Worker != test.worker ||
			!slices.Equal(pin.Costs, []float64{22, 2})):
			t.Errorf("%+v: got error %v", test, err)
		}
	}
}

func TestBadCalls(t *testing.T) {
	k := New(Options{Config: DefaultConfig(), Workers: 2, BlockSize: 64, MaxNumBatchedTokens: 8192, Rand: naiveRand(0)})
	if _, err := k.Submit(Request{ID: 1}, 0); err == nil ||
		err.Error() != "request 1 has 0 prompt tokens, want at least 1" {
		t.Errorf("no tokens: %v", err)
	}
	if _, err := k.Submit(Request{ID: 1, PromptTokens: 200, Prompt: benchPrompt(0, 2)}, 0); err == nil ||
		err.Error() != "request 1 has 3 full blocks and ids for 2 of them" {
		t.Errorf("too few ids: %v", err)
	}
	if _, err := k.PrefillCompleted(1, 0); err == nil ||
		err.Error() != "the prefill of request 1 is done, but no such request is active" {
		t.Errorf("unknown request: %v", err)
	}
	r := Request{ID: 1, PromptTokens: 64, Prompt: benchPrompt(0, 1)}
	if _, err := k.Submit(r, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Submit(r, 0); err == nil || err.Error() != "request 1 is active already" {
		t.Errorf("twice the same: %v", err)
	}
}
