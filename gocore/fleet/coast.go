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
// events at one instant included. Ends within coasts are tracked for that, the next one of each worker (innerends.go):
//
//   - Worker seconds are summed from end to end, because a sum of floating-point numbers depends on its terms.
//   - If anything else happens exactly at an end in a coast, the coast is cut there, and the end becomes an ordinary
//     event.
//   - Events at one instant are handled in the order in which they began. The last pass of a coast began between
//     instants, at most together with passes of other workers, and those begin by ascending number.

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
	w.coast, w.coastSinceMs, w.passed = f.pushed, f.nowMs, 0
	f.pushCoastEnd(p, i)
	if f.tracksEnds {
		f.innerEnds.set(i, w.innerEndMs())
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

// innerEndMs returns when the next pass of a coast ends, +Inf if that is the last one or the worker does not coast.
func (w *Worker) innerEndMs() float64 {
	if w.passed+1 < len(w.Coast) {
		return w.Coast[w.passed]
	}
	return math.Inf(1)
}

// passInnerEnds passes over the ends in coasts that come before untilMs.
func (f *Fleet) passInnerEnds(untilMs float64) {
	for atMs, i := f.innerEnds.first(); atMs < untilMs; atMs, i = f.innerEnds.first() {
		w := &f.emitting().workers[i]
		if w.passed+1 < len(w.Coast) { // it was not cut short
			if atMs > f.nowMs { // several workers may end a pass together
				f.elapse(atMs)
			}
			w.passed++
		}
		f.innerEnds.set(i, w.innerEndMs())
	}
}

// cutInnerEnds makes events of the ends in coasts that are due now.
func (f *Fleet) cutInnerEnds() {
	p := f.emitting()
	for atMs, i := f.innerEnds.first(); atMs <= f.nowMs; atMs, i = f.innerEnds.first() {
		if w := &p.workers[i]; w.passed+1 < len(w.Coast) {
			w.Coast = w.Coast[:w.passed+1]
			f.pushCoastEnd(p, i)
		}
		f.innerEnds.set(i, math.Inf(1))
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
