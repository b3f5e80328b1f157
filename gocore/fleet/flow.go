package fleet

import (
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/handoff"
	"dynosim/gocore/router"
	"dynosim/gocore/worker"
)

// flow is the way of requests through the pools: of a request that one worker serves, or of one that a prefill worker
// hands off to a decode worker.
type flow interface {
	// equip connects the way with a worker whose engine was just made.
	equip(p *Pool, i int)
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
	// ended makes visible what the end of a pass means for requests. The pass is empty at the end of a coast.
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
	recall(id engine.RequestID, forget func(p *Pool, i int)) error
	emitter(id engine.RequestID) int
	needs(id engine.RequestID, p *Pool, i int) bool
}

// action is what is to be done for a request. A hand-off says what.
type action struct {
	id engine.RequestID
	do handoff.Action
}

// rules make the ways of requests through two pools, by the rule of hand-offs that the engines of the pools name. The
// file of each way adds its own.
var rules = map[engine.Handoff]func(*Fleet) flow{}

// newFlow returns the way of requests through the pools of a fleet.
func newFlow(f *Fleet) flow {
	switch {
	case f.Imports:
		return newImports(f)
	case len(f.pools) == 1:
		return newDirect(f)
	}
	return rules[worker.Traits(f.Config.Pools[0].Args).Handoff](f)
}

// pair is what ways through a pool of prefill workers and one of decode workers have in common.
type pair struct {
	*Fleet
	prefill, decode *Pool
	passages        []passage  // by request
	unfinished      int        // hand-offs and outputs of requests that have arrived
	moving          []transfer // that have begun, if links may change
	parallel        bool       // transfers on one lane do not wait for each other
}

// passage is where a request is between two pools.
type passage struct {
	prefill, decode int32 // workers, or unassigned
	open            uint8 // what is not over yet of its hand-off and its output
	due             int64 // the event that it waits for, or none
}

func (f *Fleet) pair(parallel bool) pair {
	return pair{Fleet: f, prefill: f.pools[0], decode: f.pools[1], passages: make([]passage, f.Requests),
		parallel: parallel}
}

// ownPair is a pair whose engines hand requests off by their own rules.
type ownPair struct {
	pair
	lanes   map[lane]float64 // when the last transfer on them ends; each request has its own if they are unlimited
	blockMs float64          // of a transfer
	delay   worker.Delay     // from the prefill router to the scheduler of the worker
}

func (f *Fleet) ownPair() ownPair {
	f.inOrder = true
	return ownPair{
		pair: f.pair(f.Transfer.Unlimited), lanes: map[lane]float64{},
		blockMs: f.Transfer.BlockMs(f.Config.Pools[1].Args.BlockSize),
		delay:   worker.RequestDelay(f.Config.Pools[0].Args),
	}
}

// reach sends a request to the scheduler of a prefill worker, and reports whether it is still on its way there.
func (h *ownPair) reach(p *Pool, i int, id engine.RequestID) (onWay bool) {
	delayMs := h.delay.Of(h.World.Request(id).PromptTokens)
	if delayMs == 0 {
		h.add(p, i, id)
		return false
	}
	p.workers[i].onWay++
	h.wakeAt(h.nowMs+delayMs, id)
	return true
}

// begin opens halves of a request that comes to the pools: its hand-off, its output, or both.
func (h *pair) begin(id engine.RequestID, halves uint8) {
	h.passages = withRoom(h.passages, id)
	h.passages[id] = passage{prefill: unassigned, decode: unassigned, open: halves}
	h.unfinished += int(halves)
}

// left closes the hand-off or the output of a request, which is gone when both are over.
func (h *pair) left(id engine.RequestID) {
	h.unfinished--
	at := &h.passages[id]
	if at.open--; at.open == 0 {
		h.gone(id)
	}
}

func (h *pair) done() bool { return h.unfinished == 0 }

func (h *pair) emitter(id engine.RequestID) int { return int(h.passages[id].decode) }

// route asks the router of a pool for a worker. What is to be done for the request is held back until a worker is
// active.
func (h *pair) route(p *Pool, a action) error {
	switch {
	case !p.Serves():
		p.keep(a)
		return nil
	case p == h.prefill:
		return h.submit(p, h.prompt(a.id))
	}
	return h.submit(p, h.World.Request(a.id))
}

// assigned hands a request to the worker that was chosen. It waits until a decode worker can be reached.
func (h *pair) assigned(p *Pool, i int, id engine.RequestID) {
	if p == h.prefill {
		h.passages[id].prefill = int32(i)
	}
	if p.accepts(i, id) {
		h.flow.receive(p, i, id)
	} else if p == h.decode && !p.over(id) {
		h.passages[id].decode = int32(i)
	}
}

// prompt returns the request for a prefill worker: the prompt and one token.
func (h *pair) prompt(id engine.RequestID) engine.Request {
	r := h.World.Prompt(id)
	r.OutputTokens, r.Hold, r.SentMs = 1, true, h.nowMs
	return r
}

// add hands a request to the scheduler of a worker: the prompt and one token, or all of it with a prompt from
// elsewhere.
func (h *pair) add(p *Pool, i int, id engine.RequestID) {
	h.halt(p, i)
	var r engine.Request
	if p == h.prefill {
		r = h.prompt(id)
	} else {
		r = h.World.Request(id)
		r.Pull, r.SentMs = true, h.nowMs
	}
	r.OnRank = p.OnRank(id)
	p.workers[i].Engine.Add(r)
	p.updateReady(i)
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
		p.targets.choose(id, a.Worker)
		worker := p.targets.worker(a.Worker)
		f.Recorder.Routed(p, worker, id, a.OverlapBlocks*p.Args.BlockSize)
		f.flow.assigned(p, worker, id)
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

// show makes the end of a pass visible: what blocks it has stored and removed, if anything sees that, and what it means
// for requests.
func (f *Fleet) show(p *Pool, i int, pass *engine.Pass) error {
	if (p.observes || f.Watcher != nil) && pass.KVEventsAtMs > pass.StartMs {
		p.cacheChanged(i, pass.KVEvents)
	}
	return f.flow.ended(p, i, pass)
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
