package openai

import (
	"context"
	"testing"
	"testing/synctest"
)

func (r *room) unused() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.free
}

// TestRoomForOne: bodies that all wait for more while they keep their parts do not wait for each other: all but the
// newest get it.
func TestRoomForOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parts = 4
		r := &room{free: parts}
		holds := make([]hold, parts)
		for i := range holds {
			if !r.take(t.Context(), &holds[i], 1) {
				t.Fatalf("body %d gets no room", i)
			}
		}
		granted := make([]chan bool, parts)
		for i := range holds {
			granted[i] = make(chan bool, 1)
			go func() {
				got := r.take(t.Context(), &holds[i], 1)
				holds[i].release()
				granted[i] <- got
			}()
			synctest.Wait() // the next one is newer
		}
		for i, got := range granted {
			if want := i < parts-1; <-got != want {
				t.Errorf("body %d: want %v", i, want)
			}
		}
		if got := r.unused(); got != parts || r.busy != 0 {
			t.Errorf("got %d of %d bytes and %d bodies afterwards", got, parts, r.busy)
		}
	})
}

// TestRoomInOrder: a body that has nothing waits for others as long as it takes, and is not overtaken by a smaller one.
func TestRoomInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &room{free: 10}
		var first, large, small, gone hold
		if !r.take(t.Context(), &first, 8) {
			t.Fatal("the first one gets no room")
		}
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan string, 3)
		ask := func(ctx context.Context, name string, h *hold, size int64) {
			go func() {
				if !r.take(ctx, h, size) {
					name += " refused"
				}
				done <- name
			}()
			synctest.Wait()
		}
		ask(t.Context(), "large", &large, 10)
		ask(ctx, "gone", &gone, 1)
		ask(t.Context(), "small", &small, 1)
		leave()
		if got := <-done; got != "gone refused" {
			t.Errorf("got %s first", got)
		}
		synctest.Wait()
		if got := r.unused(); got != 2 || len(done) != 0 {
			t.Errorf("got %d bytes left, want 2: the others wait", got)
		}
		first.release()
		if got := <-done; got != "large" {
			t.Errorf("got %s, want large", got)
		}
		large.release()
		if got := <-done; got != "small" {
			t.Errorf("got %s, want small", got)
		}
		for _, h := range []*hold{&first, &large, &small, &gone} { // some of them once more
			h.release()
		}
		if got := r.unused(); got != 10 || r.busy != 0 {
			t.Errorf("got %d bytes and %d bodies afterwards", got, r.busy)
		}
	})
}
