package vllm

import (
	"slices"

	"dynosim/gocore/engine"
)

// emitBursts does what emit does, for an engine that decodes speculatively: every ready request gets as many tokens as
// it draws.
//
// The blocks that the largest possible bursts would open are set aside first, for all requests together; nothing is
// emitted before that has worked out, so no request loses its turn half-way. The decode time is that of the requests
// that are left then, without what was set aside for them.
func (s *Scheduler) emitBursts(decodeStartMs float64) {
	s.out.EndMs = decodeStartMs
	s.findReady()
	for !s.pool.SetAside(s.blocksOfBursts()) {
		s.preemptWhileEmitting()
		s.findReady()
	}
	if len(s.ready) > 0 {
		s.endAfter(decodeStartMs, float64(s.decodeSeconds()*1000))
		s.drawn = slices.Grow(s.drawn[:0], len(s.ready))[:len(s.ready)]
		s.drafts.Bursts(s.drawn)
		for i, r := range s.ready {
			s.emitBurst(r, int(s.drawn[i]))
		}
		s.emittingPasses++
	}
	s.pool.GiveBack()
	if len(s.leaving) > 0 {
		s.removeGone()
	}
}

// blocksOfBursts returns the number of blocks that the ready requests open if all their drafts are accepted.
func (s *Scheduler) blocksOfBursts() (blocks int) {
	for _, r := range s.ready {
		burst := min(s.drafts.MaxBurst(), r.maxOutput-r.generated)
		blocks += s.ceilBlocks(r.tokens()+burst) - s.ceilBlocks(r.tokens())
	}
	return blocks
}

// emitBurst gives r what it has drawn, as far as it has tokens left. Of all tokens but the last the KV is computed.
func (s *Scheduler) emitBurst(r *sequence, drawn int) {
	burst := min(drawn, r.maxOutput-r.generated)
	if s.goesUnnoticed(r, burst) {
		r.generated += burst
		r.lastTokenPass = s.emittingPasses
		s.out.Tokens += burst
		s.progressed(r)
	} else {
		for range burst {
			s.emitToken(r)
		}
	}
	r.computed = r.tokens() - 1
	r.allocated = max(r.allocated, r.computed)
	if burst > 1 {
		s.out.Bursts = append(s.out.Bursts, engine.Burst{ID: r.id, Tokens: burst})
	}
}

// goesUnnoticed reports whether the next tokens tokens of r only make it longer: they open no block, none of them is
// its last, and it emitted in the emitting pass before.
func (s *Scheduler) goesUnnoticed(r *sequence, tokens int) bool {
	inBlock := r.tokens() & (s.blockSize - 1) // 0: the next token opens one
	return inBlock > 0 && inBlock+tokens <= s.blockSize && r.generated+tokens < r.maxOutput &&
		r.lastTokenPass == s.emittingPasses-1
}
