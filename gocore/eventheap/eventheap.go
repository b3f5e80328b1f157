// Package eventheap is a queue of things that happen at an instant of simulated time, with a total order: earlier time
// first, then those that began earlier, if that is known, then lower sequence number. Two events must not agree in all.
package eventheap

import "math"

// Event is a value that is due at AtMs.
type Event[T any] struct {
	AtMs    float64
	SinceMs float64 // when it began, 0 if that does not matter
	Seq     int64
	Value   T
}

// Before reports whether e comes first.
func (e *Event[T]) Before(other *Event[T]) bool {
	switch {
	case e.AtMs != other.AtMs:
		return e.AtMs < other.AtMs
	case e.SinceMs != other.SinceMs:
		return e.SinceMs < other.SinceMs
	}
	return e.Seq < other.Seq
}

// Heap is a binary min-heap of events. The zero value is empty and ready. It exists beside container/heap because that
// one moves every event through an interface value, which costs an allocation each.
type Heap[T any] struct {
	events []Event[T]
}

// Len returns the number of events.
func (h *Heap[T]) Len() int { return len(h.events) }

// Top returns the first event, which stays in the heap, or nil. The event is valid until the heap changes.
func (h *Heap[T]) Top() *Event[T] {
	if len(h.events) == 0 {
		return nil
	}
	return &h.events[0]
}

// NextMs returns when the first event is due, +Inf if there is none.
func (h *Heap[T]) NextMs() float64 {
	if len(h.events) == 0 {
		return math.Inf(1)
	}
	return h.events[0].AtMs
}

// Push adds an event.
func (h *Heap[T]) Push(atMs float64, seq int64, value T) {
	h.Add(Event[T]{AtMs: atMs, Seq: seq, Value: value})
}

// Add adds an event that may have begun at some time.
func (h *Heap[T]) Add(e Event[T]) {
	h.events = append(h.events, e)
	i := len(h.events) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.Before(&h.events[parent]) {
			break
		}
		h.events[i] = h.events[parent]
		i = parent
	}
	h.events[i] = e
}

// Pop removes the first event and returns its value. The heap must not be empty.
func (h *Heap[T]) Pop() T {
	top, last := h.events[0].Value, h.events[len(h.events)-1]
	h.events = h.events[:len(h.events)-1]
	if len(h.events) > 0 {
		h.sink(last)
	}
	return top
}

// sink puts e where the root was and moves it down.
func (h *Heap[T]) sink(e Event[T]) {
	i, n := 0, len(h.events)
	for {
		child := 2*i + 1
		if child >= n {
			break
		}
		if child+1 < n && h.events[child+1].Before(&h.events[child]) {
			child++
		}
		if !h.events[child].Before(&e) {
			break
		}
		h.events[i] = h.events[child]
		i = child
	}
	h.events[i] = e
}
