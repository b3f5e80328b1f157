package fleet

import (
	"errors"
	"math"
	"sort"

	"dynosim/gocore/engine"
	"dynosim/gocore/eventheap"
)

// Workers that coast (engine.Coaster) run many passes at once, and the loop sees only the end of the last one. At the
// other ends it would have nothing to do: a pass of this kind ends no request, has no news for the router, and finds no
// room for a request that waits for some. Prefill workers do not coast: each of their passes computes some prompt.
//
//	worker 0    ---|---|---|---|---|---|---|      ends planned; only the last one is an event
//	                        ^ a request arrives, or an action has to wait for the end of the pass
//	worker 0    ---|---|---|---|                  ends that remain; the next pass sees the request
//
// Retrying a stalled worker advances its stall counter, and it is retried at every instant. Coasting skips instants, so
// no worker coasts while one is stalled.
//
// With two pools the results are those of stepping through every pass to the last bit, worker seconds and the order of
// events at one instant included. Ends within coasts are tracked for that, in a heap with the next one of each worker:
//
//   - Worker seconds are summed from end to end, because a sum of floating-point numbers depends on its terms.
//   - If anything else happens exactly at an end in a coast, the coast is cut there, and the end becomes an ordinary
//     event.
//   - Events at one instant are handled in the order in which they began. The last pass of a coast began between
//     instants, at most together with passes of other workers, and those begin by ascending number.

// innerEnd is the next end within the coast of a worker, other than the last one.
type innerEnd struct {
	atMs         float64
	coast        int64 // the number of the coast
	pool, worker int32
	pass         int32 // that ends, from 0
}

// innerEnds is a heap of these, with at most one of each coast. Those of coasts that were cut short or have ended stay
// until they are the first. It is beside eventheap because every pass of a coast comes by here: only times are
// compared.
type innerEnds []innerEnd

func (h *innerEnds) add(e innerEnd) {
	*h = append(*h, e)
	h.rise(e, len(*h)-1)
}

// sink moves the first one, whose time has become later, to its place. That is near the bottom as a rule, since workers
// take turns: smaller ones move up all the way, and it rises from there.
func (h innerEnds) sink() {
	e, i := h[0], 0
	for right := 2; right <= len(h); right = 2*i + 2 {
		child := right - 1
		if right < len(h) && h[right].atMs < h[child].atMs {
			child = right
		}
		h[i] = h[child]
		i = child
	}
	h.rise(e, i)
}

// rise puts an end at place i, or as far above as it belongs.
func (h innerEnds) rise(e innerEnd, i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].atMs <= e.atMs {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

// pop removes the first one.
func (h *innerEnds) pop() {
	all := *h
	last := len(all) - 1
	all[0] = all[last]
	if *h = all[:last]; last > 0 {
		h.sink()
	}
}

// ErrStalled is the error of a run that ends with the first pass without effect.
var ErrStalled = errors.New("a pass without effect")

// afterLimit returns the first time at which no pass may start any more.
func (f *Fleet) afterLimit() float64 { return math.Nextafter(f.LimitMs, math.Inf(1)) }

// coastUntil returns the time from which on no pass of a coast should start. What arrives next is for the only worker,
// if there is only one: passes after that would be planned for nothing.
func (f *Fleet) coastUntil(p *Pool) float64 {
	limit := f.afterLimit()
	if len(p.workers) > 1 || f.tracksEnds {
		return limit
	}
	if next, ok := f.World.NextMs(); ok {
		return min(limit, next)
	}
	return limit
}

// tryCoast makes an idle worker coast if it can.
func (f *Fleet) tryCoast(p *Pool, i int) bool {
	w := &p.workers[i]
	if f.stepwise || f.Watcher != nil || p.Role == engine.Prefill || !p.mayCoast(w.Engine) {
		return false
	}
	untilMs, h := f.coastUntil(p), p.hooks
	if h != nil {
		may := false
		if untilMs, may = h.CoastUntil(i, untilMs); !may {
			return false
		}
	}
	if !w.TryCoast(f.nowMs, untilMs) {
		return false
	}
	if h != nil {
		if w.Coast = h.CoastStarted(i, w.Coast); len(w.Coast) == 0 {
			return false
		}
	}
	p.coasts(i, w.Engine, f.nowMs)
	p.ready.remove(i)
	p.coasting.add(i)
	f.pushed++
	w.coast, w.coastSinceMs = f.pushed, f.nowMs
	f.pushCoastEnd(p, i)
	if f.tracksEnds && len(w.Coast) > 1 {
		f.innerEnds.add(innerEnd{atMs: w.Coast[0], coast: w.coast, pool: int32(p.index), worker: int32(i)})
	}
	return true
}

// pushCoastEnd makes the last end of a coast an event.
func (f *Fleet) pushCoastEnd(p *Pool, i int) {
	w := &p.workers[i]
	last := len(w.Coast) - 1
	f.pushed++
	w.due = f.pushed
	e := eventheap.Event[event]{AtMs: w.Coast[last], Value: event{pool: int32(p.index), index: int32(i), seq: w.due}}
	if last == 0 {
		e.SinceMs, e.Seq = w.coastSinceMs, w.coast
	} else {
		e.SinceMs, e.Seq = w.Coast[last-1], int64(i)
	}
	f.events.Add(e)
}

// halt cuts short the coast of a worker, if it coasts: passes that have not started yet will not.
func (f *Fleet) halt(p *Pool, i int) {
	w := &p.workers[i]
	ends := w.Coast
	if len(ends) == 0 {
		return
	}
	// The pass after end k has started if that end lies before now, or if it is now and this worker was asked to start
	// one.
	started := 1 + sort.Search(len(ends)-1, func(k int) bool {
		return ends[k] > f.nowMs || ends[k] == f.nowMs && i >= p.swept
	})
	if started == len(ends) {
		return
	}
	w.Coast = ends[:started]
	if ends[started-1] > f.nowMs {
		f.pushCoastEnd(p, i)
		return
	}
	w.due = none
	f.settle(p, i, started)
	p.updateReady(i)
}

// haltAll cuts short all coasts.
func (f *Fleet) haltAll() {
	for _, p := range f.pools {
		for i := range p.coasting.all {
			f.halt(p, i)
		}
	}
}

// settle carries out the first passes passes through which a worker coasts, and records their tokens.
func (f *Fleet) settle(p *Pool, i, passes int) {
	w := &p.workers[i]
	p.coasting.remove(i)
	endsMs := w.Settle(passes)
	f.Recorder.Coasted(p, i, endsMs)
	p.coasted(i, w.Engine, endsMs, f.nowMs)
}

// catchUp carries out the passes of coasts that have begun, so that engines are as they would be without coasting. The
// pass that a coasting worker is busy with ends like others.
func (f *Fleet) catchUp() {
	for _, p := range f.pools {
		for i := range p.coasting.all {
			w := &p.workers[i]
			if f.halt(p, i); len(w.Coast) == 0 {
				continue
			}
			endMs := w.Coast[len(w.Coast)-1]
			f.settle(p, i, len(w.Coast))
			w.Pass = &engine.Pass{EndMs: endMs}
			if h := p.hooks; h != nil {
				h.PassResumed(i, w.Pass)
			}
		}
	}
}

// passInnerEnds passes over the ends in coasts that come before untilMs.
func (f *Fleet) passInnerEnds(untilMs float64) {
	for len(f.innerEnds) > 0 && f.innerEnds[0].atMs < untilMs {
		e := &f.innerEnds[0]
		w := &f.pools[e.pool].workers[e.worker]
		next := int(e.pass) + 1
		if w.coast != e.coast || next >= len(w.Coast) { // it was cut short
			f.innerEnds.pop()
			continue
		}
		if e.atMs > f.nowMs { // several workers may end a pass together
			f.elapse(e.atMs)
		}
		if next+1 == len(w.Coast) {
			f.innerEnds.pop()
			continue
		}
		e.atMs, e.pass = w.Coast[next], int32(next)
		f.innerEnds.sink()
	}
}

// cutInnerEnds makes events of the ends in coasts that are due now.
func (f *Fleet) cutInnerEnds() {
	for len(f.innerEnds) > 0 && f.innerEnds[0].atMs <= f.nowMs {
		e := f.innerEnds[0]
		f.innerEnds.pop()
		p := f.pools[e.pool]
		if w := &p.workers[e.worker]; w.coast == e.coast && int(e.pass)+1 < len(w.Coast) {
			w.Coast = w.Coast[:e.pass+1]
			f.pushCoastEnd(p, int(e.worker))
		}
	}
}

// finish moves the clock to the last end of a pass that may be recorded. limited tells that the run ends because of its
// limit.
func (f *Fleet) finish(limited bool) {
	if f.tracksEnds {
		if limited {
			f.passInnerEnds(f.afterLimit())
		}
		return
	}
	last := f.nowMs
	for _, p := range f.pools {
		for i := range p.workers {
			for _, endMs := range p.workers[i].Coast {
				if endMs <= f.LimitMs {
					last = max(last, endMs)
				}
			}
		}
	}
	f.elapse(last)
}
