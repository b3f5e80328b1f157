package sglang

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/speculation"
)

// Coasting with speculative decoding. How many tokens a request gets is not known before it has drawn, so Coast already
// draws, in a batch that has counts alone. If fewer passes are settled, the generator goes back and the first ones are
// drawn again.

var _ engine.BurstCoaster = (*Scheduler)(nil)

// burstCoast is a coast in which requests emit bursts. For the batch, a block ends where the next page is full.
type burstCoast struct {
	allowed bool
	batch   speculation.Batch
	drawn   speculation.Ahead // bursts that were not settled yet
	passes  []burstPass
	filled  []int32 // by place in the batch: the last pass in which a page became full, from 1 on; 0 for none
	surplus []engine.Surplus
}

// burstPass is the slots that a pass takes, and what it needs of them.
type burstPass struct{ slots, tokens int }

// CoastWithBursts implements [engine.BurstCoaster].
func (s *Scheduler) CoastWithBursts() { s.bursts.allowed = true }

// Surplus implements [engine.BurstCoaster].
func (s *Scheduler) Surplus() []engine.Surplus { return s.bursts.surplus }

// coastBursts does what Coast does, for an engine that decodes speculatively. It ends before a pass in which a request
// has its last token, or in which there might be too few slots for the largest bursts.
func (s *Scheduler) coastBursts(nowMs, untilMs float64) []float64 {
	ends, count := s.coastEnds[:0], len(s.running)
	available := s.pool.Available()
	if s.observed { // evictions are to be told
		available = s.pool.Free()
	}
	growth := count * (s.roundUp(s.drafts.MaxBurst()) + s.pageSize) // last pages may have up to a page left
	total, tokens, hostMs := s.pool.Total(), s.load.tokens, s.clock.HostMs(count)
	s.bursts.drawn.Abandon(s.drafts)
	s.bursts.drawn.Begin(s.drafts)
	left := s.beginBursts()
	for atMs := nowMs; atMs < untilMs && len(ends) < mostCoasted && left > 1 && available >= growth; {
		seconds := s.clock.DecodeSeconds(count, tokens, min(tokens, total), total)
		endMs := atMs + float64(seconds*1000)
		endMs += hostMs
		if endMs <= atMs {
			break
		}
		before := tokens
		if left = s.burstPass(left, &tokens); left <= 0 {
			break
		}
		ends, atMs = append(ends, endMs), endMs
		available -= tokens - before
	}
	s.coastEnds = ends
	return ends
}

// beginBursts makes the batch anew, of all running requests, and returns how many tokens the first one to end has left.
func (s *Scheduler) beginBursts() (left int) {
	c := &s.bursts
	c.batch.Reset()
	c.passes, c.filled = c.passes[:0], c.filled[:0]
	left = s.remaining(s.running[0])
	for _, r := range s.running {
		c.batch.Add(s.remaining(r), s.pageSize-s.tokens(r)%s.pageSize)
		c.filled = append(c.filled, 0)
		left = min(left, s.remaining(r))
	}
	return left
}

// burstPass adds a pass to the coast, before which the first request to end has left tokens left, and returns how many
// it has then. If that is none, the pass is taken back.
func (s *Scheduler) burstPass(left int, tokens *int) int {
	c := &s.bursts
	most := s.drafts.MaxBurst()
	pass := burstPass{slots: len(s.running) * most}
	if left < most {
		pass.slots = c.batch.MostTokens(most)
	}
	emitted, left, room := c.batch.Pass(s.drafts)
	if left <= 0 {
		c.batch.Undo(s.drafts)
		return left
	}
	pass.tokens = emitted
	c.passes = append(c.passes, pass)
	*tokens += emitted
	if room <= 0 {
		s.fillPages()
	}
	return left
}

// fillPages notes which requests have filled a page in the last pass.
func (s *Scheduler) fillPages() {
	c := &s.bursts
	for i, room := range c.batch.Room {
		if room > 0 {
			continue
		}
		for ; room <= 0; room += int32(s.pageSize) {
		}
		c.batch.Room[i] = room
		c.filled[i] = int32(len(c.passes))
	}
}

// settleBursts does what Settle does, for an engine that decodes speculatively.
func (s *Scheduler) settleBursts(passes int) {
	c := &s.bursts
	c.surplus = c.surplus[:0]
	if !c.drawn.Keep() { // the engine could not tell
		return
	}
	s.drawAgain(passes)
	if passes == 0 {
		return
	}
	s.takeSlots()
	first := s.emissions
	s.emissions += passes
	s.uses = 0
	s.rescue.emitted()
	s.nextFinish = s.emissions + int(c.batch.Left[0])
	for i, r := range s.running {
		emitted := s.settleBurst(r, i, first)
		if more := emitted - passes; more > 0 {
			c.surplus = append(c.surplus, engine.Surplus{ID: r.id, Tokens: more})
		}
		s.nextFinish = min(s.nextFinish, r.finishAt)
	}
}

// drawAgain shortens the coast to its first passes.
func (s *Scheduler) drawAgain(passes int) {
	c := &s.bursts
	if passes == len(c.passes) {
		return
	}
	c.drawn.Again(s.drafts)
	left, tokens := s.beginBursts(), 0
	for range passes {
		left = s.burstPass(left, &tokens)
	}
}

// takeSlots takes slots as the passes do one after the other: what they evict depends on the largest bursts.
func (s *Scheduler) takeSlots() {
	for _, pass := range s.bursts.passes {
		if !s.pool.Take(pass.slots) {
			panic("sglang: slots that were counted are missing")
		}
		s.pool.GiveBack(pass.slots - pass.tokens)
		s.load.tokens += pass.tokens
		s.ratio.next(false)
	}
}

// settleBurst gives r, which has place i, its tokens of the emitting passes after first, and returns how many those
// are.
func (s *Scheduler) settleBurst(r *sequence, i, first int) (emitted int) {
	c := &s.bursts
	left := int(c.batch.Left[i])
	emitted = r.finishAt - first - left
	r.finishAt = s.emissions + left
	tokens := s.tokens(r)
	for ; r.pagesEnd < tokens; r.pagesEnd += s.pageSize {
		s.load.pages++
	}
	if c.filled[i] > 0 {
		s.pool.Decode(&r.holding, tokens-r.holding.Tokens(), r.tokenTime(first+int(c.filled[i])))
	}
	return emitted
}
