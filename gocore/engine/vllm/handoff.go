package vllm

import (
	"errors"
	"slices"

	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/paged"
)

// sources are the requests of a prefill worker that hold their KV.
type sources map[engine.RequestID]*sequence

// destinations are the requests of a decode worker that are not activated yet, in order of their Reserve.
//
// Room for the head of pending is looked for only if the generation has changed since that failed last: a request ended
// or was preempted, or blocks were given back in another way.
type destinations struct {
	pending    deque.Deque[*sequence]
	reserved   map[engine.RequestID]*sequence
	generation int
	probed     int // the generation in which the head of pending found no room, or neverProbed
	activated  int // requests in the waiting queue that have all their KV
}

// neverProbed is no generation; they count from 0.
const neverProbed = -1

// ReleaseSource implements [engine.Source].
func (s *Scheduler) ReleaseSource(id engine.RequestID) []kvcache.Event {
	if r, ok := s.sources[id]; ok {
		delete(s.sources, id)
		s.forget(r)
	} else if r := s.find(id); r != nil {
		r.hold = false
	}
	return s.takeEventsNow()
}

// CancelSource implements [engine.Source].
func (s *Scheduler) CancelSource(id engine.RequestID) []kvcache.Event {
	if r, ok := s.sources[id]; ok {
		delete(s.sources, id)
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
	s.destinations.pending.PushBack(r)
	s.lookAgain() // from now on somebody else may be admitted next
	return nil
}

// TryReserve implements [engine.Destination].
func (s *Scheduler) TryReserve() (engine.Reservation, bool) {
	d := &s.destinations
	if !s.mayReserve() {
		return engine.Reservation{}, false
	}
	r := d.pending.Front()
	if len(s.running) >= s.args.MaxNumSeqs || !s.reserveBlocks(r) {
		d.probed = d.generation
		return engine.Reservation{}, false
	}
	d.pending.PopFront()
	r.status = reserved
	d.reserved[r.id] = r
	s.lookAgain()
	return engine.Reservation{ID: r.id, MissingTokens: r.reservation.Missing() << s.blockShift}, true
}

// mayReserve reports whether there may be room for the request at the head of those that wait for it.
func (s *Scheduler) mayReserve() bool {
	d := &s.destinations
	return d.pending.Len() > 0 && d.probed != d.generation
}

// reserveBlocks takes room for the prompt of r. Like an admission it must leave the blocks that are kept back.
func (s *Scheduler) reserveBlocks(r *sequence) (ok bool) {
	s.ids = r.appendBlocks(s.ids[:0], 0, r.listed)
	r.reservation, ok = s.pool.Reserve(s.ids, s.reserve)
	return ok
}

// Activate implements [engine.Destination].
func (s *Scheduler) Activate(id engine.RequestID) {
	d := &s.destinations
	r := d.reserved[id]
	delete(d.reserved, id)
	active := s.pool.Active()
	s.ids = r.appendBlocks(s.ids[:0], 0, r.listed)
	r.held = s.pool.Activate(r.held, r.reservation, s.ids)
	r.reservation = paged.Reservation{}
	if s.pool.Active() < active {
		d.generation++
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
	if r, ok := d.reserved[id]; ok {
		delete(d.reserved, id)
		s.pool.Cancel(r.reservation)
		r.reservation = paged.Reservation{}
		s.forget(r)
		return
	}
	if i := d.pending.Index(func(r *sequence) bool { return r.id == id }); i >= 0 {
		s.forget(d.pending.Remove(i))
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
		s.clearCalendar(false)
		s.running = slices.DeleteFunc(s.running, func(q *sequence) bool { return q == r })
	} else {
		s.waiting.Remove(s.waiting.Index(func(q *sequence) bool { return q == r }))
	}
	if r.status == activated {
		s.destinations.activated--
	}
	s.forget(r)
	s.progressed(r)
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

// inHandoff lists the requests whose hand-off is not over, in any order.
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
