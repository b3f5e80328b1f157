package live

import "dynosim/gocore/engine"

// book works out how many tokens each request gets from a pass, and lists them in released.
func (r *rank) book(pass *engine.Pass) {
	r.released = r.released[:0]
	r.preemptions += pass.Preempted
	for _, a := range pass.Admitted {
		if q := r.requests[a.ID]; !q.admitted { // a preempted request is admitted again
			q.admitted = true
			q.cached.Store(int32(a.ReusedTokens))
			r.reused += a.ReusedTokens
			r.countLookup(q, a.ReusedTokens)
		}
	}
	r.tokens.Drafts += pass.CountDrafts(&r.tokens.Accepted)
	find := func(id engine.RequestID) *request { return r.requests[id] }
	for _, s := range r.emitting.Book(pass, find, r.engine.States) {
		r.countTokens(s.Request, s.Tokens)
		r.released = append(r.released, release{request: s.Request, n: s.Tokens})
	}
	for _, id := range pass.Finished {
		if q := r.requests[id]; q.held {
			r.emitting.Drop(q)
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

// countLookup counts a prompt that has been admitted for the first time.
func (r *rank) countLookup(q *request, cached int) {
	if r.traits.CachesPrefixes {
		r.tokens.LookedUp += q.promptTokens
		r.tokens.Cached += cached
	}
}

// countTokens counts n tokens that a request has got.
func (r *rank) countTokens(q *request, n int) {
	if q.state.Emitted == n {
		r.tokens.Prompt += q.promptTokens
	}
	r.tokens.Generated += n
}
