package live

import "dynosim/gocore/engine"

// book works out how many tokens each request gets from a pass, and lists them in released.
//
// A pass only says how the set of emitting requests changes: which requests join it and which have finished. A preempted one
// leaves without a word, so the number of tokens is too small. Then the engine is asked how many tokens each request has.
func (r *rank) book(pass *engine.Pass) {
	r.released = r.released[:0]
	r.preemptions += pass.Preempted
	for _, a := range pass.Admitted {
		if q := r.requests[a.ID]; !q.admitted { // a preempted request is admitted again
			q.admitted = true
			r.reused += a.ReusedTokens
			r.countLookup(q, a.ReusedTokens)
		}
	}
	for _, single := range pass.Singles {
		q := r.requests[single.ID]
		r.fallSilent(q) // until it joins the set again
		r.give(q, 1)
	}
	if pass.Tokens > 0 && len(pass.Singles) == 0 {
		for _, run := range pass.Started {
			if q := r.requests[run.ID]; q.place == notEmitting {
				q.place = len(r.emitting)
				r.emitting = append(r.emitting, q)
			}
		}
		extra := 0
		for _, b := range pass.Bursts {
			extra += b.Tokens - 1
		}
		if pass.Tokens == len(r.emitting)+extra {
			r.bookAll(pass)
		} else {
			r.bookEach(pass)
		}
	}
	for _, id := range pass.Finished {
		if q := r.requests[id]; q.held {
			r.fallSilent(q)
			r.computed = append(r.computed, q)
		} else {
			r.end(q)
		}
	}
	for _, rejection := range pass.Rejected {
		q := r.requests[rejection.ID]
		r.end(q)
		r.released = append(r.released, release{request: q, failure: "request rejected: " + rejection.Reason})
	}
}

// bookAll gives each emitting request one token, and those with bursts more.
func (r *rank) bookAll(pass *engine.Pass) {
	for _, q := range r.emitting {
		r.give(q, 1)
	}
	for _, b := range pass.Bursts {
		r.give(r.requests[b.ID], b.Tokens-1)
	}
}

// bookEach gives each request the tokens that it has according to the engine, and takes those that got none out of the set.
func (r *rank) bookEach(pass *engine.Pass) {
	if r.generated == nil {
		r.generated = map[engine.RequestID]int{}
	}
	clear(r.generated)
	for _, s := range r.engine.States() {
		r.generated[s.ID] = s.Generated
	}
	for _, id := range pass.Finished {
		r.generated[id] = len(r.requests[id].output.tokens)
	}
	kept := r.emitting[:0]
	for _, q := range r.emitting {
		if n := r.generated[q.id] - q.emitted; n > 0 {
			r.give(q, n)
			q.place = len(kept)
			kept = append(kept, q)
		} else {
			q.place = notEmitting
		}
	}
	clear(r.emitting[len(kept):])
	r.emitting = kept
}

func (r *rank) give(q *request, n int) {
	r.countTokens(q, n)
	q.emitted += n
	r.released = append(r.released, release{request: q, n: n})
}
