package fleet

import (
	"fmt"

	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
	"dynosim/gocore/handoff"
	"dynosim/gocore/worker"
)

// handoffs is the way of requests whose prompt is computed by one worker, which then hands its KV to another one. It
// carries out the actions of the coordinators of package handoff. An action on a worker that is busy or cannot be
// reached waits; a worker that is lost answers every action at once, as there is nothing left to release or to cancel.
type handoffs struct {
	pair
	order   handoff.Order
	states  []handoffState      // by request
	actions deque.Deque[action] // of all hand-offs, in the order in which they were asked for
}

// handoffState is the hand-off of one request.
type handoffState struct {
	coordinator handoff.Coordinator
	missing     int32 // tokens that the decode worker had not cached when it reserved room
}

func init() { rules[engine.Coordinated] = newHandoffs }

func newHandoffs(f *Fleet) flow {
	order := worker.Traits(f.Config.Pools[0].Args).HandoffOrder
	return &handoffs{pair: f.pair(true), order: order, states: make([]handoffState, f.Requests)}
}

func (h *handoffs) equip(p *Pool, i int) {
	w := &p.workers[i]
	if p == h.prefill {
		w.source = w.Engine.(engine.Source)
	} else {
		w.destination = w.Engine.(engine.Destination)
	}
}

// send starts the hand-off of a request.
func (h *handoffs) send(id engine.RequestID, _ bool) error {
	h.states = withRoom(h.states, id)
	coordinator, first := handoff.New(h.order)
	h.states[id] = handoffState{coordinator: coordinator}
	h.actions.PushBack(action{id, first})
	h.begin(id, 2)
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
	s := &h.passages[a.id]
	switch a.do {
	case handoff.Submit:
		h.meets(h.prefill)
		return h.route(h.prefill, a)
	case handoff.Reserve:
		return h.route(h.decode, a)
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
		if s.prefill == unassigned {
			h.Recorder.Unsent(a.id)
		}
		return h.cancelHalf(h.prefill, s.prefill, a, handoff.SourceCanceled)
	case handoff.CancelDestination:
		return h.cancelHalf(h.decode, s.decode, a, handoff.DestinationCanceled)
	case handoff.Complete:
		return h.complete(a.id)
	}
	return nil
}

// settled reports whether an action need not be carried out: it belongs to a request that is over, or is answered for a
// worker that is lost, or had drained before it got the request.
func (h *handoffs) settled(a action) bool {
	switch a.do {
	case handoff.Submit, handoff.Reserve, handoff.StartTransfer, handoff.Activate:
		return h.prefill.over(a.id)
	}
	if h.faults == nil {
		return false
	}
	s := &h.passages[a.id]
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

func (h *handoffs) resume(_ *Pool, a action) error {
	h.actions.PushBack(a)
	return nil
}

// refuse ends the hand-off of a request that the router of a pool has rejected.
func (h *handoffs) refuse(p *Pool, id engine.RequestID) error {
	h.Recorder.Failed(p, id, Refused)
	h.tell(id, handoff.Failed)
	return nil
}

// receive hands a prompt to a prefill worker, or asks a decode worker for room.
func (h *handoffs) receive(p *Pool, i int, id engine.RequestID) {
	if p == h.prefill {
		h.Recorder.Joined(p, i, id)
		p.workers[i].Engine.Add(h.prompt(id))
		p.updateReady(i)
	} else {
		h.reserve(i, id)
	}
}

// reserve asks a decode worker for room. If it can never run the request, the request fails.
func (h *handoffs) reserve(i int, id engine.RequestID) {
	w := &h.decode.workers[i]
	if err := w.destination.Reserve(h.World.Request(id)); err != nil {
		h.Recorder.Failed(h.decode, id, err.Error())
		h.tell(id, handoff.Failed)
		return
	}
	h.passages[id].decode = int32(i)
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

func (h *handoffs) startTransfer(id engine.RequestID) {
	h.Recorder.Step(id, TransferStarted)
	between := lane{prefill: h.passages[id].prefill, decode: h.passages[id].decode}
	takesMs := h.Transfer.DelayMs(h.World.Request(id).PromptTokens, int(h.states[id].missing))
	if takesMs == 0 && h.linkRate(between.prefill, between.decode) > 0 {
		h.transferred(id)
		return
	}
	h.Recorder.Step(id, TransferTakes)
	if h.faults == nil {
		h.wakeAt(h.nowMs+takesMs, id)
	} else {
		h.move(id, between, takesMs)
	}
}

// transferred ends a transfer: the KV is there. The decode worker takes it over when it is idle.
func (h *handoffs) transferred(id engine.RequestID) {
	h.endTransfer(id)
	h.Recorder.Step(id, Transferred)
	h.tell(id, handoff.Transferred)
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

// cancelHalf takes a request from its worker in a pool, or from the queue of the router. The router of prefill workers
// counts the load of the request until the hand-off is complete.
func (h *handoffs) cancelHalf(p *Pool, i int32, a action, done handoff.Fact) error {
	switch {
	case i == unassigned:
		p.dropKept(a.id)
		h.tell(a.id, done)
		return h.cancel(p, a.id)
	case !h.waits(p, i, a):
		h.tell(a.id, done)
		p.Cancel(int(i), a.id)
	}
	return nil
}

// complete ends a hand-off. If it has succeeded, the decode worker goes on with the request; if not, the request is
// over.
func (h *handoffs) complete(id engine.RequestID) error {
	h.left(id)
	if h.states[id].coordinator.Succeeded() {
		admitted, err := h.prefill.router.Free(int32(id), h.nowMs)
		return h.admitted(h.prefill, admitted, err)
	}
	abandoned := h.prefill.over(id)
	for _, p := range h.pools {
		if err := h.cancel(p, id); err != nil {
			return err
		}
	}
	if abandoned {
		h.left(id)
		return nil
	}
	h.World.Over(id, Canceled, "")
	h.left(id)
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

func (h *handoffs) recall(id engine.RequestID, forget func(p *Pool, i int)) error {
	h.endTransfer(id)
	c := &h.states[id].coordinator
	if !c.Done() {
		h.tell(id, handoff.Failed)
		return nil
	}
	if !c.Succeeded() { // it has failed by itself
		return nil
	}
	i := h.emitter(id)
	h.halt(h.decode, i)
	forget(h.decode, i)
	return h.cancel(h.decode, id)
}

// needs reports whether a request ends if a worker is lost. A prefill worker is not needed any more once the KV has
// arrived.
func (h *handoffs) needs(id engine.RequestID, p *Pool, i int) bool {
	at := &h.passages[id]
	if p == h.decode {
		return at.decode == int32(i)
	}
	switch h.states[id].coordinator.Awaiting() {
	case handoff.Submit, handoff.Reserve, handoff.StartTransfer:
		return at.prefill == int32(i)
	}
	return false
}
