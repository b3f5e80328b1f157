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

// drained returns the ids of all requests of a queue, in the order in which they go.
func drained(q *queue) (ids []int32) {
	for q.len() > 0 {
		ids = append(ids, q.pop().request.ID)
	}
	return ids
}

// TestQueuePolicies: the orders that Dynamo does not have.
func TestQueuePolicies(t *testing.T) {
	requests := []Request{
		{ID: 0, PromptTokens: 100, Tenant: "a"},
		{ID: 1, PromptTokens: 100, Tenant: "a", Priority: -1, DeadlineMs: 50},
		{ID: 2, PromptTokens: 100, Tenant: "a", Priority: 5, DeadlineMs: 70},
		{ID: 3, PromptTokens: 100, Tenant: "b", Priority: 5},
		{ID: 4, PromptTokens: 300, Tenant: "b", DeadlineMs: 20},
		{ID: 5, PromptTokens: 100, Tenant: "b"},
		{ID: 6, PromptTokens: 100, Tenant: "a"},
	}
	for _, c := range []struct {
		policy  QueuePolicy
		weights string
		want    []int32
	}{
		{ByPriority, "", []int32{2, 3, 0, 4, 5, 6, 1}},
		{EDF, "", []int32{4, 1, 2, 0, 3, 5, 6}},
		// The clocks of a's requests begin at 0, 100, 200 and 300, those of b's at 0, 100 and 400.
		{WFQ, "", []int32{0, 3, 1, 4, 2, 6, 5}},
		// Those of b's at 0, 25 and 100.
		{WFQ, "b=4", []int32{0, 3, 4, 1, 5, 2, 6}},
	} {
		q := &queue{policy: c.policy, fair: newFair(Config{TenantWeights: c.weights})}
		for _, r := range requests {
			q.push(r, nil, 0, 0)
		}
		if got := drained(q); !slices.Equal(got, c.want) {
			t.Errorf("%v %s: %v, want %v", c.policy, c.weights, got, c.want)
		}
	}
}

// TestFairShares: of two tenants that always wait, one with three times the weight gets three times the tokens,
// whatever the lengths of their prompts; one that comes later does not catch up with what it did not ask for.
func TestFairShares(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	q := &queue{policy: WFQ, fair: newFair(Config{TenantWeights: "gold=3"})}
	id := int32(0)
	push := func(tenant string) {
		q.push(Request{ID: id, Tenant: tenant, PromptTokens: 1 + rng.IntN(400)}, nil, 0, 0)
		id++
	}
	served := map[string]int{}
	push("gold")
	push("free")
	for range 4000 {
		r := q.pop().request
		served[r.Tenant] += r.PromptTokens
		push(r.Tenant)
		if q.len() < 2 {
			t.Fatal("a tenant does not wait")
		}
	}
	if ratio := float64(served["gold"]) / float64(served["free"]); ratio < 2.9 || ratio > 3.1 {
		t.Errorf("gold got %v times as much as free", ratio)
	}
	push("late")
	first := map[string]int{}
	for range 8 {
		r := q.pop().request
		first[r.Tenant]++
		push(r.Tenant)
	}
	if first["late"] > 4 {
		t.Errorf("a tenant that came late got %d of 8", first["late"])
	}
}

// BenchmarkQueuePolicies measures what it takes a request to join a queue of 1,000, and the first one to leave it.
func BenchmarkQueuePolicies(b *testing.B) {
	for policy, name := range queuePolicyNames {
		b.Run(name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			q := &queue{policy: QueuePolicy(policy), fair: newFair(Config{TenantWeights: "a=3"})}
			tenants := []string{"a", "b", "c", "d"}
			id := int32(0)
			push := func() {
				q.push(Request{
					ID: id, Tenant: tenants[rng.IntN(4)], PromptTokens: 1 + rng.IntN(8192),
					Priority: int64(rng.IntN(5)), DeadlineMs: float64(id) + rng.Float64()*5000,
				}, nil, 0, float64(id))
				id = (id + 1) % (1 << 30)
			}
			for range 1000 {
				push()
			}
			for b.Loop() {
				push()
				q.recycle(q.pop())
			}
		})
	}
}
