package router

import (
	"slices"
	"testing"

	"dynosim/gocore/kvcache"
)

// TestRoundRobinOfChangingWorkers: the turn goes on at the place where it was, whichever workers there are.
func TestRoundRobinOfChangingWorkers(t *testing.T) {
	r := NewRoundRobin(1)
	id := int32(0)
	for _, step := range []struct{ active, want []int }{
		{[]int{0}, []int{0, 0}},
		{[]int{0, 1, 2}, []int{1, 2, 0}}, // two requests left the counter at 1
		{[]int{0, 2, 5}, []int{2, 5}},
		{[]int{7}, []int{7, 7}},
		{[]int{7, 8}, []int{8, 7}},
	} {
		if _, err := r.SetWorkers(step.active, 0); err != nil {
			t.Fatal(err)
		}
		var got []int
		for range step.want {
			admitted, err := r.Submit(Request{ID: id, PromptTokens: 1}, 0)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, admitted[0].Worker)
			id++
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("workers %v: got %v, want %v", step.active, got, step.want)
		}
	}
}

// elasticKV returns a KV router with a queue, in front of workers that change.
func elasticKV(t *testing.T, workers ...int) *KV {
	t.Helper()
	mode, _ := FindMode(KVMode)
	options := Options{Config: DefaultConfig(), BlockSize: 4, MaxNumBatchedTokens: 100, Rand: naiveRand(1)}
	k := mode.Factory(&options).Make(len(workers)).(*KV)
	if _, err := k.SetWorkers(workers, 0); err != nil {
		t.Fatal(err)
	}
	return k
}

func prompt(id int32, segments ...uint32) Request {
	return Request{ID: id, Prompt: kvcache.Prompt{PerSegment: 1, Segments: segments}, PromptTokens: 4 * len(segments)}
}

// route returns the worker that gets a request, and how many of its blocks are cached there.
func route(t *testing.T, k *KV, r Request) (worker, overlap int) {
	t.Helper()
	admitted, err := k.Submit(r, 0)
	if err != nil || len(admitted) != 1 {
		t.Fatalf("request %d: got %v, %v", r.ID, admitted, err)
	}
	worker, overlap = admitted[0].Worker, admitted[0].OverlapBlocks
	if _, err := k.Free(r.ID, 0); err != nil { // it is over at once: loads are equal
		t.Fatal(err)
	}
	return worker, overlap
}

func stored(r Request) []kvcache.Event {
	return []kvcache.Event{{Blocks: r.Prompt.Blocks(0, len(r.Prompt.Segments))}}
}

// TestKVOfChangingWorkers: a worker that leaves gets no request although it has the blocks; one that comes has none;
// and one that stays keeps its own under its id.
func TestKVOfChangingWorkers(t *testing.T) {
	k := elasticKV(t, 0, 1)
	first := prompt(0, 1, 2, 3)
	k.Apply(0, stored(first))
	k.Apply(1, stored(prompt(9, 7, 8)))
	if worker, overlap := route(t, k, prompt(1, 1, 2, 3)); worker != 0 || overlap != 3 {
		t.Errorf("got worker %d with %d blocks, want 0 with 3", worker, overlap)
	}
	k.setWorkers(t, 1, 4)
	if worker, overlap := route(t, k, prompt(2, 1, 2, 3)); worker == 0 || overlap != 0 {
		t.Errorf("after worker 0 has left: got worker %d with %d blocks", worker, overlap)
	}
	if worker, overlap := route(t, k, prompt(3, 7, 8)); worker != 1 || overlap != 2 {
		t.Errorf("got worker %d with %d blocks, want 1 with 2", worker, overlap)
	}
	k.Apply(4, stored(prompt(9, 5)))
	if worker, overlap := route(t, k, prompt(4, 5)); worker != 4 || overlap != 1 {
		t.Errorf("got worker %d with %d blocks, want 4 with 1", worker, overlap)
	}
}

func (k *KV) setWorkers(t *testing.T, active ...int) {
	t.Helper()
	if _, err := k.SetWorkers(active, 0); err != nil {
		t.Fatal(err)
	}
}

// TestForget: nothing is left in the index of a worker that is gone.
func TestForget(t *testing.T) {
	k := elasticKV(t, 0, 1)
	k.Apply(0, stored(prompt(0, 1, 2, 3)))
	k.Apply(1, stored(prompt(0, 1, 2)))
	k.Forget(0)
	k.setWorkers(t, 0, 1)
	if worker, overlap := route(t, k, prompt(1, 1, 2, 3)); worker != 1 || overlap != 2 {
		t.Errorf("got worker %d with %d blocks, want 1 with 2", worker, overlap)
	}
}

// TestQueueWithoutWorkers: requests wait in the router and go to the first worker that comes, in the order of the
// queue.
func TestQueueWithoutWorkers(t *testing.T) {
	k := elasticKV(t)
	for id := range int32(3) {
		if admitted, err := k.Submit(prompt(id, uint32(id)+1), float64(id)); err != nil || len(admitted) > 0 {
			t.Fatalf("request %d: got %v, %v", id, admitted, err)
		}
	}
	if !k.Queues() || k.Waiting() != 3 {
		t.Errorf("got %d requests that wait, want 3", k.Waiting())
	}
	admitted, err := k.SetWorkers([]int{5}, 10)
	if err != nil || len(admitted) == 0 || admitted[0].ID != 0 || admitted[0].Worker != 5 || admitted[0].WaitMs != 10 {
		t.Errorf("got %v, %v", admitted, err)
	}
	if len(admitted)+k.Waiting() != 3 {
		t.Errorf("%d requests were admitted and %d wait, want 3 together", len(admitted), k.Waiting())
	}
}
