package sglang

import (
	"errors"
	"slices"

	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/internal/transit"
	"dynosim/gocore/kvcache"
)

// destinations are the requests of a decode worker that have not run yet: pending and reserved ones in order of their
// Reserve, prebuilt ones in order of their activation.
type destinations struct {
	transit.Destinations[*sequence]
	prebuilt deque.Deque[*sequence]
}

// comeFirst reports whether no other request may be admitted.
func (d *destinations) comeFirst() bool { return d.Pending() > 0 || d.prebuilt.Len() > 0 }

// overhead returns the number of slots that the last pages of prebuilt requests have left.
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
	s.sources.Keep(r)
	s.out.Held = append(s.out.Held, r.id)
}

func (s *Scheduler) finishSource(id engine.RequestID) bool {
	r, ok := s.sources.Take(id)
	if ok {
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
		s.spares.Put(r)
		return errors.New(reason)
	}
	r.status = pending
	s.destinations.Enqueue(r)
	return nil
}

// TryReserve implements [engine.Destination].
func (s *Scheduler) TryReserve() (engine.Reservation, bool) {
	d := &s.destinations
	if !d.MayReserve() {
		return engine.Reservation{}, false
	}
	r := d.First()
	taken, ok := s.pool.Reserve(&r.holding, r.promptTokens, s.now())
	if !ok {
		d.NoRoom()
		return engine.Reservation{}, false
	}
	d.Reserve()
	r.status = reserved
	return engine.Reservation{ID: r.id, MissingTokens: taken}, true
}

// Activate implements [engine.Destination].
func (s *Scheduler) Activate(id engine.RequestID) {
	d := &s.destinations
	r, _ := d.TakeReserved(id)
	if s.pool.Activate(&r.holding, r.promptTokens, s.now()) > 0 {
		d.RoomMade()
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
		s.parts.Join(r.id)
		s.run(r)
	}
}

// CancelDestination implements [engine.Destination].
func (s *Scheduler) CancelDestination(id engine.RequestID) {
	d := &s.destinations
	r, ok := d.TakeReserved(id)
	if !ok {
		r, ok = d.TakePending(id)
	}
	if !ok {
		r, ok = transit.TakeFrom(&d.prebuilt, id)
	}
	if ok {
		s.drop(r)
		return
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
		transit.TakeFrom(&s.waiting, r.id)
	}
	s.drop(r)
}

// find returns a request that waits or runs, nil if there is none with this id.
func (s *Scheduler) find(id engine.RequestID) *sequence {
	return transit.Find(s.running, &s.waiting, id)
}

// inHandoff lists the requests whose KV moves or is to move, in any order.
func (s *Scheduler) inHandoff() []*sequence { return s.destinations.Append(s.sources.Append(nil)) }
