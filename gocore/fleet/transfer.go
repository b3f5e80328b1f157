package fleet

import (
	"slices"

	"dynosim/gocore/engine"
)

// transfer is a transfer that has begun, in a fleet whose links may change.
type transfer struct {
	id      engine.RequestID
	between lane
	leftMs  float64 // at full speed, since sinceMs
	sinceMs float64
	rate    float64
}

// lane is the link between two workers, or a rank of one and a rank of the other.
type lane struct{ prefill, prefillRank, decode, decodeRank int32 }

// move begins a transfer, behind those on its lane that were asked for earlier.
func (h *pair) move(id engine.RequestID, between lane, takesMs float64) {
	h.moving = append(h.moving, transfer{id: id, between: between, leftMs: takesMs, sinceMs: h.nowMs})
	h.retime()
}

// retime has transfers go on at the speed that they have now.
func (h *pair) retime() {
	for n := range h.moving {
		t := &h.moving[n]
		rate := h.rateOf(t)
		if rate == t.rate {
			continue
		}
		t.leftMs = max(0, t.leftMs-(h.nowMs-t.sinceMs)*t.rate)
		t.sinceMs, t.rate = h.nowMs, rate
		if h.passages[t.id].due = none; rate > 0 {
			h.wakeAt(h.nowMs+t.leftMs/rate, t.id)
		}
	}
}

// rateOf returns the speed of a transfer: 0 while another one on its lane comes first.
func (h *pair) rateOf(t *transfer) float64 {
	isAhead := func(other transfer) bool { return other.between == t.between }
	if !h.parallel && h.moving[slices.IndexFunc(h.moving, isAhead)].id != t.id {
		return 0
	}
	return h.linkRate(t.between.prefill, t.between.decode)
}

// linkRate returns the speed of the link between two workers: 1 if nothing is wrong, 0 if it is down.
func (h *pair) linkRate(prefill, decode int32) float64 {
	if h.faults == nil {
		return 1
	}
	return h.faults.LinkRate(int(prefill), int(decode))
}

// endTransfer forgets a transfer. The next one on its lane begins.
func (h *pair) endTransfer(id engine.RequestID) {
	h.passages[id].due = none
	if n := slices.IndexFunc(h.moving, func(t transfer) bool { return t.id == id }); n >= 0 {
		h.moving = slices.Delete(h.moving, n, n+1)
		h.retime()
	}
}

// wakeAt has something happen to a request later: see flow.transferred.
func (h *pair) wakeAt(atMs float64, id engine.RequestID) {
	h.push(atMs, event{pool: transferEnd, index: int32(id)})
	h.passages[id].due = h.pushed
}

// transfers reports whether an event is still what a request waits for.
func (h *pair) transfers(id engine.RequestID, seq int64) bool { return h.passages[id].due == seq }
