package routing

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/router"
)

// TestRules: when a worker that has failed is chosen again, by the rules of each release. Workers are listed at 5,000
// ms.
func TestRules(t *testing.T) {
	for _, test := range []struct {
		rules  Rules
		mode   Mode
		how    Failure
		atOnce bool // whether it is chosen at 1,000 ms; at 5,000 it always is
	}{
		{OwnRules, RoundRobin, Broken, false},
		{Rules13, RoundRobin, Broken, false},
		{Rules13, RoundRobin, Refused, true},
		{Rules13, KV, Broken, true},
		{Rules16, RoundRobin, Broken, false},
		{Rules16, RoundRobin, Refused, false},
		{Rules16, KV, Broken, false},
		{Rules16, KV, Refused, false},
	} {
		p := New(Config{Mode: test.mode, Rules: test.rules, BlockSize: 4, Router: router.DefaultConfig(),
			Rand: rand.New(rand.NewPCG(1, 1))})
		for id := range uint64(2) {
			if _, err := p.Add(id, 0, 1, 0); err != nil {
				t.Fatal(err)
			}
		}
		p.Failed(1, test.how, 900)
		p.Succeeded(1) // another request
		if test.rules == OwnRules {
			p.Failed(1, test.how, 900)
		}
		for _, atMs := range []float64{1000, 5000} {
			chosen := false
			for range 4 { // all stay open, so each worker gets some
				_, choices, err := p.Submit(Request{Prompt: []uint32{1, 2, 3, 4}}, atMs)
				if err != nil || len(choices) != 1 {
					t.Fatal(choices, err)
				}
				chosen = chosen || choices[0].Worker == 1
			}
			if chosen != (test.atOnce || atMs == 5000) {
				t.Errorf("%+v: at %v ms chosen: %v", test, atMs, chosen)
			}
		}
		if unlisted := test.rules == Rules13 && test.mode == KV; p.Listed(1, 1000) == unlisted || !p.Listed(1, 5000) {
			t.Errorf("%+v: on the list: %v, %v", test, p.Listed(1, 1000), p.Listed(1, 5000))
		}
	}
}
