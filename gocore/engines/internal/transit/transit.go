// Package transit keeps the requests of an engine whose prompts are computed by another one: what the hand-off of every
// engine has in common. The engines add what they do with blocks.
//
//	source        running --Keep--> kept --Take--> gone
//	destination   Enqueue --> pending --Reserved--> reserved --Take--> the engine's own queues
package transit

import (
	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/internal/roster"
)

// Request is an engine's own type for a request.
type Request interface {
	comparable
	RequestID() engine.RequestID
}

// Sources are the requests of a prefill worker that are finished and keep their KV for a decode worker. The zero value
// is empty and ready.
type Sources[R Request] struct{ kept map[engine.RequestID]R }

// Keep adds a request.
func (s *Sources[R]) Keep(r R) {
	if s.kept == nil {
		s.kept = make(map[engine.RequestID]R)
	}
	s.kept[r.RequestID()] = r
}

// Take takes a request out, if it is there.
func (s *Sources[R]) Take(id engine.RequestID) (R, bool) {
	r, ok := s.kept[id]
	delete(s.kept, id)
	return r, ok
}

// Has reports whether a request is there.
func (s *Sources[R]) Has(id engine.RequestID) bool {
	_, ok := s.kept[id]
	return ok
}

// Append appends all of them to list, in any order.
func (s *Sources[R]) Append(list []R) []R {
	for _, r := range s.kept {
		list = append(list, r)
	}
	return list
}

// Destinations are the requests of a decode worker that are not activated yet. The zero value is empty and ready.
//
// Pending requests wait for room in the order in which they came, and only the first may take some. If there was none
// for it, it need not look again until room has been made: a request ended or lost its blocks, or blocks were given
// back in another way.
type Destinations[R Request] struct {
	pending  deque.Deque[R]
	reserved map[engine.RequestID]R
	full     bool // there was no room for the first pending request, and none has been made since
}

// Enqueue adds a request at the end of those that wait for room.
func (d *Destinations[R]) Enqueue(r R) { d.pending.PushBack(r) }

// Pending returns the number of requests that wait for room.
func (d *Destinations[R]) Pending() int { return d.pending.Len() }

// Reserved returns the number of requests that have room and wait for their KV.
func (d *Destinations[R]) Reserved() int { return len(d.reserved) }

// MayReserve reports whether there may be room for the first pending request.
func (d *Destinations[R]) MayReserve() bool { return d.pending.Len() > 0 && !d.full }

// First returns the first pending request; there must be one.
func (d *Destinations[R]) First() R { return d.pending.Front() }

// NoRoom tells that the first pending request has found no room.
func (d *Destinations[R]) NoRoom() { d.full = true }

// RoomMade tells that there may be more room now.
func (d *Destinations[R]) RoomMade() { d.full = false }

// Reserve moves the first pending request, which has got its room, to the reserved ones.
func (d *Destinations[R]) Reserve() {
	if d.reserved == nil {
		d.reserved = make(map[engine.RequestID]R)
	}
	r := d.pending.PopFront()
	d.reserved[r.RequestID()] = r
}

// TakeReserved takes a reserved request out, if it is there.
func (d *Destinations[R]) TakeReserved(id engine.RequestID) (R, bool) {
	r, ok := d.reserved[id]
	delete(d.reserved, id)
	return r, ok
}

// TakePending takes a pending request out, if it is there.
func (d *Destinations[R]) TakePending(id engine.RequestID) (R, bool) { return TakeFrom(&d.pending, id) }

// Append appends all of them to list, in any order.
func (d *Destinations[R]) Append(list []R) []R {
	for _, r := range d.reserved {
		list = append(list, r)
	}
	return roster.Append(list, &d.pending)
}

// TakeFrom takes a request out of a queue, if it is there.
func TakeFrom[R Request](queue *deque.Deque[R], id engine.RequestID) (r R, ok bool) {
	if i := queue.Index(func(r R) bool { return r.RequestID() == id }); i >= 0 {
		return queue.Remove(i), true
	}
	return r, false
}

// Find returns the request of that id among those that run or wait, the zero value if there is none.
func Find[R Request](running []R, waiting *deque.Deque[R], id engine.RequestID) (r R) {
	for _, r := range running {
		if r.RequestID() == id {
			return r
		}
	}
	if i := waiting.Index(func(r R) bool { return r.RequestID() == id }); i >= 0 {
		return waiting.At(i)
	}
	return r
}
