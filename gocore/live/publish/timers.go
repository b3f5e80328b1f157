package publish

import (
	"time"

	"dynosim/gocore/live/publish/events"
)

// keepTime sends what is due, until the worker is closed.
func (w *Worker) keepTime() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-w.wake:
		case <-timer.C:
		}
		next := min(w.sendDue(), w.publishLate())
		timer.Reset(time.Duration((next - w.nowMs()) * float64(time.Millisecond)))
	}
}

// sendDue sends what is due now, and returns when the next message is due.
func (w *Worker) sendDue() (nextMs float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	nowMs := w.nowMs()
	for i, r := range w.ranks {
		if used, publish := r.gauge.Take(nowMs); publish {
			l := events.ActiveLoad{WorkerID: r.workerID, DPRank: r.id, KVUsedBlocks: &used}
			w.loads.publish(l.Append)
		}
		if f, due := r.counter.Heartbeat(nowMs); due {
			w.passes.publish(f.Append)
		}
		dueMs := r.counter.DueMs()
		if loadMs, pending := r.gauge.DueMs(); pending {
			dueMs = min(dueMs, loadMs)
		}
		if i == 0 || dueMs < nextMs {
			nextMs = dueMs
		}
	}
	return nextMs
}
