package live

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/handoff"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/live/bootstrap"
)

// seat is a request of a rank that is handed over; it implements [dynosim/gocore/live/rendezvous.Engine].
type seat struct {
	rank    *rank
	request *request
}

// Do leaves the rank a note.
func (s seat) Do(action handoff.Action, tell func(bootstrap.Fact)) {
	n := note{request: s.request, action: action, tell: tell, atMs: s.rank.nowMs()}
	if !s.rank.leave(n) {
		n.refuse(shuttingDown)
	}
}

// refuse answers a note that nobody is going to read.
func (n *note) refuse(reason string) {
	switch {
	case n.action == handoff.CancelSource || n.action == handoff.CancelDestination:
		n.tell(bootstrap.Fact{Kind: bootstrap.Canceled})
	case n.action != handoff.None:
		n.request.end(failure{reason, true})
		n.tell(bootstrap.Fact{Kind: bootstrap.Failed, Reason: reason})
	case !n.cancel:
		n.request.end(failure{reason, true})
	}
}

// handOff does between two passes what a hand-off asks for.
func (r *rank) handOff(n *note) {
	q := n.request
	q.tell = n.tell
	switch n.action {
	case handoff.Submit:
		q.held = true
		e := r.enter(q)
		e.Hold = true
		r.engine.Add(e)
	case handoff.Release:
		r.forget(q, r.source.ReleaseSource)
		q.tell(bootstrap.Fact{Kind: bootstrap.Released})
	case handoff.CancelSource:
		r.forget(q, r.source.CancelSource)
		q.tell(bootstrap.Fact{Kind: bootstrap.Canceled})
	case handoff.Reserve:
		r.reserve(q)
	case handoff.Activate:
		if q.over { // it has been told that it failed
			return
		}
		r.destination.Activate(q.id)
		r.settle(q)
		q.tell(bootstrap.Fact{Kind: bootstrap.Activated})
		r.tryReserve()
	case handoff.CancelDestination:
		r.drop(q)
		q.tell(bootstrap.Fact{Kind: bootstrap.Canceled})
	}
}

// hold notes that a request has blocks that it is going to give up, or to use, without a pass of this engine; settle, that
// it has none such any more.
func (r *rank) hold(q *request) {
	q.holding = true
	r.holding++
}

func (r *rank) settle(q *request) {
	if q.holding {
		q.holding = false
		r.holding--
	}
}

// forget ends the stay of a request on a prefill worker.
func (r *rank) forget(q *request, verb func(engine.RequestID) []kvcache.Event) {
	if q.over {
		return
	}
	events := verb(q.id)
	r.end(q)
	r.publish(events)
}

// reserve asks for room. What can never run is not the fault of the worker.
func (r *rank) reserve(q *request) {
	if err := r.destination.Reserve(r.enter(q)); err != nil {
		r.end(q)
		q.fail(failure{reason: "request rejected: " + err.Error()})
		return
	}
	q.tell(bootstrap.Fact{Kind: bootstrap.Queued})
	r.tryReserve()
}

// tryReserve looks for room for the request that has waited longest, and reports whether there is some.
func (r *rank) tryReserve() bool {
	if r.destination == nil {
		return false
	}
	found, ok := r.destination.TryReserve()
	if ok {
		q := r.requests[found.ID]
		r.hold(q)
		q.tell(bootstrap.Fact{Kind: bootstrap.RoomFound, MissingTokens: found.MissingTokens})
	}
	return ok
}

// tellHeld lets the hand-offs of prompts that the last pass has computed go on.
func (r *rank) tellHeld() {
	for _, q := range r.held {
		r.hold(q)
		q.tell(bootstrap.Fact{Kind: bootstrap.PromptComputed})
	}
	clear(r.held)
	r.held = r.held[:0]
}
