package live

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/handoff"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/protocol/bootstrap"
)

// handoffPart is what an engine does in the hand-off of a request; it implements
// [dynosim/gocore/live/rendezvous.Engine].
type handoffPart struct {
	runner  *runner
	request *request
}

// Do sends the runner a command.
func (s handoffPart) Do(action handoff.Action, tell func(bootstrap.Fact)) {
	n := command{request: s.request, action: action, tell: tell, atMs: s.runner.nowMs()}
	if !s.runner.send(n) {
		n.refuse(shuttingDown)
	}
}

// refuse reports to the sender of a command that it will not be carried out.
func (n *command) refuse(reason string) {
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

// handOff carries out a command of a hand-off, between two passes.
func (r *runner) handOff(n *command) {
	q := n.request
	q.tell = n.tell
	switch n.action {
	case handoff.Submit:
		q.held = true
		e := r.enter(q, n.atMs)
		e.Hold = true
		r.recordJoin(e, n.atMs)
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
		if q.over { // the hand-off knows already that the request has failed
			return
		}
		r.destination.Activate(q.state.ID)
		r.journal.Activated(q.state.ID, r.sinceMs+r.nowMs())
		r.actionDone(q)
		q.tell(bootstrap.Fact{Kind: bootstrap.Activated})
		r.tryReserve()
	case handoff.CancelDestination:
		r.drop(q)
		q.tell(bootstrap.Fact{Kind: bootstrap.Canceled})
	}
}

// awaitAction records that the next action of a hand-off gives up blocks, or puts them into use, without a pass of this
// engine. actionDone records that the action has been carried out.
func (r *runner) awaitAction(q *request) {
	q.awaitsAction = true
	r.awaiting++
}

func (r *runner) actionDone(q *request) {
	if q.awaitsAction {
		q.awaitsAction = false
		r.awaiting--
	}
}

// forget removes a request from the engine of a prefill worker.
func (r *runner) forget(q *request, verb func(engine.RequestID) []kvcache.Event) {
	if q.over {
		return
	}
	events := verb(q.state.ID)
	r.recordLeave(q)
	r.end(q)
	q.rank.Load().publish(events)
}

// reserve asks the engine for the blocks of a request. A request that can never run fails without a retry at other
// workers.
func (r *runner) reserve(q *request) {
	e := r.enter(q, 0)
	if err := r.destination.Reserve(e); err != nil {
		r.end(q)
		q.fail(failure{reason: "request rejected: " + err.Error()})
		return
	}
	r.recordJoin(e, r.nowMs())
	q.tell(bootstrap.Fact{Kind: bootstrap.Queued})
	r.tryReserve()
}

// tryReserve takes blocks for the request that has waited longest, and reports whether there were enough.
func (r *runner) tryReserve() bool {
	if r.destination == nil {
		return false
	}
	found, ok := r.destination.TryReserve()
	if ok {
		q := r.requests[found.ID]
		r.awaitAction(q)
		r.journal.Reserved(q.state.ID, r.sinceMs+r.nowMs())
		q.tell(bootstrap.Fact{Kind: bootstrap.RoomFound, MissingTokens: found.MissingTokens})
	}
	return ok
}

// tellHeld tells hand-offs that the last pass has computed their prompts and the KV is held for the transfer.
func (r *runner) tellHeld() {
	for _, q := range r.computed {
		r.awaitAction(q)
		q.tell(bootstrap.Fact{Kind: bootstrap.PromptComputed})
	}
	clear(r.computed)
	r.computed = r.computed[:0]
}
