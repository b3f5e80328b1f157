package router

import (
	"math/rand/v2"
	"slices"
	"testing"

	"dynosim/gocore/kvcache"
)

// newView makes a KV-aware router of three workers with a configuration.
func newView(t *testing.T, text string) Elastic {
	t.Helper()
	c, _, err := ParseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	return NewKV(Options{Config: c, Workers: 3, BlockSize: 4, MaxNumBatchedTokens: 100,
		Rand: rand.New(rand.NewPCG(1, 2))})
}

// different returns a request that shares nothing with others.
func different(id int32, tokens int) Request {
	r := Request{ID: id, PromptTokens: tokens, Prompt: kvcache.Prompt{PerSegment: 1}}
	for i := range uint32(tokens / 4) {
		r.Prompt.Segments = append(r.Prompt.Segments, uint32(id)*1000+i)
	}
	return r
}

// sent submits a request that must not wait, and returns its worker.
func sent(t *testing.T, e Elastic, r Request, atMs float64) int {
	t.Helper()
	got, err := e.Submit(r, atMs)
	if err != nil || len(got) != 1 || got[0].ID != r.ID {
		t.Fatalf("request %d: %v, %v", r.ID, got, err)
	}
	return got[0].Worker
}

// TestKVPolled: between two polls a router does not see what it has sent; three requests of which two would be too many
// for a worker may go to one.
func TestKVPolled(t *testing.T) {
	k := newView(t, `{"metrics_interval_ms": 100, "overlap_score_credit": 0}`)
	first := sent(t, k, different(1, 400), 50)
	second := sent(t, k, different(2, 800), 100) // the poll at 100 ms sees the first
	if second == first {
		t.Errorf("the second request went to worker %d, too", second)
	}
	for id := int32(3); id < 20; id++ {
		if w := sent(t, k, different(id, 400), 150); w == first {
			t.Fatalf("request %d went to worker %d, which was not idle at the poll", id, w)
		}
	}
	if w := sent(t, k, different(20, 4), 200); w != first {
		t.Errorf("after the next poll a request went to %d, want %d, which has least to do", w, first)
	}
}

// TestKVReplicas: each of two routers knows its own requests only, and both learn of caches.
func TestKVReplicas(t *testing.T) {
	r := newView(t, `{"router_replicas": 2}`)
	a := sent(t, r, different(1, 400), 1)
	b := sent(t, r, different(2, 400), 1)
	workers := []int{a}
	for id := int32(3); id < 7; id += 2 { // those of the first router go round its idle workers
		workers = append(workers, sent(t, r, different(id, 400), 1))
		sent(t, r, different(id+1, 400), 1)
	}
	if slices.Sort(workers); !slices.Equal(workers, []int{0, 1, 2}) {
		t.Errorf("the first router sent to %v, the second one its first request to %d", workers, b)
	}
	for id := int32(1); id < 7; id++ {
		if _, err := r.PrefillCompleted(id, 2); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Free(id, 3); err != nil {
			t.Fatal(err)
		}
	}
	prompt := different(9, 40)
	stored := kvcache.Event{Kind: kvcache.Stored}
	for _, s := range prompt.Prompt.Segments {
		stored.Blocks = stored.Blocks.Append(kvcache.BlockID(s), 1)
	}
	r.Apply(2, []kvcache.Event{stored})
	for id := int32(10); id < 12; id++ {
		prompt.ID = id
		if w := sent(t, r, prompt, 4); w != 2 {
			t.Errorf("request %d went to %d, its prompt is cached on 2", id, w)
		}
	}
	if got, err := r.Free(77, 5); got != nil || err != nil {
		t.Errorf("a request that is not known: %v, %v", got, err)
	}
}

// TestReplicasShareReports: with an interval all replicas see what all have sent.
func TestReplicasShareReports(t *testing.T) {
	r := newView(t, `{"router_replicas": 2, "metrics_interval_ms": 100, "overlap_score_credit": 0}`)
	first := sent(t, r, different(1, 400), 50)
	if other := sent(t, r, different(2, 400), 150); other == first {
		t.Errorf("the second router sent to worker %d, whose request it must have seen at 100 ms", other)
	}
}

// asking decides for the worker with the fewest requests that it sees, and polls.
type asking struct{ everyMs float64 }

func (a asking) Begin(Pool) (Wishes, error) { return Wishes{MetricsMs: a.everyMs}, nil }

func (asking) Decide(q *Question) (Verdict, error) {
	if q.New == nil {
		return Verdict{}, nil
	}
	return Verdict{Decided: true, ID: q.New.ID, Place: slices.Index(q.Requests, slices.Min(q.Requests))}, nil
}

// TestAskedPolled: a rule from outside that polls sees the requests of the last poll.
func TestAskedPolled(t *testing.T) {
	a := NewAsked(Options{Workers: 3, BlockSize: 4, Blocks: 100, Decider: asking{100}})
	var got []int
	for i, atMs := range []float64{0, 50, 99, 100, 150, 200} {
		got = append(got, sent(t, a, different(int32(i), 8), atMs))
	}
	if want := []int{0, 0, 0, 1, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := a.SetWorkers([]int{1, 3, 4}, 210); err != nil {
		t.Fatal(err)
	}
	if w := sent(t, a, different(9, 8), 220); w != 3 {
		t.Errorf("a request went to %d, want 3, which came after the poll", w)
	}
}
