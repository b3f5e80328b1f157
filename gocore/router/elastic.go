package router

import "slices"

// Elastic is a router of a pool whose workers come and go. Ids of workers are never used again. A worker that has left
// the pool may still have requests; the router gets their events until they end.
type Elastic interface {
	Router

	// SetWorkers says which workers get requests from now on, by ascending id, and that these may have changed.
	// Requests that waited in the router may be sent to them. The slice is copied.
	SetWorkers(active []int, nowMs float64) ([]Admission, error)

	// Forget reports that a worker is gone, with everything it had cached. It has no request any more.
	Forget(worker int)

	// Waiting is the number of requests that wait in the router.
	Waiting() int

	// Queues says that the router keeps requests back while no worker gets any. Others must not be given a request
	// then.
	Queues() bool
}

// Placed is a router that knows on which node a worker is.
type Placed interface {
	// Place reports that a worker is where the one was that it replaces.
	Place(worker, replaced int)
}

var (
	_ Elastic = (*RoundRobin)(nil)
	_ Elastic = (*KV)(nil)
	_ Placed  = (*KV)(nil)
	_ Placed  = (*Replicas)(nil)
	_ Placed  = (*Asked)(nil)
)

// SetWorkers implements [Elastic]. The turn goes on with the worker at the place at which it was.
func (r *RoundRobin) SetWorkers(active []int, _ float64) ([]Admission, error) {
	r.ids = append(r.ids[:0], active...)
	r.workers = len(r.ids)
	return nil, nil
}

// Forget implements [Elastic].
func (*RoundRobin) Forget(int) {}

// Waiting implements [Elastic].
func (*RoundRobin) Waiting() int { return 0 }

// Queues implements [Elastic].
func (*RoundRobin) Queues() bool { return false }

// members are the workers that get requests, when these change. Decisions then look at copies of what is known of them,
// side by side, so that they need not know of others.
type members struct {
	ids   []int   // by place
	place []int32 // by id, noPlace for others
}

const noPlace = -1

// SetWorkers implements [Elastic].
func (k *KV) SetWorkers(active []int, nowMs float64) ([]Admission, error) {
	k.polled.poll(nowMs)
	if k.members == nil {
		k.members = &members{}
		k.candidates.prefillTokens, k.candidates.activeBlocks = nil, nil // those of the tracker
		k.tracker.ranking = nil
	}
	k.members.set(active)
	if n := len(active); n > 0 {
		k.tracker.growTo(active[n-1] + 1)
	}
	k.candidates.resize(len(active))
	return k.drain(nowMs)
}

func (m *members) set(active []int) {
	for _, id := range m.ids {
		m.place[id] = noPlace
	}
	m.ids = append(m.ids[:0], active...)
	for place, id := range m.ids {
		for id >= len(m.place) {
			m.place = append(m.place, noPlace)
		}
		m.place[id] = int32(place)
	}
}

// Forget implements [Elastic].
func (k *KV) Forget(worker int) {
	k.index.forget(int32(worker))
	for g := range k.beside.groups {
		k.beside.groups[g].forget(int32(worker))
	}
	if k.lower != nil {
		k.lower.host.forget(int32(worker))
	}
}

// Place implements [Placed].
func (k *KV) Place(worker, replaced int) {
	if k.lower != nil {
		k.lower.place(worker, replaced)
	}
}

// Queues implements [Elastic].
func (k *KV) Queues() bool { return k.config.Queueing }

// gather makes the loads of members those of the candidates.
func (k *KV) gather(nowMs float64) {
	c := &k.candidates
	var tokens, usage []int64
	if k.polled == nil {
		tokens, usage = k.tracker.tokensAt(nowMs), k.tracker.activeBlocks
	} else {
		k.polled.growTo(len(k.tracker.activeBlocks))
		tokens, usage = k.polled.tokens, k.polled.usage
	}
	if k.members == nil {
		c.prefillTokens, c.activeBlocks = tokens, usage
		return
	}
	c.prefillTokens, c.activeBlocks = c.prefillTokens[:0], c.activeBlocks[:0]
	for _, id := range k.members.ids {
		c.prefillTokens = append(c.prefillTokens, tokens[id])
		c.activeBlocks = append(c.activeBlocks, usage[id])
	}
}

// own leaves out the matches of workers that get no requests, and gives the others their places. room is for the
// result.
func (k *KV) own(matches []match, room *[]match) []match {
	if k.members == nil {
		return matches
	}
	*room = (*room)[:0]
	for _, m := range matches {
		if place := k.members.place[m.worker]; place != noPlace {
			*room = append(*room, match{place, m.blocks})
		}
	}
	return *room
}

// workerAt returns the id of the worker at a place among the candidates.
func (k *KV) workerAt(place int) int {
	if k.members == nil {
		return place
	}
	return k.members.ids[place]
}

// placeOf returns the place of a worker among the candidates, false if workers come and go and it gets no requests now.
func (k *KV) placeOf(worker int) (place int, there bool) {
	switch {
	case k.members == nil:
		return worker, true
	case worker < 0 || worker >= len(k.members.place):
		return 0, false
	}
	return int(k.members.place[worker]), k.members.place[worker] != noPlace
}

// allBusy reports whether every worker that gets requests is busy; without any they are.
func (k *KV) allBusy(nowMs float64) bool {
	if k.members == nil {
		return k.tracker.allBusy(nowMs)
	}
	tokens := k.tracker.tokensAt(nowMs)
	return !slices.ContainsFunc(k.members.ids, func(id int) bool { return !k.tracker.isBusy(tokens[id]) })
}

// resize makes room for a number of candidates.
func (c *candidates) resize(workers int) {
	c.cached = slices.Grow(c.cached[:0], workers)[:workers]
	c.shared = slices.Grow(c.shared[:0], workers)[:workers]
	c.cost = slices.Grow(c.cost[:0], workers)[:workers]
	clear(c.cached)
	clear(c.shared)
}

// growTo makes room for workers with ids below workers.
func (t *tracker) growTo(workers int) {
	for len(t.activeBlocks) < workers {
		t.activeBlocks = append(t.activeBlocks, 0)
		t.prefillTokens = append(t.prefillTokens, 0)
		t.prefill = append(t.prefill, prefillList{})
	}
}

// forget takes a worker out of all sets.
func (x *index) forget(worker int32) {
	var units []uint64
	for _, e := range x.units.entries {
		list := x.units.lists.view(e.list)
		if i := lowerBound(list, worker); i < len(list) && list[i].worker == worker {
			units = append(units, e.unit)
		}
	}
	for _, unit := range units {
		x.units.remove(unit, lowerBound(x.units.holders(unit), worker))
	}
}
