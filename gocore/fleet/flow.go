package fleet

import (
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/handoff"
	"dynosim/gocore/router"
)

// flow is the way of requests through the pools: of a request that one worker serves, or of one that a prefill worker
// hands off to a decode worker.
type flow interface {
	// send sends a request on its way. It is its first attempt, or another one.
	send(id engine.RequestID, first bool) error
	// assigned notes the worker that the router of a pool has chosen, and hands the request to it if it accepts that.
	assigned(p *Pool, i int, id engine.RequestID)
	receive(p *Pool, i int, id engine.RequestID)
	// refuse ends a request that the router of a pool has rejected.
	refuse(p *Pool, id engine.RequestID) error
	// resume goes on with what was held because no worker of a pool was active.
	resume(p *Pool, a action) error
	// started carries out what a pass that starts now asks for.
	started(p *Pool, i int, pass *engine.Pass) error
	// ended makes the end of a pass visible. The pass is empty at the end of a coast.
	ended(p *Pool, i int, pass *engine.Pass) error
	// left is called when a request is over, or was forgotten by the worker that it was taken back from.
	left(id engine.RequestID)
	// idle queues what waited for a worker, freed looks for requests that may go on there.
	idle(w *Worker)
	freed(p *Pool, i int)
	// act carries out what is queued.
	act() (changed bool, err error)
	// transferred ends a transfer. transfers reports whether an event is still the end of one.
	transferred(id engine.RequestID)
	transfers(id engine.RequestID, seq int64) bool
	retime()
	// unblock runs when no further event is due. It makes workers that cannot go on give something up.
	unblock() bool
	// done reports whether no request is left, if nothing else is going to happen.
	done() bool

	// What faults need: see hooks.go.
	recall(id engine.RequestID, worker int, forget func(p *Pool, i int)) error
	decodeWorker(id engine.RequestID) int
	needs(id engine.RequestID, p *Pool, i int) bool
}

// action is what is to be done for a request. A hand-off says what.
type action struct {
	id engine.RequestID
	do handoff.Action
}

// pair is what ways through a pool of prefill workers and one of decode workers have in common.
type pair struct {
	*Fleet
	prefill, decode *Pool
	open            []uint8 // by request: what is not over yet of its hand-off and its output
	unfinished      int     // hand-offs and outputs of requests that have arrived
}

func (f *Fleet) pair() pair {
	return pair{Fleet: f, prefill: f.pools[0], decode: f.pools[1], open: make([]uint8, f.Requests)}
}

// begin opens halves of a request: its hand-off, its output, or both.
func (h *pair) begin(id engine.RequestID, halves uint8) {
	h.open = withRoom(h.open, id)
	h.open[id] += halves
	h.unfinished += int(halves)
}

// left closes the hand-off or the output of a request, which is gone when both are over.
func (h *pair) left(id engine.RequestID) {
	h.unfinished--
	if h.open[id]--; h.open[id] == 0 {
		h.gone(id)
	}
}

func (h *pair) done() bool { return h.unfinished == 0 }

// prompt returns the request for a prefill worker: the prompt and one token.
func (h *pair) prompt(id engine.RequestID) engine.Request {
	r := h.World.Prompt(id)
	r.OutputTokens, r.Hold, r.SentMs = 1, true, h.nowMs
	return r
}

// withRoom returns a list that has an entry for a request.
func withRoom[T any](list []T, id engine.RequestID) []T {
	if n := int(id) + 1 - len(list); n > 0 {
		list = append(list, make([]T, n)...)
	}
	return list
}

// unassigned stands for no worker.
const unassigned = -1

// admitted hands requests to the workers that the router of a pool has chosen. Those that it has refused end
// afterwards: it may be asked again meanwhile.
func (f *Fleet) admitted(p *Pool, admitted []router.Admission, err error) error {
	if p.index == 0 {
		f.count(admitted)
	}
	var refused []engine.RequestID
	for _, a := range admitted {
		id := engine.RequestID(a.ID)
		if a.Worker == router.Refused {
			refused = append(refused, id)
			continue
		}
		f.Recorder.Routed(p, a.Worker, id, a.OverlapBlocks*p.Args.BlockSize)
		f.flow.assigned(p, a.Worker, id)
	}
	if err != nil {
		return f.World.Explain(err)
	}
	for _, id := range refused {
		if p.over(id) {
			continue
		}
		if err := f.flow.refuse(p, id); err != nil {
			return err
		}
	}
	return nil
}

// submit asks the router of a pool for a worker. The request may have to wait there.
func (f *Fleet) submit(p *Pool, r engine.Request) error {
	admitted, err := p.router.Submit(f.World.ForRouter(r), f.nowMs)
	return f.admitted(p, admitted, err)
}

// cancel takes a request off the books of the router of a pool.
func (f *Fleet) cancel(p *Pool, id engine.RequestID) error {
	admitted, err := p.router.Cancel(int32(id), f.nowMs)
	return f.admitted(p, admitted, err)
}

// refuse ends a request that the router of a pool has rejected.
func (f *Fleet) refuse(p *Pool, id engine.RequestID) error { return f.leave(p, id, Rejected, Refused) }

// keep holds an action back until a worker of the pool is active.
func (p *Pool) keep(a action) { p.kept = append(p.kept, a) }

// dropKept forgets the actions of a request that are held back.
func (p *Pool) dropKept(id engine.RequestID) {
	p.kept = slices.DeleteFunc(p.kept, func(a action) bool { return a.id == id })
}

// release goes on with what was held back.
func (p *Pool) release() error {
	kept := p.kept
	p.kept = nil
	for _, a := range kept {
		if err := p.fleet.flow.resume(p, a); err != nil {
			return err
		}
	}
	return nil
}

// shown makes visible what blocks a pass has stored and removed, if anything sees that.
func (f *Fleet) shown(p *Pool, i int, pass *engine.Pass) {
	if (p.observes || f.Watcher != nil) && pass.KVEventsAtMs > pass.StartMs {
		p.cacheChanged(i, pass.KVEvents)
	}
}

// prefilled tells the router of a pool of prefill workers which prompts a pass has computed.
func (f *Fleet) prefilled(p *Pool, pass *engine.Pass) error {
	if !p.observes {
		return nil
	}
	for _, id := range pass.Finished {
		if p.over(id) {
			continue
		}
		admitted, err := p.router.PrefillCompleted(int32(id), f.nowMs)
		if err := f.admitted(p, admitted, err); err != nil {
			return err
		}
	}
	return nil
}

// endFinished ends the requests that a pass has finished.
func (f *Fleet) endFinished(p *Pool, pass *engine.Pass) error {
	for _, id := range pass.Finished {
		if p.over(id) {
			continue
		}
		if err := f.leave(p, id, Completed, ""); err != nil {
			return err
		}
	}
	return nil
}

// reject ends the requests that a pass has found to be unable to run.
func (f *Fleet) reject(p *Pool, pass *engine.Pass) error {
	for _, rejected := range pass.Rejected {
		if p.over(rejected.ID) {
			continue
		}
		if err := f.leave(p, rejected.ID, Rejected, rejected.Reason); err != nil {
			return err
		}
	}
	return nil
}
