package fleet

import (
	"cmp"
	"math"
	"slices"

	"dynosim/gocore/engine"
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
	ownPair
	states []pullState // by request
	// later has decode workers forget requests that are over when their loads have ended.
	later map[engine.RequestID]func(p *Pool, i int)
	ready []computed // at this instant: prompts that no decode worker has been chosen for
}

// pullState is how far a request has come.
type pullState struct {
	prefillRank    int32
	onWay          bool    // to the scheduler of the prefill worker
	asked, loading bool    // its decode worker has asked for its KV; that is on its way
	keeps, landed  bool    // its prefill worker keeps its KV; its decode worker has it
	leased         bool    // its decode worker is lost: its KV is kept until a lease runs out
	heldMs, joinMs float64 // with faults: when its prompt was computed, and when its decode worker has accepted it
}

// computed is a prompt that a prefill worker has computed.
type computed struct {
	id     engine.RequestID
	worker int
}

func init() { rules[engine.Pulled] = newPulls }

func newPulls(f *Fleet) flow {
	return &pulls{
		ownPair: f.ownPair(), states: make([]pullState, f.Requests),
		later: map[engine.RequestID]func(p *Pool, i int){},
	}
}

func (h *pulls) equip(p *Pool, i int) {
	w := &p.workers[i]
	if w.puller = w.Engine.(engine.Puller); p == h.decode {
		w.puller.Instantly(func(id engine.RequestID) bool { return h.instantly(id, int32(i)) })
	}
}

// send asks the router for a prefill worker.
func (h *pulls) send(id engine.RequestID, first bool) error {
	if first {
		h.meets(h.prefill)
	}
	h.states = withRoom(h.states, id)
	h.states[id] = pullState{}
	h.begin(id, 1)
	return h.route(h.prefill, action{id: id})
}

func (h *pulls) resume(p *Pool, a action) error { return h.route(p, a) }

func (h *pulls) receive(p *Pool, i int, id engine.RequestID) {
	h.Recorder.Joined(p, i, id)
	s := &h.states[id]
	if p == h.decode {
		h.passages[id].decode, s.joinMs = int32(i), h.nowMs
		h.add(p, i, id)
		return
	}
	s.onWay = h.reach(p, i, id)
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

// load begins to transfer a prompt to decode worker i. Between two workers, those that were asked for earlier come
// first.
func (h *pulls) load(i int, l engine.Load) {
	at, s := &h.passages[l.ID], &h.states[l.ID]
	s.asked = true
	// the request is over, which its decode worker does not know
	if h.prefill.workers[at.prefill].Engine == nil || !s.keeps {
		return
	}
	s.leased, at.due = false, none
	h.Recorder.Step(l.ID, Reserved)
	h.Recorder.Step(l.ID, TransferStarted)
	between := lane{at.prefill, s.prefillRank, int32(i), int32(l.Rank)}
	takesMs := float64(float64(l.Blocks) * h.blockMs)
	if h.instantly(l.ID, int32(i)) {
		h.landed(l.ID)
		return
	}
	h.Recorder.Step(l.ID, TransferTakes)
	s.loading = true
	if h.faults != nil {
		h.move(l.ID, between, takesMs)
		return
	}
	endMs := max(h.nowMs, h.lanes[between]) + takesMs
	if !h.parallel {
		h.lanes[between] = endMs
	}
	h.wakeAt(endMs, l.ID)
}

// instantly reports whether decode worker i has the KV of a request as soon as it asks for it.
func (h *pulls) instantly(id engine.RequestID, i int32) bool {
	return h.blockMs == 0 && h.linkRate(h.passages[id].prefill, i) > 0
}

// transferred ends a transfer that took time, the way of a request to the scheduler of its prefill worker, or a lease.
func (h *pulls) transferred(id engine.RequestID) {
	s := &h.states[id]
	h.passages[id].due = none
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
	i := h.emitter(id)
	h.endTransfer(id)
	h.halt(h.decode, i)
	if h.decode.over(id) {
		h.giveUp(id)
		if forget := h.later[id]; forget != nil {
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
	i := int(h.passages[id].prefill)
	w := &h.prefill.workers[i]
	if w.Engine == nil {
		return
	}
	w.onWay--
	if h.prefill.over(id) {
		h.left(id)
	} else {
		h.add(h.prefill, i, id)
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
	i := int(h.passages[id].prefill)
	if w := &h.prefill.workers[i]; w.Engine != nil && h.states[id].keeps {
		w.puller.Transferred(id, h.nowMs)
		h.prefill.updateReady(i)
	}
}

// released makes visible that a prefill worker has given up what it kept.
func (h *pulls) released(ids []engine.RequestID) error {
	for _, id := range ids {
		h.states[id].keeps = false
		if h.prefill.over(id) {
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
		h.unfinished++
		h.passages[id].open++
		h.states[id].keeps, h.states[id].heldMs = true, h.nowMs
		h.Recorder.Step(id, SourceHeld)
		h.ready = append(h.ready, computed{id, i})
	}
	return h.released(pass.Released)
}

// endDecode ends requests. One that its decode worker can never run leaves its KV behind.
func (h *pulls) endDecode(i int, pass *engine.Pass) error {
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
			if err := h.route(h.decode, action{id: c.id}); err != nil {
				return changed, err
			}
		}
	}
	return changed, nil
}

// recall takes a request back. A worker that loads its prompt goes on until it has it.
func (h *pulls) recall(id engine.RequestID, forget func(p *Pool, i int)) error {
	at, s := &h.passages[id], &h.states[id]
	h.prefill.dropKept(id)
	h.decode.dropKept(id)
	p, i := h.prefill, int(at.prefill)
	if at.open > 1 || s.asked || at.decode != unassigned { // the prompt has been computed
		p, i = h.decode, int(at.decode)
		h.abandon(id)
	}
	switch {
	case i == unassigned:
		h.left(id)
	case s.loading:
		h.later[id] = forget
	case !s.onWay:
		h.halt(p, i)
		forget(p, i)
	}
	return h.cancel(p, id)
}

// Workers look for themselves what can go on.

func (h *pulls) idle(*Worker)     {}
func (h *pulls) freed(*Pool, int) {}
func (h *pulls) unblock() bool    { return false }

// What faults do to hand-offs by the engines' own rules. The documentation of vLLM says what a worker does about one
// that is lost:
//
//   - A load that fails ends its request (kv_load_failure_policy "fail", the default). So a lost prefill worker takes
//     along prompts until their KV has arrived.
//   - A prefill worker whose KV is never read keeps it until a lease runs out, which the decode worker extends from
//     time to time.

// The lease of KV that is kept for a decode worker: how long it is at first, how often the decode worker extends it,
// and for how long.
const (
	leaseMs    = 30_000
	beatMs     = leaseMs / 6
	extendedMs = leaseMs * 2 / 3
)

// needs reports whether a request ends if a worker is lost: its decode worker, or the prefill worker unless its KV has
// arrived.
func (h *pulls) needs(id engine.RequestID, p *Pool, i int) bool {
	if at := &h.passages[id]; p == h.prefill {
		return at.prefill == int32(i) && !h.states[id].landed
	}
	return h.passages[id].decode == int32(i)
}

// abandon gives up a request whose prompt has been computed, and whose KV is not where it is needed. A decode worker
// that has not asked for it yet tells the prefill worker; one that loads it goes on until it has it; one that is lost
// leaves a lease behind.
func (h *pulls) abandon(id engine.RequestID) {
	s := &h.states[id]
	if s.landed {
		return
	}
	i := h.emitter(id)
	lost := i != unassigned && h.decode.workers[i].Engine == nil
	noSource := h.prefill.workers[h.passages[id].prefill].Engine == nil
	if noSource || lost {
		s.loading = false
		h.endTransfer(id)
	}
	switch {
	case noSource:
		s.keeps = false
	case lost || i != unassigned && !s.asked && !h.decode.reachable(i):
		s.leased = true
		h.wakeAt(max(h.nowMs, s.heldMs+leaseMs, h.lastBeatMs(s)+extendedMs), id)
	case !s.asked:
		h.giveUp(id)
	}
}

// lastBeatMs returns when a decode worker that is lost now has extended the lease of a request.
func (h *pulls) lastBeatMs(s *pullState) float64 {
	return s.joinMs + math.Floor((h.nowMs-s.joinMs)/beatMs)*beatMs
}
