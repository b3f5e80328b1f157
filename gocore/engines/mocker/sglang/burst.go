package sglang

import (
	"slices"

	"dynosim/gocore/engine"
)

// demandOfBursts does what demand does, if all drafts are accepted.
func (s *Scheduler) demandOfBursts() (slots, growth int) {
	for _, r := range s.running {
		burst := min(s.drafts.MaxBurst(), s.remaining(r))
		slots += burst
		growth += s.roundUp(max(0, s.tokens(r)+burst-r.pagesEnd))
	}
	return slots, growth
}

// ampleForBursts reports whether there is room for the largest bursts of all running requests even if each of them
// starts as many pages as it may, and tells how many slots to take. It does not look at every request, but knows only
// if none is about to finish.
func (s *Scheduler) ampleForBursts() (slots int, ok bool) {
	burst := s.drafts.MaxBurst()
	if s.nextFinish-s.emissions < burst {
		return 0, false
	}
	slots = len(s.running) * burst
	available := s.pool.Available()
	return slots, available >= slots && available-s.load.overhead() >= len(s.running)*s.roundUp(burst)
}

// emitBursts gives every running request the burst that it draws, in running order; of the slots taken for that, the
// others go back. A request draws even if it has only one token left. Requests that emit bursts are not in step, so
// each of them is looked at in each pass.
func (s *Scheduler) emitBursts(slots int) {
	s.drawn = slices.Grow(s.drawn[:0], len(s.running))[:len(s.running)]
	s.drafts.Bursts(s.drawn)
	for i, r := range s.running {
		more := min(int(s.drawn[i])-1, s.remaining(r))
		if more > 0 {
			r.finishAt -= more
			s.nextFinish = min(s.nextFinish, r.finishAt)
			s.out.Tokens += more
			s.out.Bursts = append(s.out.Bursts, engine.Burst{ID: r.id, Tokens: 1 + more})
		}
		s.load.tokens += 1 + more
		s.storeBurst(r, i >= s.joined)
	}
	s.pool.GiveBack(slots - s.out.Tokens)
}

// storeBurst caches what the burst of r has completed. The last token of r is left to finishDue. One that has just
// joined, or whose pages others may look for, caches after each token. Others give their holding tokens only when they
// fill a page.
func (s *Scheduler) storeBurst(r *sequence, joined bool) {
	tokens := s.tokens(r)
	for ; r.pagesEnd < tokens; r.pagesEnd += s.pageSize {
		s.load.pages++
	}
	if r.finishAt <= s.emissions {
		tokens--
	}
	now := r.tokenTime(s.emissions)
	switch {
	case joined || r.named:
		for r.holding.Tokens() < tokens {
			s.pool.DecodeOne(&r.holding, now)
		}
	case tokens >= r.holding.Cached()+s.pageSize:
		s.pool.Decode(&r.holding, tokens-r.holding.Tokens(), now)
	}
}
