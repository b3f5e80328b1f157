package fleet

import (
	"dynosim/gocore/engine"
)

// pushes is the way of requests whose KV a prefill worker sends to where a decode worker has taken room for it before
// (engine.Pusher): the hand-off by SGLang's own rules. Both workers get a request when it comes; what one of them tells
// the other takes no time:
//
//	decode worker    waits for room |..............................................|  notices  |--tokens--|
//	prefill worker   waits ---------|--first chunk--|--last chunk--|  KV kept      |  pass: notices  |  KV gone
//	link                                            |--first--|    |--last---------|
//
// Everything that ends at an instant is applied before passes start there, and prefill workers start before decode
// workers.
type pushes struct {
	ownPair
	states []pushState        // by request
	ready  []engine.RequestID // at this instant: a prefill worker has been chosen, but no decode worker
}

// pushState is how far a request has come.
type pushState struct {
	onWay     bool // to the scheduler of its prefill worker
	allocated bool // its decode worker has taken room
	prompt    bool // the half of it is open that is on a prefill worker, or on its way there
	output    bool // the other one
	endMs     float64
}

func init() { rules[engine.Pushed] = newPushes }

func newPushes(f *Fleet) flow {
	return &pushes{ownPair: f.ownPair(), states: make([]pushState, f.Requests)}
}

func (h *pushes) equip(p *Pool, i int) {
	w := &p.workers[i]
	w.pusher = w.Engine.(engine.Pusher)
}

// send asks the router for a prefill worker; the decode worker is chosen when there is one.
func (h *pushes) send(id engine.RequestID, first bool) error {
	if first {
		h.meets(h.prefill)
	}
	h.states = withRoom(h.states, id)
	h.states[id] = pushState{prompt: true, output: true}
	h.begin(id, 2)
	return h.route(h.prefill, action{id: id})
}

func (h *pushes) resume(p *Pool, a action) error { return h.route(p, a) }

func (h *pushes) receive(p *Pool, i int, id engine.RequestID) {
	h.Recorder.Joined(p, i, id)
	if p == h.decode {
		h.passages[id].decode = int32(i)
		h.add(p, i, id)
		return
	}
	h.ready = append(h.ready, id)
	h.states[id].onWay = h.reach(p, i, id)
}

// act chooses decode workers for the requests that prefill workers have got, in the order of these.
func (h *pushes) act() (changed bool, err error) {
	for len(h.ready) > 0 {
		changed = true
		id := h.ready[0]
		if h.ready = h.ready[1:]; h.states[id].output {
			if err := h.route(h.decode, action{id: id}); err != nil {
				return changed, err
			}
		}
	}
	return changed, nil
}

// started tells prefill workers where there is room, and makes visible what a worker has given up.
func (h *pushes) started(_ *Pool, _ int, pass *engine.Pass) error {
	for _, id := range pass.Allocated {
		h.states[id].allocated = true
		h.Recorder.Step(id, Reserved)
		h.Recorder.Step(id, Queued)
		if i := int(h.passages[id].prefill); h.states[id].prompt {
			h.prefill.workers[i].pusher.Allocated(id)
			h.prefill.updateReady(i)
		}
	}
	return h.released(pass.ReleasedAtStart)
}

// ended makes the end of a pass visible.
func (h *pushes) ended(p *Pool, i int, pass *engine.Pass) error {
	if p == h.decode {
		return h.endDecode(pass)
	}
	if err := h.prefilled(p, pass); err != nil {
		return err
	}
	for _, c := range pass.Sent {
		h.transfer(c)
	}
	for _, rejected := range pass.Rejected {
		if err := h.fail(p, rejected); err != nil {
			return err
		}
	}
	return nil
}

// endDecode ends requests.
func (h *pushes) endDecode(pass *engine.Pass) error {
	for _, id := range pass.Finished {
		h.states[id].output = h.decode.over(id)
	}
	if err := h.endFinished(h.decode, pass); err != nil {
		return err
	}
	for _, rejected := range pass.Rejected {
		if err := h.fail(h.decode, rejected); err != nil {
			return err
		}
	}
	return nil
}

// transfer begins to transfer a part of a prompt. Between two workers, those that were sent earlier come first, and so
// do earlier parts of the same prompt.
func (h *pushes) transfer(c engine.Chunk) {
	at, s := &h.passages[c.ID], &h.states[c.ID]
	if !s.output || h.prefill.over(c.ID) {
		return
	}
	between := lane{prefill: at.prefill, decode: at.decode}
	sinceMs := max(h.nowMs, s.endMs)
	if !h.parallel {
		sinceMs = max(sinceMs, h.lanes[between])
	}
	s.endMs = sinceMs + float64(float64(c.Blocks)*h.blockMs)
	if !h.parallel {
		h.lanes[between] = s.endMs
	}
	if !c.Last {
		return
	}
	h.Recorder.Step(c.ID, SourceHeld)
	h.Recorder.Step(c.ID, TransferStarted)
	if s.endMs > h.nowMs {
		h.Recorder.Step(c.ID, TransferTakes)
	}
	h.wakeAt(s.endMs, c.ID)
}

// transferred ends the transfer of the last part of a prompt, or the way of a request to the scheduler of its prefill
// worker.
func (h *pushes) transferred(id engine.RequestID) {
	s, at := &h.states[id], &h.passages[id]
	if s.onWay {
		h.arrived(id)
		return
	}
	at.due = none
	h.Recorder.Step(id, Transferred)
	h.Recorder.Step(id, Activated)
	h.arrivedAt(h.prefill, at.prefill, id)
	if s.output {
		h.halt(h.decode, int(at.decode))
		h.arrivedAt(h.decode, at.decode, id)
	}
}

// arrivedAt tells a worker that the KV of a request has come.
func (h *pushes) arrivedAt(p *Pool, i int32, id engine.RequestID) {
	if w := &p.workers[i]; w.Engine != nil {
		w.pusher.Transferred(id)
		p.updateReady(int(i))
	}
}

// arrived has a request come to the scheduler of its prefill worker.
func (h *pushes) arrived(id engine.RequestID) {
	h.endWay(id)
	i := int(h.passages[id].prefill)
	h.add(h.prefill, i, id)
	if h.states[id].allocated {
		h.prefill.workers[i].pusher.Allocated(id)
		h.prefill.updateReady(i)
	}
}

// endWay ends the way of a request to the scheduler of its prefill worker, if it is on it.
func (h *pushes) endWay(id engine.RequestID) {
	at := &h.passages[id]
	at.due = none
	if s := &h.states[id]; s.onWay {
		s.onWay = false
		h.prefill.workers[at.prefill].onWay--
	}
}

// released makes visible that a prefill worker has given up the KV of requests.
func (h *pushes) released(ids []engine.RequestID) error {
	for _, id := range ids {
		h.Recorder.Step(id, Released)
		if err := h.endPrompt(id); err != nil {
			return err
		}
	}
	return nil
}

// endPrompt closes the half of a request that is on a prefill worker.
func (h *pushes) endPrompt(id engine.RequestID) error {
	h.states[id].prompt = false
	admitted, err := h.prefill.router.Free(int32(id), h.nowMs)
	h.left(id)
	return h.admitted(h.prefill, admitted, err)
}

// refuse ends a request that the router of a pool has rejected.
func (h *pushes) refuse(p *Pool, id engine.RequestID) error {
	return h.fail(p, engine.Rejection{ID: id, Reason: Refused})
}

// fail ends a request that a worker can never run, or a router has rejected. The worker of the other pool forgets it.
func (h *pushes) fail(p *Pool, r engine.Rejection) error {
	s, at := &h.states[r.ID], &h.passages[r.ID]
	if !s.output || p.over(r.ID) {
		return nil
	}
	s.output = false
	if p == h.prefill {
		h.forgetHalf(h.decode, at.decode, r.ID)
		if err := h.cancel(h.decode, r.ID); err != nil {
			return err
		}
	} else if s.prompt {
		h.forgetHalf(h.prefill, at.prefill, r.ID)
	}
	h.endWay(r.ID)
	if s.prompt {
		if err := h.endPrompt(r.ID); err != nil {
			return err
		}
	}
	return h.leave(p, r.ID, Rejected, r.Reason)
}

// forgetHalf has the worker of a pool forget a request, if it has it. A worker may be told that during a pass: what the
// pass does has been seen.
func (h *pushes) forgetHalf(p *Pool, i int32, id engine.RequestID) {
	if i == unassigned || p.workers[i].Engine == nil {
		return
	}
	h.halt(p, int(i))
	p.workers[i].Engine.Cancel(id)
	h.Recorder.Left(p, id)
	p.updateReady(int(i))
}

// recall takes a request back from both pools.
func (h *pushes) recall(id engine.RequestID, forget func(p *Pool, i int)) error {
	s, at := &h.states[id], &h.passages[id]
	h.prefill.dropKept(id)
	h.decode.dropKept(id)
	prompt, output, onWay := s.prompt, s.output, s.onWay
	s.prompt, s.output = false, false
	h.endWay(id)
	for _, half := range []struct {
		open bool
		pool *Pool
		at   int32
	}{{prompt, h.prefill, at.prefill}, {output, h.decode, at.decode}} {
		switch {
		case !half.open:
		case half.at == unassigned || half.pool == h.prefill && onWay:
			h.left(id)
		default:
			h.halt(half.pool, int(half.at))
			forget(half.pool, int(half.at))
		}
		if err := h.cancel(half.pool, id); err != nil {
			return err
		}
	}
	return nil
}

// needs reports whether a request ends if a worker is lost: its decode worker, or the prefill worker that has its KV.
func (h *pushes) needs(id engine.RequestID, p *Pool, i int) bool {
	if p == h.prefill {
		return h.states[id].prompt && h.passages[id].prefill == int32(i)
	}
	return h.passages[id].decode == int32(i)
}

// unblock has decode workers reject what can never go on.
func (h *pushes) unblock() (changed bool) {
	for i := range h.decode.workers {
		w := &h.decode.workers[i]
		if w.Engine != nil && !h.decode.halted(i) && w.Engine.Unblock() {
			h.decode.updateReady(i)
			changed = true
		}
	}
	return changed
}

// Workers look for themselves what can go on.

func (h *pushes) idle(*Worker)     {}
func (h *pushes) freed(*Pool, int) {}
