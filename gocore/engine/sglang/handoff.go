package sglang

import (
	"errors"
	"slices"

	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
	"dynosim/gocore/kvcache"
)

// sources are the requests of a prefill worker that hold their KV.
type sources map[engine.RequestID]*sequence

// destinations are the requests of a decode worker that have not run yet: pending ones in order of their Reserve, prebuilt
// ones in order of their activation.
//
// Room for the head of pending is looked for only if the generation has changed since that failed last: a request ended
// or was retracted, or slots were given back in another way.
type destinations struct {
	pending    deque.Deque[*sequence]
	reserved   map[engine.RequestID]*sequence
	prebuilt   deque.Deque[*sequence]
	generation int
	probed     int // the generation in which the head of pending found no room, or neverProbed
}

// neverProbed is no generation; they count from 0.
const neverProbed = -1

// comeFirst reports whether nobody else may be admitted.
func (d *destinations) comeFirst() bool { return d.pending.Len() > 0 || d.prebuilt.Len() > 0 }

// overhead is the number of slots that the last pages of prebuilt requests have left.
func (d *destinations) overhead(pageSize int) int {
	slots := 0
	for i := range d.prebuilt.Len() {
		tokens := d.prebuilt.At(i).holding.Tokens()
		slots += ceilDiv(tokens, pageSize)*pageSize - tokens
	}
	return slots
}

// ReleaseSource implements [engine.Source].
func (s *Scheduler) ReleaseSource(id engine.RequestID) []kvcache.Event {
	if !s.finishSource(id) {
		if r := s.find(id); r != nil {
			r.hold = false
		}
	}
	return s.takeEventsNow()
}

// CancelSource implements [engine.Source]. The KV of a prompt that has been computed stays in the cache.
func (s *Scheduler) CancelSource(id engine.RequestID) []kvcache.Event {
	if !s.finishSource(id) {
		s.remove(id)
	}
	return s.takeEventsNow()
}

// holdSource keeps a request that has all its tokens.
func (s *Scheduler) holdSource(r *sequence) {
	r.status = held
	s.sources[r.id] = r
	s.out.Held = append(s.out.Held, r.id)
}

func (s *Scheduler) finishSource(id engine.RequestID) bool {
	r, ok := s.sources[id]
	if ok {
		delete(s.sources, id)
		s.finish(r)
	}
	return ok
}

// takeEventsNow reports what happened to the pool between passes.
func (s *Scheduler) takeEventsNow() []kvcache.Event {
	if !s.observed {
		return nil
	}
	return s.pool.TakeEvents()
}

// Reserve implements [engine.Destination].
func (s *Scheduler) Reserve(req engine.Request) error {
	r := s.newSequence(req)
	if reason := s.overPool(r); reason != "" {
		s.spares = append(s.spares, r)
		return errors.New(reason)
	}
	r.status = pending
	s.destinations.pending.PushBack(r)
	return nil
}

// TryReserve implements [engine.Destination].
func (s *Scheduler) TryReserve() (engine.Reservation, bool) {
	d := &s.destinations
	if d.pending.Len() == 0 || d.probed == d.generation {
		return engine.Reservation{}, false
	}
	r := d.pending.Front()
	taken, ok := s.pool.Reserve(&r.holding, r.promptTokens, s.now())
	if !ok {
		d.probed = d.generation
		return engine.Reservation{}, false
	}
	d.pending.PopFront()
	r.status = reserved
	d.reserved[r.id] = r
	return engine.Reservation{ID: r.id, MissingTokens: taken}, true
}

// Activate implements [engine.Destination].
func (s *Scheduler) Activate(id engine.RequestID) {
	d := &s.destinations
	r := d.reserved[id]
	delete(d.reserved, id)
	if s.pool.Activate(&r.holding, r.promptTokens, s.now()) > 0 {
		d.generation++
	}
	r.status = prebuilt
	d.prebuilt.PushBack(r)
}

// promote lets requests run whose prompts have been computed elsewhere, in order of their activation.
func (s *Scheduler) promote() {
	d := &s.destinations
	for d.prebuilt.Len() > 0 && len(s.running) < s.args.MaxNumSeqs {
		r := d.prebuilt.PopFront()
		s.out.Admitted = append(s.out.Admitted, engine.Admission{ID: r.id})
		s.run(r)
	}
}

// CancelDestination implements [engine.Destination].
func (s *Scheduler) CancelDestination(id engine.RequestID) {
	d := &s.destinations
	if r, ok := d.reserved[id]; ok {
		delete(d.reserved, id)
		s.drop(r)
		return
	}
	for _, queue := range []*deque.Deque[*sequence]{&d.pending, &d.prebuilt} {
		if i := queue.Index(func(r *sequence) bool { return r.id == id }); i >= 0 {
			s.drop(queue.Remove(i))
			return
		}
	}
	s.remove(id)
}

// remove forgets a request that waits or runs.
func (s *Scheduler) remove(id engine.RequestID) {
	r := s.find(id)
	switch {
	case r == nil:
		return
	case r.status == running:
		s.stop(slices.Index(s.running, r))
	default:
		s.waiting.Remove(s.waiting.Index(func(q *sequence) bool { return q == r }))
	}
	s.drop(r)
}

// find returns a request that waits or runs, nil if there is none with this id.
func (s *Scheduler) find(id engine.RequestID) *sequence {
	for _, r := range s.running {
		if r.id == id {
			return r
		}
	}
	if i := s.waiting.Index(func(r *sequence) bool { return r.id == id }); i >= 0 {
		return s.waiting.At(i)
	}
	return nil
}

// inHandoff lists the requests whose KV moves or is to move, in any order.
func (s *Scheduler) inHandoff() []*sequence {
	var all []*sequence
	for _, r := range s.sources {
		all = append(all, r)
	}
	for _, r := range s.destinations.reserved {
		all = append(all, r)
	}
	for i := range s.destinations.pending.Len() {
		all = append(all, s.destinations.pending.At(i))
	}
	return all
}
