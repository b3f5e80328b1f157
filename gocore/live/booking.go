package live

import "dynosim/gocore/engine"

// book works out how many tokens each request gets from a pass, and lists them in released.
func (r *runner) book(pass *engine.Pass) {
	r.released = r.released[:0]
	for i, k := range r.ranks {
		part := r.part(i, pass)
		k.preemptions += part.Preempted
		k.tokens.Drafts += part.CountDrafts(&k.tokens.Accepted)
	}
	for _, a := range pass.Admitted {
		if q := r.requests[a.ID]; !q.admitted { // a preempted request is admitted again
			q.admitted = true
			q.cached.Store(int32(a.ReusedTokens))
			q.rank.Load().reused += a.ReusedTokens
			r.countLookup(q, a.ReusedTokens)
		}
	}
	find := func(id engine.RequestID) *request { return r.requests[id] }
	for _, s := range r.emitting.Book(pass, find, r.engine.States) {
		s.Request.countTokens(s.Tokens)
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
func (r *runner) countLookup(q *request, cached int) {
	if tokens := &q.rank.Load().tokens; r.traits.CachesPrefixes {
		tokens.LookedUp += q.promptTokens
		tokens.Cached += cached
	}
}

// countTokens counts n tokens that a request has got.
func (q *request) countTokens(n int) {
	tokens := &q.rank.Load().tokens
	if q.state.Emitted == n {
		tokens.Prompt += q.promptTokens
	}
	tokens.Generated += n
}
