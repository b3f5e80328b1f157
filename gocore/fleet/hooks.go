package fleet

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/router"
)

// Recorder records everything that happens to requests and workers, for reports and timelines.
type Recorder interface {
	// Routed records that the router of prefill or of decode workers has chosen a worker.
	Routed(p *Pool, i int, id engine.RequestID, overlapTokens int)
	// Joined records that a request has come to a worker.
	Joined(p *Pool, i int, id engine.RequestID)
	// PassStarted records a pass that starts now. It was run already.
	PassStarted(p *Pool, i int, pass *engine.Pass)
	// Coasted records the passes of a coast that has ended.
	Coasted(p *Pool, i int, endsMs []float64)
	// Left records that a request was cancelled on a worker, or released by it.
	Left(p *Pool, id engine.RequestID)
	// Unsent records that a request will never be sent to a worker that computes its prompt.
	Unsent(id engine.RequestID)
	// Step records a step of a hand-off.
	Step(id engine.RequestID, s Step)
	// Failed records that a request can never be run by its decode worker, or was rejected by its prefill worker.
	Failed(p *Pool, id engine.RequestID, reason string)
	// Added and Removed record that there is room for one more worker, and that a worker which drained is gone.
	Added(p *Pool)
	Removed(p *Pool, i int)
}

// Step is a step of a hand-off.
type Step uint8

// The steps of a hand-off.
const (
	SourceHeld Step = iota
	Reserved
	TransferStarted // the KV is asked for
	TransferTakes   // the transfer takes time
	Transferred
	Activated
	Released
	Queued // on the prefill worker, as there is room on the decode worker
)

// Faults are what goes wrong in a run. They act on the pools of the fleet, whose hooks they have set.
type Faults interface {
	// DueMs returns when something goes wrong next, or a client does something about it; +Inf for never.
	DueMs() float64
	// Happen does what is due now, and reports whether that was anything.
	Happen() (changed bool, err error)
	// Progressed is called when something else than a fault has happened.
	Progressed()
	// GiveUp fails the requests that are left if nothing else is going to happen because of faults. It reports false if
	// faults are not the reason.
	GiveUp() bool
	// Done reports whether all requests are over.
	Done() bool
	// Ended is called when a request has left the fleet.
	Ended(id engine.RequestID) error
	// LinkRate returns the speed of the link between two workers: 1 if nothing is wrong, 0 if it is down.
	LinkRate(prefill, decode int) float64
}

// Hooks are what faults change in a pool. A pool of which nothing goes wrong has none.
type Hooks struct {
	// Accepts reports whether a worker gets a request that was sent there now.
	Accepts func(i int, id engine.RequestID) bool
	// Over reports whether nothing that a request does is to be seen any more.
	Over func(id engine.RequestID) bool
	// PassStarted may change when a pass ends that has just begun.
	PassStarted func(i int, pass *engine.Pass)
	// PassStalled is called when such a pass made no progress, so that its end is not seen.
	PassStalled func(i int, pass *engine.Pass)
	// PassEnded has [Pool.Show] make the end of a pass visible, now or later.
	PassEnded func(i int, pass *engine.Pass) error
	// Shown is called when the end of a pass becomes visible.
	Shown func(i int, pass *engine.Pass) error
	// PassResumed says more about the pass that stands for the rest of a coast.
	PassResumed func(i int, pass *engine.Pass)
	// CoastUntil returns until when passes of a coast may start, if untilMs is that without faults, and whether the
	// worker may coast. CoastStarted returns the ends that remain.
	CoastUntil   func(i int, untilMs float64) (float64, bool)
	CoastStarted func(i int, endsMs []float64) []float64
	// CacheChanged has [Pool.Learn] tell the router what a worker has stored and removed, now or later.
	CacheChanged func(i int, events []kvcache.Event)
	// Halted reports whether a worker can start no pass, Unreachable whether it cannot be told anything.
	Halted, Unreachable func(i int) bool
	// Activated is called when a worker becomes active, before it has its engine, Drained when it has gone after its
	// last request.
	Activated func(i int)
	Drained   func(i int) error
	// StartUpFactor returns how many times as long as usual the start-up of a worker takes that begins now.
	StartUpFactor func(i int) float64
}

// SetFaults sets what goes wrong in a fleet. It has a planner, and a struct of hooks for each pool.
func (f *Fleet) SetFaults(faults Faults, hooks []*Hooks) {
	f.faults = faults
	for k, p := range f.pools {
		p.hooks = hooks[k]
	}
}

// What follows is what faults do.

// Resend sends a new attempt of a request on its way.
func (f *Fleet) Resend(id engine.RequestID) error { return f.flow.send(id, false) }

// Recall takes a request back from routers and workers. forget has a worker forget it.
func (f *Fleet) Recall(id engine.RequestID, forget func(p *Pool, i int)) error {
	return f.flow.recall(id, forget)
}

// Emitter returns the worker that emits the tokens of a request, or a negative number.
func (f *Fleet) Emitter(id engine.RequestID) int { return f.flow.emitter(id) }

// Needs reports whether a request ends if a worker is lost, which has answered for it until now.
func (f *Fleet) Needs(id engine.RequestID, p *Pool, i int) bool { return f.flow.needs(id, p, i) }

// LinksChanged makes transfers go on at the speed that their links have now.
func (f *Fleet) LinksChanged() { f.flow.retime() }

// SettleEnded carries out the passes of a coast that have ended.
func (p *Pool) SettleEnded(i int) {
	w := &p.workers[i]
	if len(w.Coast) == 0 {
		return
	}
	w.due = none
	p.fleet.settle(p, i, EndedBy(w.Coast, p.fleet.nowMs))
	p.updateReady(i)
}

// EndedBy returns how many of the passes of a coast have ended.
func EndedBy(endsMs []float64, nowMs float64) int {
	n := 0
	for n < len(endsMs) && endsMs[n] <= nowMs {
		n++
	}
	return n
}

// Discard throws away the engine of a worker, and the pass that it is busy with. The actions that waited for the end of
// the pass have nothing to wait for. It returns what tiers of its cache have not told of yet.
func (p *Pool) Discard(i int) (copied engine.Copied) {
	if e, keeps := p.workers[i].Engine.(engine.Abandoner); keeps {
		copied = e.Abandon(p.fleet.nowMs)
	}
	p.fleet.flow.idle(&p.workers[i])
	p.workers[i] = Worker{}
	p.targets.of(i, p.late.Forget)
	p.coasting.remove(i)
	p.ready.remove(i)
	return copied
}

// Replaces tells the router that a worker is where another one was.
func (p *Pool) Replaces(i, other int) {
	if r, knows := p.router.(router.Placed); knows {
		r.Place(i, other)
	}
}

// EndPassAt makes the pass that a worker is busy with end at endMs; +Inf stands for a time that is not known yet.
func (p *Pool) EndPassAt(i int, endMs float64) {
	p.workers[i].due = none
	p.ready.remove(i)
	if endMs <= MaxTimeMs {
		p.fleet.pushEnd(p, i, endMs)
	}
}

// MaxTimeMs is beyond all times of a run; later ends are those of passes that stand still.
const MaxTimeMs = 1.7976931348623157e308

// Show makes the end of a pass visible.
func (p *Pool) Show(i int, pass *engine.Pass) error {
	if h := p.hooks; h != nil {
		if err := h.Shown(i, pass); err != nil {
			return err
		}
	}
	return p.fleet.show(p, i, pass)
}

// Learn tells the router what a worker has stored and removed.
func (p *Pool) Learn(i int, events []kvcache.Event) {
	if p.Role != engine.Decode {
		p.targets.tell(&p.late, p.router, i, events, p.fleet.nowMs)
	}
}

// Receive hands a request to a worker that it has been sent to.
func (p *Pool) Receive(i int, id engine.RequestID) { p.fleet.flow.receive(p, i, id) }

// Reconnect runs when a worker can be reached again.
func (p *Pool) Reconnect(i int) {
	if w := &p.workers[i]; !w.Busy() {
		p.fleet.flow.idle(w)
		p.fleet.flow.freed(p, i)
	}
	p.updateReady(i)
}

// Cancel has an idle worker forget a request.
func (p *Pool) Cancel(i int, id engine.RequestID) {
	w := &p.workers[i]
	switch {
	case w.source != nil:
		p.cacheChanged(i, w.source.CancelSource(id))
	case w.destination != nil:
		w.destination.CancelDestination(id)
	default:
		w.Engine.Cancel(id)
	}
	p.fleet.Recorder.Left(p, id)
	p.updateReady(i)
	p.fleet.flow.freed(p, i)
}
