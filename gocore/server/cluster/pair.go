package cluster

import (
	"fmt"

	"dynosim/gocore/engine"
	"dynosim/gocore/handoff"
	"dynosim/gocore/router"
)

// Two pools: the first one computes prompts, the second one makes answers. Package handoff says what comes when; what follows
// carries its actions out.

// nextAction is an action that a hand-off asks for.
type nextAction struct {
	request *Request
	do      handoff.Action
}

func (c *Cluster) beginHandoff(r *Request) {
	coordinator, first := handoff.New(c.order)
	r.handoff = coordinator
	c.actions.PushBack(nextAction{r, first})
}

// tell gives a fact to the hand-off of a request, and queues the action that follows.
func (c *Cluster) tell(r *Request, f handoff.Fact) {
	action, err := r.handoff.Handle(f)
	if err != nil {
		panic(fmt.Sprintf("cluster: request %d: %v", r.state.ID, err))
	}
	if action != handoff.None {
		c.actions.PushBack(nextAction{r, action})
	}
}

// act carries out all queued actions, and those that follow from them.
func (c *Cluster) act() (changed bool) {
	for c.actions.Len() > 0 && c.failure == nil {
		changed = true
		c.carryOut(c.actions.PopFront())
	}
	return changed
}

func (c *Cluster) carryOut(a nextAction) {
	prefill, decode := &c.pools[0], &c.pools[1]
	switch r := a.request; a.do {
	case handoff.Submit:
		c.dispatch(prefill.router.Submit(c.routed(r), c.nowMs))
	case handoff.Reserve:
		c.reserve(decode.router.Submit(c.routed(r), c.nowMs))
	case handoff.StartTransfer:
		c.startTransfer(r)
	case handoff.Activate:
		c.whenIdle(a, 1, func(i int, w *poolWorker) {
			w.destination.Activate(r.state.ID)
			c.tell(r, handoff.Activated)
			c.tryReserve(i)
		})
	case handoff.Release:
		c.whenIdle(a, 0, func(i int, w *poolWorker) {
			c.cacheChanged(0, i, w.source.ReleaseSource(r.state.ID))
			c.tell(r, handoff.SourceReleased)
		})
	case handoff.CancelSource:
		c.cancelSource(a)
	case handoff.CancelDestination:
		c.cancelDestination(a)
	case handoff.Complete:
		c.complete(r)
	}
}

// whenIdle carries out an action on the worker of a request, now or at the end of its pass.
func (c *Cluster) whenIdle(a nextAction, pool int, do func(i int, w *poolWorker)) {
	p, i := &c.pools[pool], int(a.request.workers[pool])
	w := &p.workers[i]
	if w.Busy() {
		w.deferred = append(w.deferred, a)
		return
	}
	do(i, w)
	p.updateReady(i)
	c.loadChanged(pool, i)
}

// reserve asks decode workers for room. If a worker can never run a request, that fails.
func (c *Cluster) reserve(admitted []router.Admission, err error) {
	c.fail(err)
	for _, a := range admitted {
		r, w := c.requests[engine.RequestID(a.ID)], &c.pools[1].workers[a.Worker]
		if err := w.destination.Reserve(c.engineRequest(r, 1)); err != nil {
			c.refuse(r, err.Error())
			continue
		}
		r.workers[1] = int32(a.Worker)
		if !w.Busy() {
			c.tryReserve(a.Worker)
		}
		c.loadChanged(1, a.Worker)
	}
}

// refuse tells a request that it cannot be served, and withdraws it from its workers.
func (c *Cluster) refuse(r *Request, reason string) {
	if r.status == active {
		r.status = cancelled
		r.Sink.Ended("request rejected: "+reason, c.nowMs)
	}
	c.tell(r, handoff.Failed)
}

// tryReserve looks for room for the request that has waited longest on an idle decode worker.
func (c *Cluster) tryReserve(i int) bool {
	if !c.disaggregated() {
		return false
	}
	found, ok := c.pools[1].workers[i].destination.TryReserve()
	if ok {
		c.reserved(found)
	}
	return ok
}

func (c *Cluster) reserved(found engine.Reservation) {
	r := c.requests[found.ID]
	r.missing = int32(found.MissingTokens)
	c.tell(r, handoff.DestinationReserved)
}

func (c *Cluster) startTransfer(r *Request) {
	delayMs := c.config.Transfer.DelayMs(r.PromptTokens, int(r.missing))
	if delayMs > 0 {
		c.push(c.nowMs+delayMs, event{pool: -1, request: r})
		return
	}
	c.tell(r, handoff.Transferred)
}

// cancelSource takes a request from its prefill worker, or from the queue of the router.
func (c *Cluster) cancelSource(a nextAction) {
	r := a.request
	if r.workers[0] == unassigned {
		c.tell(r, handoff.SourceCanceled)
		return
	}
	c.whenIdle(a, 0, func(i int, w *poolWorker) {
		c.cacheChanged(0, i, w.source.CancelSource(r.state.ID))
		c.tell(r, handoff.SourceCanceled)
	})
}

// cancelDestination does the same for its decode worker.
func (c *Cluster) cancelDestination(a nextAction) {
	r := a.request
	if r.workers[1] == unassigned {
		c.tell(r, handoff.DestinationCanceled)
		return
	}
	c.whenIdle(a, 1, func(i int, w *poolWorker) {
		w.destination.CancelDestination(r.state.ID)
		w.emitting.Drop(r)
		c.tell(r, handoff.DestinationCanceled)
		c.tryReserve(i)
	})
}

// complete ends a hand-off. If it has succeeded, the decode worker goes on with the request.
func (c *Cluster) complete(r *Request) {
	id := int32(r.state.ID)
	if r.handoff.Succeeded() {
		c.dispatch(c.pools[0].router.Free(id, c.nowMs))
		return
	}
	var w *poolWorker
	if i := r.workers[1]; i != unassigned {
		w = &c.pools[1].workers[i]
	}
	c.forget(r, w)
	c.dispatch(c.pools[0].router.Cancel(id, c.nowMs))
	c.reserve(c.pools[1].router.Cancel(id, c.nowMs))
}

// endPrefill ends a pass of a prefill worker: prompts are computed and held for their transfer.
func (c *Cluster) endPrefill(pass *engine.Pass, w *poolWorker) {
	p := &c.pools[0]
	if p.observes {
		for _, id := range pass.Finished {
			c.dispatch(p.router.PrefillCompleted(int32(id), c.nowMs))
		}
	}
	for _, rejected := range pass.Rejected {
		c.refuse(c.requests[rejected.ID], rejected.Reason)
	}
	for _, id := range pass.Held {
		r := c.requests[id]
		w.counts.Prompt += r.PromptTokens
		c.tell(r, handoff.SourceHeld)
	}
}

// endDecode ends a pass of a decode worker. It looks for room before the router hears which requests have left, and reports the room
// afterwards.
func (c *Cluster) endDecode(pass *engine.Pass, w *poolWorker) {
	found, ok := w.destination.TryReserve()
	c.emit(pass, w)
	for _, id := range pass.Finished {
		c.end(c.requests[id], 1, w, "")
	}
	c.reject(pass, 1, w)
	if ok {
		c.reserved(found)
	}
}
