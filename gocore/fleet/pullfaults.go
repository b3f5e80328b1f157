package fleet

import (
	"math"
	"slices"

	"dynosim/gocore/engine"
)

// What faults do to hand-offs by the engines' own rules. The documentation of vLLM says what a worker does about one that is lost:
//
//   - A load that fails ends its request (kv_load_failure_policy "fail", the default). So a lost prefill worker takes along prompts
//     until their KV has arrived.
//   - A prefill worker whose KV is never read keeps it until a lease runs out, which the decode worker extends from time to time.

// The lease of KV that is kept for a decode worker: how long it is at first, how often the decode worker extends it, and for how
// long.
const (
	leaseMs    = 30_000
	beatMs     = leaseMs / 6
	extendedMs = leaseMs * 2 / 3
)

// move is a transfer that was asked for. Between two workers, those that were asked for earlier come first.
type move struct {
	id      engine.RequestID
	between lane
	leftMs  float64 // at full speed, since sinceMs
	sinceMs float64
	rate    float64
}

// submitLoad asks for a transfer to decode worker i.
func (h *pulls) submitLoad(i int, l engine.Load) {
	s := &h.states[l.ID]
	if h.prefill.workers[s.prefill].Engine == nil || !s.keeps { // the request is over, and the worker has not heard of that
		return
	}
	s.leased, s.due = false, none
	h.Recorder.Step(l.ID, Reserved)
	h.Recorder.Step(l.ID, TransferStarted)
	m := move{
		id: l.ID, between: lane{s.prefill, s.prefillRank, int32(i), int32(l.Rank)},
		leftMs: float64(float64(l.Blocks) * h.blockMs), sinceMs: h.nowMs,
	}
	if h.instantly(l.ID, i) {
		h.landed(l.ID)
		return
	}
	h.Recorder.Step(l.ID, TransferTakes)
	s.loading = true
	h.moving = append(h.moving, m)
	h.retime()
}

// rateOf returns the speed of a transfer: 0 while another one between the same workers comes first.
func (h *pulls) rateOf(m *move) float64 {
	isAhead := func(other move) bool { return other.between == m.between }
	if first := slices.IndexFunc(h.moving, isAhead); !h.Transfer.Unlimited && first >= 0 && h.moving[first].id != m.id {
		return 0
	}
	return h.faults.LinkRate(int(m.between.prefill), int(m.between.decode))
}

// retime has transfers go on at the speed that they have now.
func (h *pulls) retime() {
	for n := range h.moving {
		m := &h.moving[n]
		rate := h.rateOf(m)
		if rate == m.rate {
			continue
		}
		m.leftMs = max(0, m.leftMs-(h.nowMs-m.sinceMs)*m.rate)
		m.sinceMs, m.rate = h.nowMs, rate
		if h.states[m.id].due = none; rate > 0 {
			h.wakeAt(h.nowMs+m.leftMs/rate, m.id)
		}
	}
}

// endMove forgets a transfer. The next one between its workers begins.
func (h *pulls) endMove(id engine.RequestID) {
	if n := slices.IndexFunc(h.moving, func(m move) bool { return m.id == id }); n >= 0 {
		h.moving = slices.Delete(h.moving, n, n+1)
		h.retime()
	}
}

// transfers reports whether an event is still what a request waits for.
func (h *pulls) transfers(id engine.RequestID, seq int64) bool {
	return h.faults == nil || h.states[id].due == seq
}

// needs reports whether a request ends if a worker is lost: its decode worker, or the prefill worker unless its KV has arrived.
func (h *pulls) needs(id engine.RequestID, p *Pool, i int) bool {
	s := &h.states[id]
	if p == h.decode {
		return s.decode == int32(i)
	}
	return s.prefill == int32(i) && !s.landed
}

// abandon gives up a request whose prompt has been computed, and whose KV is not where it is needed. A decode worker that has not asked
// for it yet tells the prefill worker; one that loads it goes on until it has it; one that is lost leaves a lease behind.
func (h *pulls) abandon(id engine.RequestID) {
	s := &h.states[id]
	if s.landed {
		return
	}
	i := int(s.decode)
	lost := i != unassigned && h.decode.workers[i].Engine == nil
	if h.prefill.workers[s.prefill].Engine == nil || lost {
		s.loading, s.due = false, none
		h.endMove(id)
	}
	switch {
	case h.prefill.workers[s.prefill].Engine == nil:
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
