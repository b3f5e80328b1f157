package router

import (
	"math/rand/v2"
	"testing"
)

// TestRandom: every worker gets its share, and equal seeds give equal choices.
func TestRandom(t *testing.T) {
	const workers, requests = 4, 4000
	first := NewRandom(workers, rand.New(rand.NewPCG(1, 2)))
	second := NewRandom(workers, rand.New(rand.NewPCG(1, 2)))
	var counts [workers]int
	for i := range int32(requests) {
		got, err := first.Submit(Request{ID: i, PromptTokens: 1}, 0)
		if err != nil || len(got) != 1 || got[0].ID != i {
			t.Fatalf("got %v, %v", got, err)
		}
		again, _ := second.Submit(Request{ID: i, PromptTokens: 1}, 0)
		if again[0] != got[0] {
			t.Fatalf("request %d: got %v and %v", i, got[0], again[0])
		}
		counts[got[0].Worker]++
	}
	for worker, n := range counts {
		if n < requests/workers*8/10 || n > requests/workers*12/10 {
			t.Errorf("worker %d got %d of %d requests", worker, n, requests)
		}
	}
}
