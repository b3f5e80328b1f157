package replay

import (
	"math"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/eventheap"
)

// Decode workers of a disaggregated run coast, too (coast.go). Prefill workers do not: each of their passes computes some
// prompt.
//
//	decode worker 0   ---|---|---|---|---|---|---|      ends planned; only the last one is an event
//	                          ^ room is asked for
//	decode worker 0   ---|---|---|                      at the end of the pass it is looked for
//
// The results are those of stepping through every pass, to the last bit:
//
//   - An end in a coast has no visible effect. The engine coasts only while no request finishes and no request waits for room.
//     A new request for room, or an action that has to wait for the end of the pass, cuts the coast short after the current
//     pass.
//   - If anything else happens exactly at an end in a coast, the coast is cut there, and the end becomes an ordinary event. So
//     ends that are passed over lie between instants.
//   - Events at one instant are handled in the order in which they began. The last pass of a coast began between instants, at
//     most together with passes of other decode workers, and those begin by ascending number.
//   - The seconds of workers are summed from end to end, because a sum of floating-point numbers depends on its terms.
//   - While a worker has work but cannot go on, it is tried again at every instant. So none coasts then.

// coast is what the loop knows about the coast of a decode worker, besides the ends.
type coast struct {
	sinceMs float64 // when it began
	seq     int64   // of the event if the first pass is the last one
	passed  int     // ends that the loop has passed over
	due     int64   // the number of the event that ends it, or the pass; other events are out of date
}

// mostCoasting is the largest number of decode workers for which coasting saves time: at every end that is passed over, all
// coasting workers are looked at.
const mostCoasting = 32

// topEvent is the first event. It skips ends of coasts that were cut short.
func (d *disagg) topEvent() (eventheap.Event[event], bool) {
	for {
		top, ok := d.events.Top()
		if !ok || d.valid(top.Value) {
			return top, ok
		}
		d.events.Pop()
	}
}

// valid reports whether an event is still the end of something.
func (d *disagg) valid(e event) bool {
	switch e.kind {
	case decodePass:
		return e.seq == d.decode.workers[e.index].coast.due
	case prefillPass:
		return e.seq == d.prefill.workers[e.index].coast.due
	}
	return d.faults == nil || d.faults.transferValid(e)
}

// tryCoast makes idle decode worker i coast if it can.
func (d *disagg) tryCoast(i int) bool {
	w := &d.decode.workers[i]
	pool := d.decode.pool
	untilMs, may := d.faults.mayCoast(decodeSite, i, d.afterLimit())
	if !may || d.stepwise || d.decode.size() > mostCoasting || !pool.mayCoast(w.Engine) || !w.TryCoast(d.nowMs, untilMs) {
		return false
	}
	if w.Coast = d.faults.undisturbed(w.Coast); len(w.Coast) == 0 {
		return false
	}
	pool.coasts(i, w.Engine, d.nowMs)
	d.faults.coasts(i)
	d.decode.ready.remove(i)
	d.coasting = append(d.coasting, i)
	w.coast = coast{sinceMs: d.nowMs, seq: d.pushed}
	d.pushed++
	d.pushCoastEnd(i)
	return true
}

// pushCoastEnd makes the last end of a coast an event.
func (d *disagg) pushCoastEnd(i int) {
	w := &d.decode.workers[i]
	last := len(w.Coast) - 1
	w.coast.due = d.pushed
	d.pushed++
	e := eventheap.Event[event]{AtMs: w.Coast[last], Value: event{kind: decodePass, index: i, seq: w.coast.due}}
	if last == 0 {
		e.SinceMs, e.Seq = w.coast.sinceMs, w.coast.seq
	} else {
		e.SinceMs, e.Seq = w.Coast[last-1], int64(i)
	}
	d.events.Add(e)
}

// haltCoast cuts the coast of decode worker i short, if it coasts, after the pass that has begun.
func (d *disagg) haltCoast(i int) {
	w := &d.decode.workers[i]
	if begun := w.coast.passed + 1; begun < len(w.Coast) {
		w.Coast = w.Coast[:begun]
		d.pushCoastEnd(i)
	}
}

// settleCoast carries out the passes of a coast that has ended. It returns an empty pass: nothing is left to be made visible.
func (d *disagg) settleCoast(i int) *engine.Pass {
	w := &d.decode.workers[i]
	d.coasting = slices.DeleteFunc(d.coasting, func(worker int) bool { return worker == i })
	endsMs := w.Settle(len(w.Coast))
	d.coasted(i, &w.Worker, endsMs)
	d.decode.pool.coasted(i, w.Engine, endsMs, d.nowMs)
	return &engine.Pass{}
}

// haltIfWaiting is called at the end of an instant: if a worker has work and could not begin a pass, no other may coast.
func (d *disagg) haltIfWaiting() {
	d.stepwise = !d.prefill.ready.empty() || !d.decode.ready.empty()
	if d.stepwise {
		for _, i := range d.coasting {
			d.haltCoast(i)
		}
	}
}

// passBoundaries passes over the ends in coasts that come before untilMs.
func (d *disagg) passBoundaries(untilMs float64) {
	for {
		next := math.Inf(1)
		for _, i := range d.coasting {
			next = min(next, d.decode.workers[i].nextBoundary())
		}
		if next >= untilMs {
			return
		}
		d.elapse(next)
		for _, i := range d.coasting {
			if w := &d.decode.workers[i]; w.nextBoundary() == next {
				w.coast.passed++
			}
		}
	}
}

// cutBoundaries makes events of the ends in coasts that are due now.
func (d *disagg) cutBoundaries(nowMs float64) {
	for _, i := range d.coasting {
		if d.decode.workers[i].nextBoundary() == nowMs {
			d.haltCoast(i)
		}
	}
}

// nextBoundary is the first end in a coast, other than the last one, that was not passed over; +Inf if there is none.
func (w *stageWorker) nextBoundary() float64 {
	if w.coast.passed+1 >= len(w.Coast) {
		return math.Inf(1)
	}
	return w.Coast[w.coast.passed]
}
