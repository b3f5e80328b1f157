package fleet

import (
	"cmp"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/worker"
)

// pulls is the way of requests whose prompt is computed by one worker, and loaded from there by another one when that
// chooses to (engine.Puller): the hand-off by the engines' own rules. Handing the answer over takes no time, and
// workers are never told to do anything:
//
//	prefill worker   |--prompt--|  KV kept ............................|  pass: end noticed  |  KV gone
//	decode worker                  waits for blocks  |--load----------------|  noticed  |--last prompt token--|--token--|
//
// Everything that ends at an instant is applied before passes start there, and prefill workers start before decode
// workers.
type pulls struct {
	pair
	states []pullState // by request
	moving []move      // the transfers that are asked for, with faults
	// later has decode workers forget requests that are over, with faults, when their loads have ended.
	later   map[engine.RequestID]func(p *Pool, i int)
	ready   []computed // at this instant: prompts that no decode worker has been chosen for
	lanes   map[lane]float64
	blockMs float64      // of a transfer
	delay   worker.Delay // from the prefill router to the scheduler of the worker
}

// pullState is where a request is: on which workers, or unassigned.
type pullState struct {
	prefill, decode int32
	prefillRank     int32
	onWay           bool    // to the scheduler of the prefill worker
	asked, loading  bool    // its decode worker has asked for its KV; that is on its way
	keeps, landed   bool    // its prefill worker keeps its KV; its decode worker has it
	leased          bool    // its decode worker is lost: its KV is kept until a lease runs out
	due             int64   // with faults, the event that waits for it
	heldMs, joinMs  float64 // with faults: when its prompt was computed, and when its decode worker has accepted it
}

// computed is a prompt that a prefill worker has computed.
type computed struct {
	id     engine.RequestID
	worker int
}

// lane is the link between two workers, or a rank of one and a rank of the other.
type lane struct{ prefill, prefillRank, decode, decodeRank int32 }

var _ flow = (*pulls)(nil)

func newPulls(f *Fleet) *pulls {
	return &pulls{
		pair: f.pair(), states: make([]pullState, f.Requests), lanes: map[lane]float64{},
		later:   map[engine.RequestID]func(p *Pool, i int){},
		blockMs: f.Transfer.BlockMs(f.pools[1].Args.BlockSize), delay: worker.RequestDelay(f.pools[0].Args),
	}
}

// send asks the router for a prefill worker.
func (h *pulls) send(id engine.RequestID, first bool) error {
	if first {
		h.meets(h.prefill)
	}
	h.states = withRoom(h.states, id)
	h.states[id] = pullState{prefill: unassigned, decode: unassigned}
	h.begin(id, 1)
	return h.route(h.prefill, id)
}

// route asks the router of a pool for a worker. Without an active one the request waits.
func (h *pulls) route(p *Pool, id engine.RequestID) error {
	if !p.Serves() {
		p.keep(action{id: id})
		return nil
	}
	return h.submit(p, h.asked(p, id))
}

func (h *pulls) resume(p *Pool, a action) error { return h.route(p, a.id) }

// asked returns the request as the workers of a pool get it: the prompt and one token, or all of it with a prompt to
// load.
func (h *pulls) asked(p *Pool, id engine.RequestID) engine.Request {
	if p == h.prefill {
		return h.prompt(id)
	}
	r := h.World.Request(id)
	r.Pull, r.SentMs = true, h.nowMs
	return r
}

func (h *pulls) assigned(p *Pool, i int, id engine.RequestID) {
	switch s := &h.states[id]; {
	case p.accepts(i, id):
		h.receive(p, i, id)
	case p == h.decode && !p.over(id): // it waits until the worker can be reached
		s.decode = int32(i)
	case !p.over(id):
		s.prefill = int32(i)
	}
}

func (h *pulls) receive(p *Pool, i int, id engine.RequestID) {
	h.Recorder.Joined(p, i, id)
	s := &h.states[id]
	if p == h.decode {
		s.decode, s.joinMs = int32(i), h.nowMs
		h.add(p, i, id)
		return
	}
	s.prefill = int32(i)
	delayMs := h.delay.Of(h.World.Request(id).PromptTokens)
	if s.onWay = delayMs > 0; s.onWay {
		p.workers[i].onWay++
		h.wakeAt(h.nowMs+delayMs, id)
	} else {
		h.add(p, i, id)
	}
}

// add hands a request to the scheduler of a worker.
func (h *pulls) add(p *Pool, i int, id engine.RequestID) {
	h.halt(p, i)
	p.workers[i].Engine.Add(h.asked(p, id))
	p.updateReady(i)
}

// started carries out what a pass that starts now asks for, and makes visible what its worker has given up.
func (h *pulls) started(p *Pool, i int, pass *engine.Pass) error {
	if p == h.prefill {
		for _, a := range pass.Admitted {
			h.states[a.ID].prefillRank = int32(a.Rank)
		}
	}
	for _, l := range pass.Loads {
		h.load(i, l)
	}
	return h.released(pass.ReleasedAtStart)
}

// load begins to transfer a prompt to decode worker i.
func (h *pulls) load(i int, l engine.Load) {
	s := &h.states[l.ID]
	s.asked = true
	if h.faults != nil {
		h.submitLoad(i, l)
		return
	}
	startMs, between := h.nowMs, lane{s.prefill, s.prefillRank, int32(i), int32(l.Rank)}
	if !h.Transfer.Unlimited {
		startMs = max(startMs, h.lanes[between])
	}
	endMs := startMs + float64(float64(l.Blocks)*h.blockMs)
	if !h.Transfer.Unlimited {
		h.lanes[between] = endMs
	}
	h.Recorder.Step(l.ID, Reserved)
	h.Recorder.Step(l.ID, TransferStarted)
	if endMs > h.nowMs {
		h.Recorder.Step(l.ID, TransferTakes)
		s.loading = true
		h.wakeAt(endMs, l.ID)
		return
	}
	h.landed(l.ID)
}

// instantly reports whether decode worker i has the KV of a request as soon as it asks for it.
func (f *Fleet) instantly(id engine.RequestID, i int) bool {
	h := f.flow.(*pulls)
	return h.blockMs == 0 && (f.faults == nil || f.faults.LinkRate(int(h.states[id].prefill), i) > 0)
}

// wakeAt has something happen to a request later: see transferred.
func (h *pulls) wakeAt(atMs float64, id engine.RequestID) {
	h.push(atMs, event{pool: transferEnd, index: int32(id)})
	h.states[id].due = h.pushed
}

// transferred ends a transfer that took time, the way of a request to the scheduler of its prefill worker, or a lease.
func (h *pulls) transferred(id engine.RequestID) {
	s := &h.states[id]
	s.due = none
	switch {
	case s.onWay:
		h.arrived(id)
		return
	case s.leased:
		s.leased = false
		h.giveUp(id)
		return
	}
	s.loading = false
	i := int(s.decode)
	h.endMove(id)
	h.halt(h.decode, i)
	if h.decode.over(id) {
		h.giveUp(id)
		if h.faults == nil {
			h.takeBack(h.decode, i, id)
		} else if forget := h.later[id]; forget != nil {
			delete(h.later, id)
			forget(h.decode, i)
		}
		return
	}
	h.decode.workers[i].puller.Transferred(id, h.nowMs)
	h.decode.updateReady(i)
	h.landed(id)
}

// arrived has a request come to the scheduler of its prefill worker.
func (h *pulls) arrived(id engine.RequestID) {
	s := &h.states[id]
	s.onWay = false
	w := &h.prefill.workers[s.prefill]
	if w.Engine == nil {
		return
	}
	w.onWay--
	if h.prefill.over(id) {
		h.left(id)
	} else {
		h.add(h.prefill, int(s.prefill), id)
	}
}

// landed tells the prefill worker that the KV of a request is where it is needed.
func (h *pulls) landed(id engine.RequestID) {
	h.Recorder.Step(id, Transferred)
	h.Recorder.Step(id, Activated)
	h.states[id].landed = true
	h.giveUp(id)
}

// giveUp tells the prefill worker of a request that its KV is not needed there any more. A lost worker has none.
func (h *pulls) giveUp(id engine.RequestID) {
	i := int(h.states[id].prefill)
	if w := &h.prefill.workers[i]; w.Engine != nil && h.states[id].keeps {
		w.puller.Transferred(id, h.nowMs)
		h.prefill.updateReady(i)
	}
}

// released makes visible that a prefill worker has given up what it kept.
func (h *pulls) released(ids []engine.RequestID) error {
	for _, id := range ids {
		h.states[id].keeps = false
		if h.prefill.over(id) && h.faults != nil {
			h.Recorder.Left(h.prefill, id)
		} else {
			h.Recorder.Step(id, Released)
		}
		admitted, err := h.prefill.router.Free(int32(id), h.nowMs)
		h.left(id)
		if err := h.admitted(h.prefill, admitted, err); err != nil {
			return err
		}
	}
	return nil
}

// ended makes the end of a pass visible.
func (h *pulls) ended(p *Pool, i int, pass *engine.Pass) error {
	if p == h.decode {
		return h.endDecode(i, pass)
	}
	h.shown(p, i, pass)
	if err := h.prefilled(p, pass); err != nil {
		return err
	}
	if err := h.reject(p, pass); err != nil {
		return err
	}
	for _, id := range pass.Held {
		if p.over(id) {
			continue
		}
		h.begin(id, 1)
		h.states[id].keeps, h.states[id].heldMs = true, h.nowMs
		h.Recorder.Step(id, SourceHeld)
		h.ready = append(h.ready, computed{id, i})
	}
	return h.released(pass.Released)
}

// endDecode ends requests. One that its decode worker can never run leaves its KV behind.
func (h *pulls) endDecode(i int, pass *engine.Pass) error {
	h.shown(h.decode, i, pass)
	if err := h.endFinished(h.decode, pass); err != nil {
		return err
	}
	for _, rejected := range pass.Rejected {
		if h.decode.over(rejected.ID) {
			continue
		}
		h.giveUp(rejected.ID)
		if err := h.leave(h.decode, rejected.ID, Rejected, rejected.Reason); err != nil {
			return err
		}
	}
	return nil
}

// act hands requests over whose prompts have been computed: by worker, and in the order in which that served them.
func (h *pulls) act() (changed bool, err error) {
	for len(h.ready) > 0 {
		changed = true
		now := slices.Clone(h.ready)
		h.ready = h.ready[:0]
		slices.SortStableFunc(now, func(a, b computed) int { return cmp.Compare(a.worker, b.worker) })
		for _, c := range now {
			if err := h.route(h.decode, c.id); err != nil {
				return changed, err
			}
		}
	}
	return changed, nil
}

// recall takes a request back. A worker that loads its prompt goes on until it has it.
func (h *pulls) recall(id engine.RequestID, _ int, forget func(p *Pool, i int)) error {
	s := &h.states[id]
	h.prefill.dropKept(id)
	h.decode.dropKept(id)
	p, i := h.prefill, int(s.prefill)
	if h.open[id] > 1 || s.asked || s.decode != unassigned { // the prompt has been computed
		p, i = h.decode, int(s.decode)
		if h.faults != nil {
			h.abandon(id)
		} else if !s.asked {
			h.giveUp(id)
		}
	}
	switch {
	case i == unassigned:
		h.left(id)
	case s.loading && h.faults != nil:
		h.later[id] = forget
	case !s.onWay && !s.loading:
		h.halt(p, i)
		forget(p, i)
	}
	return h.cancel(p, id)
}

func (h *pulls) decodeWorker(id engine.RequestID) int { return int(h.states[id].decode) }

// Workers look for themselves what can go on.

func (h *pulls) idle(*Worker)     {}
func (h *pulls) freed(*Pool, int) {}
func (h *pulls) unblock() bool    { return false }
