package frontend

import (
	"context"
	"slices"
	"sync"
	"testing"

	"dynosim/gocore/live/plane"
	"dynosim/gocore/protocol/wire"
	"dynosim/gocore/server/backend"
)

// TestBrokenAfterTheLastToken: an answer that has all its tokens is complete without a reason of the worker.
func TestBrokenAfterTheLastToken(t *testing.T) {
	s := newSite(t)
	s.worker(breaking(4))
	got, finish, failure := s.end(s.ask([]uint32{10}, 4))
	if !slices.Equal(got, []uint32{11, 12, 13, 14}) || finish != "length" || failure != nil {
		t.Errorf("got %v, %q, %v", got, finish, failure)
	}
}

// TestIDs: each attempt has an id of its own, whatever clients call their requests.
func TestIDs(t *testing.T) {
	s := newSite(t, withMigration(2))
	var mu sync.Mutex
	ids := map[string]int{}
	h := func(ctx context.Context, id string, r *wire.Request, reply plane.Reply) {
		mu.Lock()
		ids[id]++
		mu.Unlock()
		breaking(1)(ctx, id, r, reply)
	}
	for range 3 {
		s.worker(h)
	}
	s.found(3)
	for range 2 {
		wake := make(chan struct{}, 1)
		c := backend.NewCall(backend.Request{
			ID: "cmpl-0123456789abcdef0123456789abcdef", Prompt: []uint32{1}, Most: 9, Limited: true,
		}, wake)
		if err := s.served("tiny").Submit(c); err != nil {
			t.Fatal(err)
		}
		s.end(c, wake)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(ids) != 6 {
		t.Errorf("got %v, want 6 attempts with different ids", ids)
	}
}
