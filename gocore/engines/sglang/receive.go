package sglang

// receiver decides when the scheduler looks for new requests. With scheduler_recv_interval N it does so when it has
// composed N decode batches, or empty ones, since it last did, and after each prefill batch; this is how SGLang 0.5
// weighs batches by default (its variables SGLANG_SCHEDULER_RECV_SKIPPER_WEIGHT_*). A server without any request looks
// all the time.
//
//	interval 3, composed   P  D  D  D  D  D  D  P  D
//	looks before           .  x  -  -  x  -  -  x  x      x: new requests may join the batch
type receiver struct {
	interval int
	skipped  int  // decode batches and empty ones, composed since it looked
	prefill  bool // the batch composed last is a prefill
}

// looks tells, when a batch is about to be composed, whether the scheduler looks for new requests first.
func (r *receiver) looks(idle bool) bool {
	r.skipped++
	if r.skipped >= r.interval || r.prefill || idle {
		r.skipped = 0
		return true
	}
	return false
}

// skips returns how many of the next batches are composed without a look if the one before and they are decode batches.
func (r *receiver) skips() int {
	if r.prefill {
		return 0
	}
	return r.interval - r.skipped - 1
}

// composed counts decode batches that were composed in one go.
func (r *receiver) composed(batches int) {
	r.skipped = (r.skipped + batches) % r.interval
}

// receive moves the requests that have come since the scheduler last looked into the waiting queue.
func (s *Scheduler) receive() {
	if s.receiver.interval == 1 {
		return // Add lets them join at once
	}
	if !s.receiver.looks(s.rows == 0 && s.waiting.Len() == 0) {
		return
	}
	for s.unread.Len() > 0 {
		s.queue(s.unread.PopFront())
	}
}
