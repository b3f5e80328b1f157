// Package roster lists the requests of an engine: what all schedulers have in common that does not schedule.
package roster

import (
	"slices"

	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
)

// Append appends the requests of a queue to list.
func Append[R any](list []R, queue *deque.Deque[R]) []R {
	for i := range queue.Len() {
		list = append(list, queue.At(i))
	}
	return list
}

// States sorts requests by their arrival and tells where they stand.
func States[R any](requests []R, byOrder func(a, b R) int, state func(R) engine.RequestState) []engine.RequestState {
	slices.SortFunc(requests, byOrder)
	states := make([]engine.RequestState, len(requests))
	for i, r := range requests {
		states[i] = state(r)
	}
	return states
}

// Queued counts requests that wait: for their prompt, or to decode. waits tells how many tokens a request has, and
// whether it waits to decode.
func Queued[R any](queue *deque.Deque[R], waits func(R) (tokens int, decodes bool)) (p engine.Phases) {
	for i := range queue.Len() {
		if tokens, decodes := waits(queue.At(i)); decodes {
			p.AddDecode(tokens)
		} else {
			p.AddPrefill(tokens, tokens, 0)
		}
	}
	return p
}

// Spares are requests, or batches, that are over, for use by new ones. The zero value is ready.
type Spares[R any] struct{ spares []*R }

// Take returns one that is over, as it was left, or a new one.
func (s *Spares[R]) Take() *R {
	if n := len(s.spares); n > 0 {
		r := s.spares[n-1]
		s.spares = s.spares[:n-1]
		return r
	}
	return new(R)
}

// Put keeps one that is over.
func (s *Spares[R]) Put(r *R) { s.spares = append(s.spares, r) }
