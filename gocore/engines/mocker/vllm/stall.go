package vllm

import "dynosim/gocore/engine"

// stallLimit is the number of fruitless passes in a row after which requests are taken to be preempting each other for
// ever. Runs that end by themselves stay far below: among thousands of random runs with tight pools none had more than
// five preemptions between two tokens.
const stallLimit = 10_000

// instantLimit is the same for passes of no length where prompts and outputs are computed by different workers. There
// it comes to this often, so it should cost little; among thousands of random runs that end by themselves none had more
// than one such pass between two tokens. Passes with a length may go on until another worker lets go of blocks.
const instantLimit = 100

// stall notices two requests that each fit the pool alone but not together and evict each other for ever, at one
// instant of simulated time or, without prefix caching, recomputing for ever. Then only the request that arrived first
// may be admitted until it has emitted a token.
//
// Where prompts and outputs are computed by different workers, a request can also be in the way of itself: blocks that
// it needs are held by sources, by reservations, or by activated requests behind it in the queue. The last are let past
// it; the others go away in time, so the worker waits for that.
type stall struct {
	passes      int  // fruitless passes in a row
	instant     int  // the last of these that took no time
	preemptions int  // in this pass
	alone       bool // only the request with order number first may be admitted
	first       int
	overtaking  bool // activated requests may be admitted before all others, until a request emits a token
	givesUp     bool // a request that waits for what others may bring along is rejected instead
	stuck       bool // nothing has helped; no pass is worth a try until something has changed from outside
}

// watchForStall looks at the pass that has just been run. A pass is fruitless if it emits nothing and either preempts
// or, on an aggregated worker, has no effect at all; workers of other roles may wait for each other. Computing a long
// prompt chunk by chunk is neither, even where it takes no time. It reports false when not even one request alone gets
// a token. On an aggregated worker no valid configuration is known to lead there.
func (s *Scheduler) watchForStall() (alive bool) {
	w := &s.stall
	preemptions := w.preemptions
	w.preemptions = 0
	s.out.Preempted = preemptions
	if s.out.Tokens > 0 || len(s.out.Rejected) > 0 {
		w.passes, w.instant = 0, 0
		w.overtaking, w.givesUp = false, false
		return true
	}
	if preemptions == 0 && (s.role != engine.Aggregated || !s.out.Idle()) {
		return true
	}
	w.passes++
	w.instant++
	if s.out.EndMs > s.out.StartMs || s.role == engine.Aggregated {
		w.instant = 0
	}
	switch {
	case w.passes < stallLimit && w.instant < instantLimit:
		return true
	case s.destinations.activated > 0:
		w.overtaking = true
		s.lookAgain()
		return true
	case !w.alone:
		w.alone, w.first = true, s.owned()[0].order
		w.passes, w.instant = 0, 0
		s.lookAgain()
		return true
	default:
		w.stuck = true
		return false
	}
}

// Unblock implements [engine.Engine]. A request that was preempted stands at the head of the queue until there is
// room for it; activated requests behind it may hold that room.
func (s *Scheduler) Unblock() bool {
	w := &s.stall
	switch {
	case s.destinations.activated > 0 && !w.overtaking:
		w.overtaking = true
	case s.waiting.Len() > 0 && !w.givesUp:
		w.givesUp = true
	default:
		return false
	}
	s.lookAgain()
	return true
}

// progressed ends the exclusive turn of r, if it has one: it emitted a token or left.
func (s *Scheduler) progressed(r *sequence) {
	if s.stall.alone && r.order == s.stall.first {
		s.stall.alone = false
		s.lookAgain()
	}
}

// candidate returns the place in the waiting queue of the request that may be admitted next, -1 if there is none. While
// others wait for room, as they do if activatedOnly, none of it goes to requests that have not got theirs already.
func (s *Scheduler) candidate(activatedOnly bool) int {
	w := &s.stall
	if activatedOnly || w.overtaking {
		if s.destinations.activated > 0 {
			return s.waiting.Index(func(r *sequence) bool { return r.status == activated })
		}
		if activatedOnly {
			return -1
		}
	}
	if w.alone {
		return s.waiting.Index(func(r *sequence) bool { return r.order == w.first })
	}
	if s.choice.policy != nil && s.waiting.Len() > 1 {
		return s.next()
	}
	return min(0, s.waiting.Len()-1)
}
