package replay

import (
	"fmt"

	"dynosim/gocore/engine"
	"dynosim/gocore/handoff"
	"dynosim/gocore/report"
	"dynosim/gocore/router"
)

// handoffState is the hand-off of one request.
type handoffState struct {
	coordinator     handoff.Coordinator
	prefill, decode int32 // workers, or unassigned
	missing         int32 // tokens that the decode worker had not cached when it reserved room
}

const unassigned = -1

// nextAction is an action that a hand-off asks for.
type nextAction struct {
	id engine.RequestID
	do handoff.Action
}

// begin starts the hand-off of a request that has arrived.
func (d *disagg) begin(id engine.RequestID) {
	h := &d.handoffs[id]
	h.prefill, h.decode = unassigned, unassigned
	coordinator, first := handoff.New(d.order)
	h.coordinator = coordinator
	d.actions.PushBack(nextAction{id, first})
	d.unfinished += 2
}

// tell gives a fact to a coordinator, and queues the action that follows.
func (d *disagg) tell(id engine.RequestID, f handoff.Fact) {
	action, err := d.handoffs[id].coordinator.Handle(f)
	if err != nil {
		panic(fmt.Sprintf("replay: request %d: %v", id, err))
	}
	if action != handoff.None {
		d.actions.PushBack(nextAction{id, action})
	}
}

// act carries out all queued actions, and those that follow from them.
func (d *disagg) act() (changed bool, err error) {
	for d.actions.Len() > 0 {
		changed = true
		if err := d.carryOut(d.actions.PopFront()); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

func (d *disagg) carryOut(a nextAction) error {
	if d.settled(a) {
		return nil
	}
	h := &d.handoffs[a.id]
	switch a.do {
	case handoff.Submit:
		d.scale.arrived(d.prefill.pool)
		if d.prefill.keep(a) {
			return nil
		}
		return d.dispatch(d.prefill.router.Submit(d.routed(d.prompt(a.id)), d.nowMs))
	case handoff.Reserve:
		if d.decode.keep(a) {
			return nil
		}
		return d.reserve(d.decode.router.Submit(d.routed(d.request(a.id)), d.nowMs))
	case handoff.StartTransfer:
		d.startTransfer(a.id)
	case handoff.Activate:
		if w := &d.decode.workers[h.decode]; d.decode.delays(int(h.decode)) {
			w.deferred = append(w.deferred, a)
			d.haltCoast(int(h.decode))
		} else {
			d.activate(a.id, int(h.decode))
		}
	case handoff.Release:
		if w := &d.prefill.workers[h.prefill]; d.prefill.delays(int(h.prefill)) {
			w.deferred = append(w.deferred, a)
		} else {
			d.release(a.id, int(h.prefill))
		}
	case handoff.CancelSource:
		return d.cancelSource(a)
	case handoff.CancelDestination:
		return d.cancelDestination(a)
	case handoff.Complete:
		return d.complete(a.id)
	}
	return nil
}

// dispatch hands prompts to prefill workers.
func (d *disagg) dispatch(admitted []router.Admission, err error) error {
	d.scale.count(admitted)
	for _, a := range admitted {
		id := engine.RequestID(a.ID)
		d.handoffs[id].prefill = int32(a.Worker)
		d.collector.PrefillRoute(d.of(id), a.Worker, a.OverlapBlocks*d.prefill.blockSize)
		d.collector.Spends(id, report.WorkerWait, d.nowMs)
		if d.faults.accepts(prefillSite, a.Worker, id) {
			d.addPrompt(a.Worker, id)
		}
	}
	return NameRequest(err, d.Workload)
}

// addPrompt hands a prompt to a prefill worker.
func (d *disagg) addPrompt(i int, id engine.RequestID) {
	prompt := d.prompt(id)
	prompt.SentMs = d.nowMs
	d.Journal.Joined(engine.Prefill, i, id, d.nowMs)
	d.prefill.workers[i].Engine.Add(prompt)
	d.prefill.updateReady(i)
}

// reserve asks decode workers for room. If a worker can never run the request, the request fails.
func (d *disagg) reserve(admitted []router.Admission, err error) error {
	for _, a := range admitted {
		id := engine.RequestID(a.ID)
		d.collector.DecodeRoute(d.of(id), a.OverlapBlocks*d.decode.blockSize)
		if d.faults.accepts(decodeSite, a.Worker, id) {
			d.askForRoom(a.Worker, id)
		} else if !d.gone(id) { // it waits until the worker can be reached
			d.handoffs[id].decode = int32(a.Worker)
		}
	}
	return NameRequest(err, d.Workload)
}

// askForRoom asks a decode worker for room. If it can never run the request, the request fails.
func (d *disagg) askForRoom(i int, id engine.RequestID) {
	w := &d.decode.workers[i]
	if err := w.destination.Reserve(d.request(id)); err != nil {
		d.collector.Terminal(d.of(id), report.Failed, err.Error())
		d.tell(id, handoff.Failed)
		return
	}
	d.handoffs[id].decode = int32(i)
	d.collector.Worker(d.of(id), i)
	d.collector.Spends(id, report.KVWait, d.nowMs)
	d.Journal.Joined(engine.Decode, i, id, d.nowMs)
	if w.Busy() {
		d.haltCoast(i)
	} else {
		d.tryReserve(i)
	}
}

// tryReserve looks for room for the request that has waited longest on an idle decode worker.
func (d *disagg) tryReserve(i int) {
	if !d.decode.reachable(i) {
		return
	}
	if r, ok := d.decode.workers[i].destination.TryReserve(); ok {
		d.reserved(r)
	}
}

func (d *disagg) reserved(r engine.Reservation) {
	d.handoffs[r.ID].missing = int32(r.MissingTokens)
	d.collector.Step(d.of(r.ID), report.DestinationReserved, d.nowMs)
	d.collector.Spends(r.ID, report.RouterWait, d.nowMs)
	d.Journal.Reserved(r.ID, d.nowMs)
	d.tell(r.ID, handoff.DestinationReserved)
}

func (d *disagg) startTransfer(id engine.RequestID) {
	d.collector.Spends(id, report.KVTransfer, d.nowMs)
	promptTokens := d.request(id).PromptTokens
	delayMs := d.transfer.DelayMs(promptTokens, int(d.handoffs[id].missing))
	if d.faults != nil {
		d.transferBegins(id, delayMs)
		return
	}
	if delayMs > 0 {
		d.Journal.Transfer(id, d.nowMs)
		d.push(d.nowMs+delayMs, event{kind: transfer, index: int(id)})
		return
	}
	d.transferred(id)
}

// transferred ends a transfer. The decode worker takes the KV over when it is idle.
func (d *disagg) transferred(id engine.RequestID) {
	d.collector.Spends(id, report.KVWait, d.nowMs)
	d.tell(id, handoff.Transferred)
}

func (d *disagg) activate(id engine.RequestID, i int) {
	d.decode.workers[i].destination.Activate(id)
	d.decode.updateReady(i)
	d.collector.Step(d.of(id), report.DestinationActivated, d.nowMs)
	d.collector.Spends(id, report.WorkerWait, d.nowMs)
	d.Journal.Activated(id, d.nowMs)
	d.tell(id, handoff.Activated)
	d.tryReserve(i)
}

func (d *disagg) release(id engine.RequestID, i int) {
	d.tellRouter(i, d.prefill.workers[i].source.ReleaseSource(id))
	d.collector.Step(d.of(id), report.SourceReleased, d.nowMs)
	d.Journal.Left(engine.Prefill, id, d.nowMs)
	d.tell(id, handoff.SourceReleased)
}

// cancelSource takes a request from its prefill worker, or from the queue of the router. The router counts the load of the request
// until the hand-off is complete.
func (d *disagg) cancelSource(a nextAction) error {
	i := d.handoffs[a.id].prefill
	if i == unassigned {
		d.Journal.Unsent(a.id, d.nowMs)
		d.prefill.kept = withoutRequest(d.prefill.kept, a.id)
		d.tell(a.id, handoff.SourceCanceled)
		return d.dispatch(d.prefill.router.Cancel(int32(a.id), d.nowMs))
	}
	w := &d.prefill.workers[i]
	if d.prefill.delays(int(i)) {
		w.deferred = append(w.deferred, a)
		return nil
	}
	d.tellRouter(int(i), w.source.CancelSource(a.id))
	d.Journal.Left(engine.Prefill, a.id, d.nowMs)
	d.prefill.updateReady(int(i))
	d.tell(a.id, handoff.SourceCanceled)
	return nil
}

// cancelDestination does the same for its decode worker.
func (d *disagg) cancelDestination(a nextAction) error {
	i := d.handoffs[a.id].decode
	if i == unassigned {
		d.decode.kept = withoutRequest(d.decode.kept, a.id)
		d.tell(a.id, handoff.DestinationCanceled)
		return d.reserve(d.decode.router.Cancel(int32(a.id), d.nowMs))
	}
	w := &d.decode.workers[i]
	if d.decode.delays(int(i)) {
		w.deferred = append(w.deferred, a)
		d.haltCoast(int(i))
		return nil
	}
	w.destination.CancelDestination(a.id)
	d.Journal.Left(engine.Decode, a.id, d.nowMs)
	d.decode.updateReady(int(i))
	d.tell(a.id, handoff.DestinationCanceled)
	d.tryReserve(int(i))
	return nil
}

// complete ends a hand-off. If it has succeeded, the decode worker goes on with the request; if not, the request is over.
func (d *disagg) complete(id engine.RequestID) error {
	d.unfinished--
	if d.handoffs[id].coordinator.Succeeded() {
		return d.dispatch(d.prefill.router.Free(int32(id), d.nowMs))
	}
	d.unfinished--
	abandoned := d.gone(id)
	if !abandoned {
		d.collector.Terminal(d.of(id), report.Canceled, "")
	}
	if err := d.dispatch(d.prefill.router.Cancel(int32(id), d.nowMs)); err != nil {
		return err
	}
	err := d.reserve(d.decode.router.Cancel(int32(id), d.nowMs))
	if abandoned || err != nil {
		return err
	}
	d.driver.Rejected(int32(d.of(id)), d.nowMs)
	return d.faults.ended(id)
}

// prompt is the request for the prefill worker: the prompt and one token.
func (d *disagg) prompt(id engine.RequestID) engine.Request {
	req := d.request(id)
	req.OutputTokens, req.Hold = 1, true
	return req
}

func (d *disagg) deadEnd() error {
	e := &engine.DeadEnd{
		AtMs:            d.nowMs,
		BlockSize:       d.Disagg.Decode.BlockSize,
		Capacity:        d.Disagg.Decode.NumGPUBlocks,
		PrefillCapacity: d.Disagg.Prefill.NumGPUBlocks,
	}
	listed := map[engine.RequestID]bool{}
	for _, s := range [...]struct {
		name string
		stage
	}{{"decode worker", d.decode}, {"prefill worker", d.prefill}} {
		for i := range s.workers {
			if s.workers[i].Engine == nil {
				continue
			}
			for _, r := range s.workers[i].Engine.States() {
				if listed[r.ID] { // held by its source, too
					continue
				}
				listed[r.ID] = true
				if s.workers[i].source != nil { // the token of a prefill worker does not count
					r.Generated, r.OutputTokens = 0, d.request(r.ID).OutputTokens
				}
				r.Worker = fmt.Sprintf("%s %d", s.name, i)
				r.Name = d.Workload.TurnName(int32(d.of(r.ID)))
				e.Requests = append(e.Requests, r)
			}
		}
	}
	return e
}
