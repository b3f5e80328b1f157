package router

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestQueueRemovals removes from the middle of long queues, and checks which requests are left in which order.
func TestQueueRemovals(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		q := queue{policy: WSPT}
		var want []Request
		for id := range int32(60) {
			r := Request{ID: id, PromptTokens: 1 + rng.IntN(30), StrictPriority: uint64(rng.IntN(3))}
			q.push(r, nil, 0, 0)
			want = append(want, r)
		}
		slices.SortStableFunc(want, func(a, b Request) int {
			if a.StrictPriority != b.StrictPriority {
				return int(b.StrictPriority) - int(a.StrictPriority)
			}
			return a.PromptTokens - b.PromptTokens
		})
		for range 30 {
			i := rng.IntN(len(want))
			if !q.remove(want[i].ID) || q.remove(want[i].ID) {
				t.Fatalf("request %d: not removed exactly once", want[i].ID)
			}
			want = slices.Delete(want, i, i+1)
		}
		for i, r := range want {
			if got := q.pop(); got.request.ID != r.ID {
				t.Fatalf("place %d: got request %d, want %d", i, got.request.ID, r.ID)
			}
		}
	}
}
