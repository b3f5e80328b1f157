package openai

import (
	"context"
	"slices"
	"sync"
)

// room is the memory that large bodies share. A body takes its part step by step, and may wait for the next step while
// it keeps what it has. If all that have a part waited, none of them would come to its end: then the newest of these is
// refused, and gives its part back.
type room struct {
	mu      sync.Mutex
	free    int64
	busy    int       // bodies that have a part and do not wait
	waiting []*waiter // in the order in which they came
}

// waiter is a body that waits for the next step.
type waiter struct {
	hold    *hold
	more    int64
	granted chan bool // gets one value
}

// hold is the part of a room that a request has.
type hold struct {
	of   *room
	size int64
}

// take adds the given number of bytes to the part of a request. It returns false if the context ends before there is
// room, or if the request is refused.
func (r *room) take(ctx context.Context, h *hold, more int64) bool {
	w := &waiter{hold: h, more: more, granted: make(chan bool, 1)}
	r.mu.Lock()
	h.of = r
	if h.size > 0 {
		r.busy--
	}
	r.waiting = append(r.waiting, w)
	r.settle()
	r.mu.Unlock()
	select {
	case granted := <-w.granted:
		return granted
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.waiting, w); i >= 0 {
		r.answer(i, false)
		r.settle()
	}
	return false
}

// release gives everything back. Nothing happens if there is nothing.
func (h *hold) release() {
	r := h.of
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.size > 0 {
		r.free += h.size
		h.size = 0
		r.busy--
		r.settle()
	}
}

// settle gives room to those that wait, in their order.
func (r *room) settle() {
	for len(r.waiting) > 0 && r.waiting[0].more <= r.free {
		r.answer(0, true)
	}
	if r.busy > 0 {
		return
	}
	for i := len(r.waiting) - 1; i >= 0; i-- {
		if r.waiting[i].hold.size > 0 {
			r.answer(i, false)
			return
		}
	}
}

// answer ends the wait of a body.
func (r *room) answer(i int, granted bool) {
	w := r.waiting[i]
	r.waiting = slices.Delete(r.waiting, i, i+1)
	if granted {
		r.free -= w.more
		w.hold.size += w.more
	}
	if w.hold.size > 0 {
		r.busy++
	}
	w.granted <- granted
}
