package vllm

import (
	"errors"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/internal/transit"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/paged"
)

// destinations are the requests of a decode worker that are not activated yet. They look for room in order of their
// Reserve.
type destinations struct {
	transit.Destinations[*sequence]
	activated int // requests in the waiting queue that have all their KV
}

// ReleaseSource implements [engine.Source].
func (s *Scheduler) ReleaseSource(id engine.RequestID) []kvcache.Event {
	if r, ok := s.sources.Take(id); ok {
		s.forget(r)
	} else if r := s.find(id); r != nil {
		r.hold = false
	}
	return s.takeEventsNow()
}

// CancelSource implements [engine.Source].
func (s *Scheduler) CancelSource(id engine.RequestID) []kvcache.Event {
	if r, ok := s.sources.Take(id); ok {
		s.forget(r)
	} else {
		s.remove(id)
	}
	return s.takeEventsNow()
}

// takeEventsNow reports what happened to the pool between passes.
func (s *Scheduler) takeEventsNow() []kvcache.Event {
	if !s.observed && s.trace == nil {
		return nil
	}
	s.out.KVEvents = s.out.KVEvents[:0]
	s.takeEvents()
	return s.out.KVEvents
}

// Reserve implements [engine.Destination].
func (s *Scheduler) Reserve(req engine.Request) error {
	r := s.newSequence(req)
	if reason := s.overPool(r); reason != "" {
		s.drop(r)
		return errors.New(reason)
	}
	r.status = pending
	s.destinations.Enqueue(r)
	s.lookAgain() // another request may be the next to be admitted from now on
	return nil
}

// TryReserve implements [engine.Destination].
func (s *Scheduler) TryReserve() (engine.Reservation, bool) {
	d := &s.destinations
	if !d.MayReserve() {
		return engine.Reservation{}, false
	}
	r := d.First()
	if len(s.running) >= s.args.MaxNumSeqs || !s.reserveBlocks(r) {
		d.NoRoom()
		return engine.Reservation{}, false
	}
	d.Reserve()
	r.status = reserved
	s.lookAgain()
	return engine.Reservation{ID: r.id, MissingTokens: r.reservation.Missing() << s.blockShift}, true
}

// reserveBlocks takes room for the prompt of r. Like an admission it must leave the blocks that are kept back.
func (s *Scheduler) reserveBlocks(r *sequence) (ok bool) {
	s.ids = r.appendBlocks(s.ids[:0], 0, r.listed)
	r.reservation, ok = s.pool.Reserve(s.ids, s.keptFree)
	return ok
}

// Activate implements [engine.Destination].
func (s *Scheduler) Activate(id engine.RequestID) {
	d := &s.destinations
	r, _ := d.TakeReserved(id)
	active := s.pool.Active()
	s.ids = r.appendBlocks(s.ids[:0], 0, r.listed)
	r.slots = s.pool.Activate(r.slots, r.reservation, s.ids)
	r.reservation = paged.Reservation{}
	if s.pool.Active() < active {
		d.RoomMade()
	}
	r.computed, r.allocated = r.promptTokens, r.promptTokens
	r.status = activated
	d.activated++
	s.waiting.PushBack(r)
	s.lookAgain() // its blocks may be the head's, too, and count as held now
}

// CancelDestination implements [engine.Destination].
func (s *Scheduler) CancelDestination(id engine.RequestID) {
	d := &s.destinations
	if r, ok := d.TakeReserved(id); ok {
		s.pool.Cancel(r.reservation)
		r.reservation = paged.Reservation{}
		s.forget(r)
		return
	}
	if r, ok := d.TakePending(id); ok {
		s.forget(r)
		return
	}
	s.remove(id)
}

// remove forgets a request that waits or runs.
func (s *Scheduler) remove(id engine.RequestID) {
	r := s.find(id)
	if r == nil {
		return
	}
	if r.status == running {
		s.steady.clear(false)
		s.running = slices.DeleteFunc(s.running, func(q *sequence) bool { return q == r })
	} else {
		transit.TakeFrom(&s.waiting, r.id)
	}
	if r.status == activated {
		s.destinations.activated--
	}
	s.forget(r)
	s.progressed(r)
}

// find returns a request that waits or runs, nil if there is none with this id.
func (s *Scheduler) find(id engine.RequestID) *sequence {
	return transit.Find(s.running, &s.waiting, id)
}

// inHandoff lists the requests whose hand-off is not over, in any order.
func (s *Scheduler) inHandoff() []*sequence { return s.destinations.Append(s.sources.Append(nil)) }
