package replay

import (
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/faults"
	"dynosim/gocore/handoff"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/worker"
)

// What faults do to two pools. An action on a worker that cannot be reached waits, as one on a busy worker does. A worker that
// is lost answers every action at once: there is nothing left to release or to cancel.

var (
	_ faultLoop = (*disagg)(nil)
	_ station   = stageCrew{}
)

// The places of the two pools among the sites of a run.
const (
	prefillSite = iota
	decodeSite
)

// The places of two steps of an instant in a run with faults: start-ups end, and faults happen.
const (
	readyStep  = 1
	strikeStep = 3
)

// endure prepares a run with faults. It has pools.
func (d *disagg) endure() {
	d.faults = newFaultRun(d.run, d, d.scale)
	for k, p := range d.scale.pools {
		kind, crew := []faults.Pool{faults.Prefill, faults.Decode}[k], p.crew.(stageCrew)
		d.faults.sites = append(d.faults.sites, newSite(p, kind, crew.role, crew))
	}
	d.steps = slices.Insert(d.steps, strikeStep, d.strike)
	d.faults.prepare()
}

// strike has faults happen once everything has ended that ends now.
func (d *disagg) strike() (changed bool, err error) {
	if _, more := d.endsNow(); more {
		return false, nil
	}
	return d.faults.strike()
}

// send implements [faultLoop].
func (d *disagg) send(id engine.RequestID) error {
	for int(id) >= len(d.handoffs) {
		d.handoffs = append(d.handoffs, handoffState{})
	}
	d.begin(id)
	return nil
}

// recall implements [faultLoop].
func (d *disagg) recall(id engine.RequestID) error {
	d.faults.transferEnds(id)
	h := &d.handoffs[id]
	if !h.coordinator.Done() {
		d.tell(id, handoff.Failed)
		return nil
	}
	if !h.coordinator.Succeeded() { // it has failed by itself
		return nil
	}
	d.unfinished--
	d.haltCoast(int(h.decode))
	d.faults.tell(d.faults.sites[decodeSite], int(h.decode), id)
	return d.reserve(d.decode.router.Cancel(int32(id), d.nowMs))
}

// emitter implements [faultLoop].
func (d *disagg) emitter(id engine.RequestID) int32 { return d.handoffs[id].decode }

// struck implements [faultLoop]. A prefill worker is not needed any more once the KV has arrived.
func (d *disagg) struck(s *site, i int, id engine.RequestID) bool {
	h := &d.handoffs[id]
	if s.kind == faults.Decode {
		return h.decode == int32(i)
	}
	switch h.coordinator.Awaiting() {
	case handoff.Submit, handoff.Reserve, handoff.StartTransfer:
		return h.prefill == int32(i)
	}
	return false
}

// at implements [station].
func (c stageCrew) at(i int) *worker.Worker { return &c.s.workers[i].Worker }

// settleEnded implements [station].
func (c stageCrew) settleEnded(i int) {
	w := &c.s.workers[i]
	if len(w.Coast) == 0 {
		return
	}
	w.Coast = w.Coast[:endedBy(w.Coast, c.d.nowMs)]
	w.coast.due = nowhere
	c.d.settleCoast(i)
	c.s.updateReady(i)
}

// discard implements [station]. The actions that waited for the end of a pass have nothing to wait for.
func (c stageCrew) discard(i int) {
	w := &c.s.workers[i]
	c.d.resume(w)
	c.d.Journal.Gone(c.role, i, w.Pass, c.d.nowMs)
	*w = stageWorker{}
	w.coast.due = nowhere
	c.s.ready.remove(i)
}

// finish implements [station].
func (c stageCrew) finish(i int, endMs float64) {
	w, d := &c.s.workers[i], c.d
	w.coast.due = nowhere
	if endMs <= maxTimeMs {
		w.coast.due = d.pushed
		kind := prefillPass
		if c.role == engine.Decode {
			kind = decodePass
		}
		d.push(endMs, event{kind: kind, index: i, seq: d.pushed})
	}
}

// updateReady implements [station].
func (c stageCrew) updateReady(i int) { c.s.updateReady(i) }

// see implements [station].
func (c stageCrew) see(i int, pass *engine.Pass) error {
	if c.role == engine.Decode {
		return c.d.seeDecode(i, pass)
	}
	return c.d.seePrefill(i, pass)
}

// receive implements [station].
func (c stageCrew) receive(i int, id engine.RequestID) error {
	if c.role == engine.Decode {
		c.d.askForRoom(i, id)
	} else {
		c.d.addPrompt(i, id)
	}
	return nil
}

// reached implements [station]. Actions that waited are carried out, and room is looked for.
func (c stageCrew) reached(i int) error {
	w := &c.s.workers[i]
	if !w.Busy() {
		c.d.resume(w)
		if c.role == engine.Decode {
			c.d.tryReserve(i)
		}
	}
	c.s.updateReady(i)
	return nil
}

// resume queues the actions that waited for a worker.
func (d *disagg) resume(w *stageWorker) {
	for _, a := range w.deferred {
		d.actions.PushBack(a)
	}
	w.deferred = w.deferred[:0]
}

// cancel implements [station].
func (c stageCrew) cancel(i int, id engine.RequestID) {
	w := &c.s.workers[i]
	if c.role == engine.Prefill {
		c.d.tellRouter(i, w.source.CancelSource(id))
		c.d.Journal.Left(c.role, id, c.d.nowMs)
		c.s.updateReady(i)
		return
	}
	w.destination.CancelDestination(id)
	c.d.Journal.Left(c.role, id, c.d.nowMs)
	c.s.updateReady(i)
	c.d.tryReserve(i)
}

// hear implements [station].
func (c stageCrew) hear(i int, events []kvcache.Event) {
	if c.role == engine.Prefill {
		c.s.router.Apply(i, events)
	}
}

// tellRouter tells the router of prefill workers what one has stored and removed.
func (d *disagg) tellRouter(i int, events []kvcache.Event) {
	if d.faults != nil {
		d.faults.news(prefillSite, i, events)
		return
	}
	d.prefill.router.Apply(i, events)
}

// settled reports whether an action need not be carried out: it belongs to an attempt that is over, or is answered for a
// worker that is lost.
func (d *disagg) settled(a nextAction) bool {
	switch a.do {
	case handoff.Submit, handoff.Reserve, handoff.StartTransfer, handoff.Activate:
		return d.gone(a.id)
	}
	return d.answerForLost(a)
}

// answerForLost answers an action on a worker that is not there any more: it was lost, or had drained before it heard of the
// request. It reports false for other actions.
func (d *disagg) answerForLost(a nextAction) bool {
	if d.faults == nil {
		return false
	}
	h := &d.handoffs[a.id]
	onSource := h.prefill != unassigned && d.prefill.workers[h.prefill].Engine == nil
	onDestination := h.decode != unassigned && d.decode.workers[h.decode].Engine == nil
	switch {
	case a.do == handoff.Release && onSource:
		d.tell(a.id, handoff.SourceReleased)
	case a.do == handoff.CancelSource && onSource:
		d.tell(a.id, handoff.SourceCanceled)
	case a.do == handoff.CancelDestination && onDestination:
		d.tell(a.id, handoff.DestinationCanceled)
	default:
		return false
	}
	return true
}

// halted reports whether a worker of the stage can begin no pass.
func (s *stage) halted(i int) bool { return s.pool != nil && s.pool.life.halted(i) }

// reachable reports whether a worker of the stage can be told something.
func (s *stage) reachable(i int) bool { return s.pool == nil || s.pool.life.reachable(i) }

// delays reports whether an action on a worker of the stage has to wait: the worker is busy, or cannot be reached.
func (s *stage) delays(i int) bool { return s.workers[i].Busy() || !s.reachable(i) }
