package vllm

// stallLimit is the number of fruitless passes in a row after which requests are taken to be preempting each other for
// ever. Runs that end by themselves stay far below: among thousands of random runs with tight pools none had more than
// five preemptions between two tokens.
const stallLimit = 10_000

// stall notices two requests that each fit the pool alone but not together and evict each other for ever, at one instant
// of simulated time or, without prefix caching, recomputing for ever. Then only the request that arrived first may be
// admitted until it has emitted a token.
type stall struct {
	passes      int  // fruitless passes in a row
	preemptions int  // in this pass
	alone       bool // only the request with order number first may be admitted
	first       int
}

// watchForStall looks at the pass that has just been run. A pass is fruitless if it emits nothing and either preempts or
// has no effect at all. Computing a long prompt chunk by chunk is neither, even where it takes no time. It reports false
// when not even one request alone gets a token; no valid configuration is known to lead there.
func (s *Scheduler) watchForStall() (alive bool) {
	w := &s.stall
	preemptions := w.preemptions
	w.preemptions = 0
	if s.out.Tokens > 0 || len(s.out.Rejected) > 0 {
		w.passes = 0
		return true
	}
	if preemptions == 0 && !s.out.Idle() {
		return true
	}
	w.passes++
	if w.passes == stallLimit {
		w.alone, w.first = true, s.owned()[0].order
		s.headLacksBlocks = false
	}
	return w.passes <= 2*stallLimit
}

// progressed ends the exclusive turn of r, if it has one: it emitted a token or left.
func (s *Scheduler) progressed(r *sequence) {
	if s.stall.alone && r.order == s.stall.first {
		s.stall.alone = false
		s.headLacksBlocks = false
	}
}

// candidate is the place in the waiting queue of the request that may be admitted next, -1 if there is none.
func (s *Scheduler) candidate() int {
	if s.stall.alone {
		return s.waiting.Index(func(r *sequence) bool { return r.order == s.stall.first })
	}
	return min(0, s.waiting.Len()-1)
}
