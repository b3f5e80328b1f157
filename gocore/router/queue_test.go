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

// TestQueueOrder takes requests while others join, of which most go behind all others.
func TestQueueOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, policy := range []QueuePolicy{FCFS, LCFS, WSPT} {
		q := queue{policy: policy}
		var all []*waiting
		for id := range int32(2000) {
			r := Request{ID: id, PromptTokens: 1 + rng.IntN(3), Priority: int64(rng.IntN(10) / 9)}
			q.push(r, nil, 0, float64(id/7))
			all = append(all, &waiting{request: r, score: policy.score(r, 0, float64(id/7)), order: int64(id)})
			if rng.IntN(3) > 0 {
				continue
			}
			first := 0
			for i := range all {
				if all[i].before(all[first]) {
					first = i
				}
			}
			if got := q.pop(); got.request.ID != all[first].request.ID {
				t.Fatalf("policy %v: got request %d, want %d", policy, got.request.ID, all[first].request.ID)
			}
			all = slices.Delete(all, first, first+1)
			if q.len() != len(all) {
				t.Fatalf("%d wait, want %d", q.len(), len(all))
			}
		}
	}
}
