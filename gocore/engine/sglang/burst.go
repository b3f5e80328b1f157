package sglang

import "dynosim/gocore/engine"

// demandOfBursts is demand if all drafts are accepted.
func (s *Scheduler) demandOfBursts() (slots, growth int) {
	for _, r := range s.running {
		burst, tokens := min(s.drafts.MaxBurst(), s.remaining(r)), s.tokens(r)
		slots += burst
		growth += s.roundUp(tokens+burst) - s.roundUp(tokens)
	}
	return slots, growth
}

// emitBursts adds to the one token of every running request what it draws, and gives it all of them, in running order; of
// the slots taken for that, the others go back. A request draws even if it has only one token left. Who emits bursts is
// not in step with the others, so that nobody is left behind here to be brought up to date later.
func (s *Scheduler) emitBursts(slots int) {
	for _, r := range s.running {
		if more := min(s.drafts.Burst()-1, s.remaining(r)); more > 0 {
			s.hasten(r, more)
			s.out.Tokens += more
			s.out.Bursts = append(s.out.Bursts, engine.Burst{ID: r.id, Tokens: 1 + more})
		}
		s.storeBurst(r)
	}
	s.pool.GiveBack(slots - s.out.Tokens)
}

// hasten brings the end of r nearer by tokens emitting passes.
func (s *Scheduler) hasten(r *sequence, tokens int) {
	length := s.tokens(r)
	r.finishAt -= tokens
	s.nextFinish = min(s.nextFinish, r.finishAt)
	s.load.count(length, -1)
	s.load.count(length+tokens, +1)
}

// storeBurst caches after each token. The last one of r is left to finishDue.
func (s *Scheduler) storeBurst(r *sequence) {
	tokens := s.tokens(r)
	if r.finishAt <= s.emissions {
		tokens--
	}
	for r.holding.Tokens() < tokens {
		s.pool.DecodeOne(&r.holding, r.tokenTime(s.emissions))
	}
}
