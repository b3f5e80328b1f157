package fleet

import (
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/handoff"
)

// transfer is a transfer that has begun, in a fleet whose links may change, or whose requests may be taken back.
type transfer struct {
	id      engine.RequestID
	leftMs  float64 // at full speed, since sinceMs
	sinceMs float64
	rate    float64
	due     int64 // the event that ends it, or none
}

func (h *handoffs) startTransfer(id engine.RequestID) {
	h.Recorder.Step(id, TransferStarted)
	s := &h.states[id]
	delayMs := h.Transfer.DelayMs(h.World.Request(id).PromptTokens, int(s.missing))
	if delayMs == 0 && h.linkRate(s) > 0 {
		h.endOfTransfer(id)
		return
	}
	h.Recorder.Step(id, TransferTakes)
	if !h.revocable() {
		h.push(h.nowMs+delayMs, event{pool: transferEnd, index: int32(id)})
		return
	}
	h.moving = append(h.moving, transfer{id: id, leftMs: delayMs, sinceMs: h.nowMs, due: none})
	h.setRate(&h.moving[len(h.moving)-1])
}

// transferred ends a transfer that took time.
func (h *handoffs) transferred(id engine.RequestID) {
	h.endTransfer(id)
	h.endOfTransfer(id)
}

// endOfTransfer tells that the KV is there. The decode worker takes it over when it is idle.
func (h *handoffs) endOfTransfer(id engine.RequestID) {
	h.Recorder.Step(id, Transferred)
	h.tell(id, handoff.Transferred)
}

// revocable reports whether transfers may change or be given up, so that those that have begun are known.
func (h *handoffs) revocable() bool { return h.faults != nil || h.Watcher != nil }

func (h *handoffs) linkRate(s *handoffState) float64 {
	if h.faults == nil {
		return 1
	}
	return h.faults.LinkRate(int(s.prefill), int(s.decode))
}

// setRate makes a transfer go on at the speed that its link has now.
func (h *handoffs) setRate(t *transfer) {
	rate := h.linkRate(&h.states[t.id])
	if t.due != none && rate == t.rate {
		return
	}
	t.leftMs = max(0, t.leftMs-(h.nowMs-t.sinceMs)*t.rate)
	t.sinceMs, t.rate, t.due = h.nowMs, rate, none
	if rate > 0 {
		h.push(h.nowMs+t.leftMs/rate, event{pool: transferEnd, index: int32(t.id)})
		t.due = h.pushed
	}
}

func (h *handoffs) retime() {
	for n := range h.moving {
		h.setRate(&h.moving[n])
	}
}

// transfers reports whether an event is the end of its transfer at the speed that its link has now.
func (h *handoffs) transfers(id engine.RequestID, seq int64) bool {
	return !h.revocable() || slices.ContainsFunc(h.moving, func(t transfer) bool { return t.id == id && t.due == seq })
}

// endTransfer forgets a transfer.
func (h *handoffs) endTransfer(id engine.RequestID) {
	if len(h.moving) > 0 {
		h.moving = slices.DeleteFunc(h.moving, func(t transfer) bool { return t.id == id })
	}
}
