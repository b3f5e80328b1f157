package fleet

import (
	"fmt"
	"slices"

	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
	"dynosim/gocore/handoff"
	"dynosim/gocore/router"
)

// handoffs is the way of requests whose prompt is computed by one worker, which then hands its KV to another one. It
// carries out the actions of the coordinators of package handoff. An action on a worker that is busy or cannot be
// reached waits; a worker that is lost answers every action at once, as there is nothing left to release or to cancel.
type handoffs struct {
	*Fleet
	order           handoff.Order
	prefill, decode *Pool
	states          []handoffState      // by request
	actions         deque.Deque[action] // of all hand-offs, in the order in which they were asked for
	kept            [2][]action         // by pool: those that need an active worker
	unfinished      int                 // hand-offs and outputs of requests that have arrived
	moving          []transfer          // the transfers that have begun, if they are revocable
}

// handoffState is the hand-off of one request.
type handoffState struct {
	coordinator     handoff.Coordinator
	prefill, decode int32 // workers, or unassigned
	missing         int32 // tokens that the decode worker had not cached when it reserved room
	open            uint8 // halves that are not over: the hand-off, and the output
}

const unassigned = -1

// action is an action that a hand-off asks for.
type action struct {
	id engine.RequestID
	do handoff.Action
}

var _ flow = (*handoffs)(nil)

func newHandoffs(f *Fleet, order handoff.Order) *handoffs {
	states := make([]handoffState, f.Requests)
	return &handoffs{Fleet: f, order: order, prefill: f.pools[0], decode: f.pools[1], states: states}
}

// arrive starts the hand-off of a request.
func (h *handoffs) arrive(r engine.Request) error { return h.send(r.ID) }

func (h *handoffs) send(id engine.RequestID) error {
	if n := int(id) + 1 - len(h.states); n > 0 {
		h.states = append(h.states, make([]handoffState, n)...)
	}
	coordinator, first := handoff.New(h.order)
	h.states[id] = handoffState{coordinator: coordinator, prefill: unassigned, decode: unassigned, open: 2}
	h.actions.PushBack(action{id, first})
	h.unfinished += 2
	return nil
}

// tell gives a fact to a coordinator, and queues the action that follows.
func (h *handoffs) tell(id engine.RequestID, f handoff.Fact) {
	next, err := h.states[id].coordinator.Handle(f)
	if err != nil {
		panic(fmt.Sprintf("fleet: request %d: %v", id, err))
	}
	if next != handoff.None {
		h.actions.PushBack(action{id, next})
	}
}

// act carries out all queued actions, and those that follow from them.
func (h *handoffs) act() (changed bool, err error) {
	for h.actions.Len() > 0 {
		changed = true
		if err := h.carryOut(h.actions.PopFront()); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

func (h *handoffs) carryOut(a action) error {
	if h.settled(a) {
		return nil
	}
	s := &h.states[a.id]
	switch a.do {
	case handoff.Submit:
		h.meets(h.prefill)
		if h.keep(h.prefill, a) {
			return nil
		}
		admitted, err := h.prefill.router.Submit(h.World.Routed(h.prompt(a.id)), h.nowMs)
		return h.admitted(h.prefill, admitted, err)
	case handoff.Reserve:
		if h.keep(h.decode, a) {
			return nil
		}
		admitted, err := h.decode.router.Submit(h.World.Routed(h.World.Request(a.id)), h.nowMs)
		return h.admitted(h.decode, admitted, err)
	case handoff.StartTransfer:
		h.startTransfer(a.id)
	case handoff.Activate:
		if !h.waits(h.decode, s.decode, a) {
			h.activate(a.id, int(s.decode))
		}
	case handoff.Release:
		if !h.waits(h.prefill, s.prefill, a) {
			h.releaseSource(a.id, int(s.prefill))
		}
	case handoff.CancelSource:
		return h.cancelSource(a)
	case handoff.CancelDestination:
		return h.cancelDestination(a)
	case handoff.Complete:
		return h.complete(a.id)
	}
	return nil
}

// settled reports whether an action need not be carried out: it belongs to a request that is over, or is answered for a
// worker that is lost, or had drained before it heard of the request.
func (h *handoffs) settled(a action) bool {
	switch a.do {
	case handoff.Submit, handoff.Reserve, handoff.StartTransfer, handoff.Activate:
		return h.prefill.over(a.id)
	}
	if h.faults == nil {
		return false
	}
	s := &h.states[a.id]
	noSource := s.prefill != unassigned && h.prefill.workers[s.prefill].Engine == nil
	noDestination := s.decode != unassigned && h.decode.workers[s.decode].Engine == nil
	switch {
	case a.do == handoff.Release && noSource:
		h.tell(a.id, handoff.SourceReleased)
	case a.do == handoff.CancelSource && noSource:
		h.tell(a.id, handoff.SourceCanceled)
	case a.do == handoff.CancelDestination && noDestination:
		h.tell(a.id, handoff.DestinationCanceled)
	default:
		return false
	}
	return true
}

// waits puts an action off until a worker is idle and can be reached. It reports false if that is so now.
func (h *handoffs) waits(p *Pool, i int32, a action) bool {
	if !p.delays(int(i)) {
		return false
	}
	w := &p.workers[i]
	w.deferred = append(w.deferred, a)
	h.halt(p, int(i))
	return true
}

// idle queues the actions that waited for a worker.
func (h *handoffs) idle(w *Worker) {
	for _, a := range w.deferred {
		h.actions.PushBack(a)
	}
	w.deferred = w.deferred[:0]
}

// keep holds an action back that needs an active worker, and reports false if there is one.
func (h *handoffs) keep(p *Pool, a action) bool {
	if p.Serves() {
		return false
	}
	h.kept[p.index] = append(h.kept[p.index], a)
	return true
}

// dropKept forgets the actions of a request that are held back.
func (h *handoffs) dropKept(p *Pool, id engine.RequestID) {
	h.kept[p.index] = slices.DeleteFunc(h.kept[p.index], func(a action) bool { return a.id == id })
}

// release queues the actions that were held back.
func (h *handoffs) release(p *Pool) error {
	for _, a := range h.kept[p.index] {
		h.actions.PushBack(a)
	}
	h.kept[p.index] = nil
	return nil
}

func (h *handoffs) held(p *Pool) int { return len(h.kept[p.index]) }

// admitted hands prompts to prefill workers, or asks decode workers for room.
func (h *handoffs) admitted(p *Pool, admitted []router.Admission, err error) error {
	if p == h.prefill {
		h.count(admitted)
	}
	var refused []engine.RequestID
	for _, a := range admitted {
		id := engine.RequestID(a.ID)
		if a.Worker == router.Refused {
			refused = append(refused, id)
			continue
		}
		if p == h.prefill {
			h.states[id].prefill = int32(a.Worker)
		}
		h.Recorder.Routed(p, a.Worker, id, a.OverlapBlocks*p.Args.BlockSize)
		if p.accepts(a.Worker, id) {
			h.receive(p, a.Worker, id)
		} else if p == h.decode && !p.over(id) { // it waits until the worker can be reached
			h.states[id].decode = int32(a.Worker)
		}
	}
	if err != nil {
		return h.World.Explain(err)
	}
	return each(refused, func(id engine.RequestID) error { return h.refuse(p, id) })
}

func (h *handoffs) receive(p *Pool, i int, id engine.RequestID) {
	if p == h.prefill {
		prompt := h.prompt(id)
		prompt.SentMs = h.nowMs
		h.Recorder.Joined(p, i, id)
		p.workers[i].Engine.Add(prompt)
		p.updateReady(i)
	} else {
		h.reserve(i, id)
	}
}

// prompt returns the request for the prefill worker: the prompt and one token.
func (h *handoffs) prompt(id engine.RequestID) engine.Request {
	r := h.World.Prompt(id)
	r.OutputTokens, r.Hold = 1, true
	return r
}

// reserve asks a decode worker for room. If it can never run the request, the request fails.
func (h *handoffs) reserve(i int, id engine.RequestID) {
	w := &h.decode.workers[i]
	if err := w.destination.Reserve(h.World.Request(id)); err != nil {
		h.Recorder.Failed(h.decode, id, err.Error())
		h.tell(id, handoff.Failed)
		return
	}
	h.states[id].decode = int32(i)
	h.Recorder.Joined(h.decode, i, id)
	if w.Busy() {
		h.halt(h.decode, i)
	} else {
		h.tryReserve(i)
	}
}

// tryReserve looks for room for the request that has waited longest on an idle decode worker.
func (h *handoffs) tryReserve(i int) bool {
	if !h.decode.reachable(i) {
		return false
	}
	r, ok := h.decode.workers[i].destination.TryReserve()
	if ok {
		h.reserved(r)
	}
	return ok
}

func (h *handoffs) freed(p *Pool, i int) {
	if p == h.decode {
		h.tryReserve(i)
	}
}

func (h *handoffs) reserved(r engine.Reservation) {
	h.states[r.ID].missing = int32(r.MissingTokens)
	h.Recorder.Step(r.ID, Reserved)
	h.tell(r.ID, handoff.DestinationReserved)
}

func (h *handoffs) activate(id engine.RequestID, i int) {
	h.decode.workers[i].destination.Activate(id)
	h.decode.updateReady(i)
	h.Recorder.Step(id, Activated)
	h.tell(id, handoff.Activated)
	h.tryReserve(i)
}

func (h *handoffs) releaseSource(id engine.RequestID, i int) {
	h.prefill.cacheChanged(i, h.prefill.workers[i].source.ReleaseSource(id))
	h.Recorder.Step(id, Released)
	h.tell(id, handoff.SourceReleased)
}

// cancelSource takes a request from its prefill worker, or from the queue of the router. The router counts the load of
// the request until the hand-off is complete.
func (h *handoffs) cancelSource(a action) error {
	p, i := h.prefill, h.states[a.id].prefill
	if i == unassigned {
		h.Recorder.Unsent(a.id)
		h.dropKept(p, a.id)
		h.tell(a.id, handoff.SourceCanceled)
		admitted, err := p.router.Cancel(int32(a.id), h.nowMs)
		return h.admitted(p, admitted, err)
	}
	if h.waits(p, i, a) {
		return nil
	}
	p.cacheChanged(int(i), p.workers[i].source.CancelSource(a.id))
	h.Recorder.Left(p, a.id)
	p.updateReady(int(i))
	h.tell(a.id, handoff.SourceCanceled)
	return nil
}

// cancelDestination does the same for its decode worker.
func (h *handoffs) cancelDestination(a action) error {
	p, i := h.decode, h.states[a.id].decode
	if i == unassigned {
		h.dropKept(p, a.id)
		h.tell(a.id, handoff.DestinationCanceled)
		admitted, err := p.router.Cancel(int32(a.id), h.nowMs)
		return h.admitted(p, admitted, err)
	}
	if h.waits(p, i, a) {
		return nil
	}
	p.workers[i].destination.CancelDestination(a.id)
	h.Recorder.Left(p, a.id)
	p.updateReady(int(i))
	h.tell(a.id, handoff.DestinationCanceled)
	h.tryReserve(int(i))
	return nil
}

// complete ends a hand-off. If it has succeeded, the decode worker goes on with the request; if not, the request is
// over.
func (h *handoffs) complete(id engine.RequestID) error {
	h.closeHalf(id)
	if h.states[id].coordinator.Succeeded() {
		admitted, err := h.prefill.router.Free(int32(id), h.nowMs)
		return h.admitted(h.prefill, admitted, err)
	}
	abandoned := h.prefill.over(id)
	for _, p := range h.pools {
		admitted, err := p.router.Cancel(int32(id), h.nowMs)
		if err := h.admitted(p, admitted, err); err != nil {
			return err
		}
	}
	if abandoned {
		h.closeHalf(id)
		return nil
	}
	h.World.Over(id, Canceled, "")
	h.closeHalf(id)
	if h.faults != nil {
		return h.faults.Ended(id)
	}
	return nil
}

// started does nothing: workers ask for nothing by themselves.
func (h *handoffs) started(*Pool, int, *engine.Pass) error { return nil }

// ended makes the end of a pass visible.
func (h *handoffs) ended(p *Pool, i int, pass *engine.Pass) error {
	if p == h.prefill {
		return h.endPrefill(i, pass)
	}
	return h.endDecode(i, pass)
}

// endPrefill tells router and hand-offs what has come out of a pass of a prefill worker.
func (h *handoffs) endPrefill(i int, pass *engine.Pass) error {
	p := h.prefill
	h.shown(p, i, pass)
	if err := h.prefilled(p, pass); err != nil {
		return err
	}
	for _, rejected := range pass.Rejected {
		if !p.over(rejected.ID) {
			h.Recorder.Failed(p, rejected.ID, rejected.Reason)
			h.tell(rejected.ID, handoff.Failed)
		}
	}
	for _, id := range pass.Held {
		if !p.over(id) {
			h.Recorder.Step(id, SourceHeld)
			h.tell(id, handoff.SourceHeld)
		}
	}
	return nil
}

// endDecode makes the end of a pass of a decode worker visible. It looks for room before the requests that have
// left are taken off the router's books, and reports the room afterwards.
func (h *handoffs) endDecode(i int, pass *engine.Pass) error {
	p := h.decode
	h.shown(p, i, pass)
	room, reserved := p.workers[i].destination.TryReserve()
	if err := h.endFinished(p, pass); err != nil {
		return err
	}
	if err := h.reject(p, pass); err != nil {
		return err
	}
	if reserved {
		h.reserved(room)
	}
	return nil
}

// unblock runs when no further event is due. It resolves situations in which workers could go on: room on a decode
// worker that was not found, because it is only looked for at the end of passes, and requests that wait for each other.
func (h *handoffs) unblock() (changed bool) {
	for i := range h.decode.workers {
		destination := h.decode.workers[i].destination
		if destination == nil || h.decode.halted(i) || !h.decode.reachable(i) { // nil: gone, or not started
			continue
		}
		if h.tryReserve(i) || destination.Unblock() {
			changed = true
		}
	}
	if changed {
		return true
	}
	for i := range h.prefill.workers {
		if source := h.prefill.workers[i].source; source != nil && !h.prefill.halted(i) && source.Unblock() {
			changed = true
		}
	}
	return changed
}

// left closes the output of a request.
func (h *handoffs) left(id engine.RequestID) { h.closeHalf(id) }

// closeHalf closes the hand-off or the output of a request, which is gone when both are over.
func (h *handoffs) closeHalf(id engine.RequestID) {
	h.unfinished--
	s := &h.states[id]
	if s.open--; s.open == 0 {
		h.gone(id)
	}
}

func (h *handoffs) done() bool { return h.unfinished == 0 }

func (h *handoffs) recall(id engine.RequestID, _ int, forget func(p *Pool, i int)) error {
	h.endTransfer(id)
	s := &h.states[id]
	if !s.coordinator.Done() {
		h.tell(id, handoff.Failed)
		return nil
	}
	if !s.coordinator.Succeeded() { // it has failed by itself
		return nil
	}
	h.halt(h.decode, int(s.decode))
	forget(h.decode, int(s.decode))
	admitted, err := h.decode.router.Cancel(int32(id), h.nowMs)
	return h.admitted(h.decode, admitted, err)
}

func (h *handoffs) decodeWorker(id engine.RequestID) int { return int(h.states[id].decode) }

// needs reports whether a request ends if a worker is lost. A prefill worker is not needed any more once the KV has
// arrived.
func (h *handoffs) needs(id engine.RequestID, p *Pool, i int) bool {
	s := &h.states[id]
	if p == h.decode {
		return s.decode == int32(i)
	}
	switch s.coordinator.Awaiting() {
	case handoff.Submit, handoff.Reserve, handoff.StartTransfer:
		return s.prefill == int32(i)
	}
	return false
}
