package vllm

import "dynosim/gocore/engine"

type outcome uint8

const (
	scheduled     outcome = iota
	selfPreempted         // became the victim of its own need for a block
	blocked               // no budget for it in this pass
)

// serveRunning gives every running request its next chunk or its next token, in admission order, while budget lasts.
//
// The index moves on after each request served. When a FIFO victim stood before it, the list has shifted and the next
// request is skipped in this pass. The real scheduler does so too, and users' numbers depend on it.
func (s *Scheduler) serveRunning() {
	s.steady.serve()
	for i := s.steady.size; i < len(s.running) && s.budget > 0; {
		switch s.serve(s.running[i], 0) {
		case scheduled:
			i++
		case blocked:
			return
		}
	}
}

// serve schedules as many tokens of r as the budget allows and takes their blocks, preempting others if it must. hit is
// the number of prompt tokens found in the cache, for a request that has nothing computed.
func (s *Scheduler) serve(r *sequence, hit int) outcome {
	before := r.computed + hit
	promptBefore := min(before, r.promptTokens)
	promptLeft := r.promptTokens - promptBefore
	if !s.args.ChunkedPrefill && promptLeft > s.budget {
		return blocked
	}
	remaining := max(0, r.tokens()-before)
	take := min(remaining, s.budget)
	if take == 0 && remaining > 0 {
		return blocked
	}
	after := before + take
	if !s.allocate(r, after) {
		return selfPreempted
	}
	r.computed = after
	r.share = share{
		pass:         s.passes,
		tokens:       take,
		promptTokens: min(after, r.promptTokens) - promptBefore,
		promptBefore: promptBefore,
	}
	s.count(r, +1)
	s.parts.Compute(r.id, r.share.promptBefore, r.share.promptTokens)
	if r.status != running {
		if r.status == activated {
			s.destinations.activated--
		}
		r.status = running
		r.place = s.admissions
		s.admissions++
		s.running = append(s.running, r)
		s.out.Admitted = append(s.out.Admitted, engine.Admission{ID: r.id, ReusedTokens: hit})
		s.parts.Join(r.id)
	}
	return scheduled
}

// allocate makes r hold the blocks of its first tokens tokens. It preempts until they fit and reports false if r itself
// was the victim.
func (s *Scheduler) allocate(r *sequence, tokens int) bool {
	for tokens > r.allocated {
		from, to := s.blocksFor(r, r.allocated), s.blocksFor(r, tokens)
		if to > from {
			s.ids = r.appendBlocks(s.ids[:0], from, to)
			slots, ok := s.pool.Use(r.slots, s.ids)
			r.slots = slots
			if !ok {
				if s.preemptWhileServing() == r {
					return false
				}
				continue
			}
			s.tookShareable()
		}
		r.allocated = tokens
	}
	return true
}

// count adds (sign +1) or takes back (-1) the share of r in the totals of this pass.
func (s *Scheduler) count(r *sequence, sign int) {
	s.out.Scheduled += sign
	s.budget -= sign * r.share.tokens
	if r.share.promptTokens > 0 {
		s.prefillCount += sign
		s.prefillISL += sign * (r.share.promptBefore + r.share.promptTokens)
		s.prefillStart += sign * r.share.promptBefore
	}
}
