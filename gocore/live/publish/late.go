package publish

import (
	"math"
	"time"

	"dynosim/gocore/live/blocks"
)

// lateChanges is changes of a cache that are published later. All of a worker take equally long, so they stay in order.
// Answers of the recovery endpoint lack them in the meantime, too: the events have no numbers yet.
type lateChanges struct {
	atMs    float64 // when
	changes []blocks.Change
}

// postpone keeps changes of a rank until the lag is over.
func (w *Worker) postpone(r *rank, changes []blocks.Change) {
	lagMs := float64(w.config.KVEventLag) / float64(time.Millisecond)
	r.mu.Lock()
	r.late = append(r.late, lateChanges{w.nowMs() + lagMs, changes})
	first := len(r.late) == 1
	r.mu.Unlock()
	if first {
		w.wakeUp()
	}
}

// publishLate publishes the changes whose lag is over, and returns when the next one is, +Inf for never.
func (w *Worker) publishLate() (nextMs float64) {
	nextMs = math.Inf(1)
	for _, r := range w.ranks {
		nextMs = min(nextMs, w.publishLateOf(r))
	}
	return nextMs
}

func (w *Worker) publishLateOf(r *rank) (nextMs float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	nowMs, n := w.nowMs(), 0
	for ; n < len(r.late) && r.late[n].atMs <= nowMs; n++ {
		w.publishCache(r, r.late[n].changes)
	}
	if r.late = r.late[n:]; len(r.late) == 0 {
		r.late = nil // its room is not kept
		return math.Inf(1)
	}
	return r.late[0].atMs
}
