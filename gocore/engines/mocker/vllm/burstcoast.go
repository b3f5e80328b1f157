package vllm

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/speculation"
	"dynosim/gocore/timing"
)

// Coasting with speculative decoding (coast.go). How many tokens a request gets is not known before it has drawn, so
// Coast already draws, in a batch that has counts alone. What passes do to the pool is noted, and left to Settle. If
// fewer passes are settled, the generator goes back and the first ones are drawn again.

var _ engine.BurstCoaster = (*Scheduler)(nil)

// mostCoasted bounds the passes of a coast: those that an arrival cuts off have been computed for nothing.
const mostCoasted = 64

// burstCoast is a coast in which requests emit bursts. For the batch, a block ends where the next one has to be opened.
type burstCoast struct {
	allowed bool
	batch   speculation.Batch
	drawn   speculation.Ahead // bursts that were not settled yet
	passes  int
	room    int // of the request that opens a block next
	free    int // blocks without content, at least
	active  int // blocks
	uses    []poolUse
	surplus []engine.Surplus
}

// poolUse is what a pass does to the pool: it sets blocks aside, and the requests with these places in the batch open
// one, in this order.
type poolUse struct {
	aside   int
	openers []int32
}

// CoastWithBursts implements [engine.BurstCoaster].
func (s *Scheduler) CoastWithBursts() { s.bursts.allowed = true }

// Surplus implements [engine.BurstCoaster].
func (s *Scheduler) Surplus() []engine.Surplus { return s.bursts.surplus }

// coastBursts does what Coast does, for an engine that decodes speculatively. It ends before a pass in which a request
// has its last token, or in which there might be too few blocks for the largest bursts.
func (s *Scheduler) coastBursts(nowMs, untilMs float64) []float64 {
	c, ends := &s.bursts, s.coastEnds[:0]
	c.drawn.Abandon(s.drafts)
	if !s.merelyBursts() {
		return nil
	}
	c.drawn.Begin(s.drafts)
	count, capacity := len(s.running), s.pool.Capacity()
	hostMs, decodeMs, active := s.clock.HostMs(count), 0.0, -1
	left, context := s.beginBursts()
	for atMs := nowMs; atMs < untilMs && len(ends) < mostCoasted && left > 1; {
		if active != c.active || s.clock.Model != nil { // the polynomial only looks at the blocks
			active = c.active
			seconds := s.clock.DecodeSeconds(count, context, active<<s.blockShift, capacity<<s.blockShift)
			decodeMs = float64(seconds * 1000)
		}
		endMs := (atMs + hostMs) + decodeMs
		if endMs <= atMs {
			break
		}
		var tokens int
		if tokens, left = s.burstPass(); left <= 0 {
			break
		}
		ends, atMs = append(ends, endMs), endMs
		context += tokens
	}
	s.coastEnds = ends
	return ends
}

// merelyBursts reports whether the next pass gives each running request a burst, and does nothing besides that others
// see.
func (s *Scheduler) merelyBursts() bool {
	if !s.bursts.allowed || s.steady.off || s.role == engine.Prefill || s.trace != nil || s.destinations.MayReserve() {
		return false
	}
	if n := len(s.running); n == 0 || n > s.args.MaxNumBatchedTokens {
		return false
	}
	if s.waiting.Len() > 0 && !s.headLacksBlocks && len(s.running) < s.args.MaxNumSeqs || !timing.Pure(s.clock.Model) {
		return false
	}
	if s.stall.alone || s.stall.overtaking || s.stall.givesUp { // until a request emits a token
		return false
	}
	for _, r := range s.running {
		// it announces blocks that others may have
		if r.lastTokenPass != s.emittingPasses-1 || r.full < r.key.Shareable {
			return false
		}
	}
	return true
}

// beginBursts makes the batch anew, of all running requests, and returns how many tokens the first one to end has left,
// and the tokens of all sequences.
func (s *Scheduler) beginBursts() (left, context int) {
	c := &s.bursts
	c.batch.Reset()
	c.passes, c.uses = 0, c.uses[:0]
	c.active, c.free = s.pool.Active(), s.pool.Free()
	c.room, left = s.blockSize, s.running[0].maxOutput
	for _, r := range s.running {
		remaining := r.maxOutput - r.generated
		room := r.listed<<s.blockShift - r.tokens()
		c.batch.Add(remaining, room)
		left, c.room = min(left, remaining), min(c.room, room)
		context += r.tokens()
	}
	return left, context
}

// burstPass adds a pass to the coast and returns its tokens, and how many the first request to end has left then. If
// that is none, or blocks might be missing, the pass is not added.
func (s *Scheduler) burstPass() (tokens, left int) {
	c := &s.bursts
	aside := 0
	if c.room < s.drafts.MaxBurst() {
		aside = s.blocksOfBatch()
	}
	available := c.free
	if !s.observed { // else evictions are to be told
		available = s.pool.Capacity() - c.active
	}
	if aside > available {
		return 0, 0
	}
	tokens, left, room := c.batch.Pass(s.drafts)
	if left <= 0 {
		c.batch.Undo(s.drafts)
		return 0, 0
	}
	c.passes++
	c.room = room
	if room < 0 || aside > c.free {
		s.noteUse(aside)
	}
	return tokens, left
}

// blocksOfBatch returns the number of blocks that the next pass opens if all drafts are accepted.
func (s *Scheduler) blocksOfBatch() (blocks int) {
	b := &s.bursts.batch
	for i, room := range b.Room {
		if over := min(s.drafts.MaxBurst(), int(b.Left[i])) - int(room); over > 0 {
			blocks += s.ceilBlocks(over)
		}
	}
	return blocks
}

// noteUse notes what the last pass does to the pool.
func (s *Scheduler) noteUse(aside int) {
	c := &s.bursts
	if n := len(c.uses); n < cap(c.uses) { // with the list that it had before
		c.uses = c.uses[:n+1]
	} else {
		c.uses = append(c.uses, poolUse{})
	}
	use := &c.uses[len(c.uses)-1]
	use.aside, use.openers = aside, use.openers[:0]
	c.room = s.blockSize
	for i := range c.batch.Room {
		for c.batch.Room[i] < 0 {
			c.batch.Room[i] += int32(s.blockSize)
			use.openers = append(use.openers, int32(i))
		}
		c.room = min(c.room, int(c.batch.Room[i]))
	}
	c.active += len(use.openers)
	c.free = max(c.free, aside) - len(use.openers)
}

// settleBursts does what Settle does, for an engine that decodes speculatively.
func (s *Scheduler) settleBursts(passes int) {
	c := &s.bursts
	c.surplus = c.surplus[:0]
	if !c.drawn.Keep() { // the engine could not tell
		return
	}
	if passes < c.passes {
		c.drawn.Again(s.drafts)
		s.beginBursts()
		for range passes {
			s.burstPass()
		}
	}
	if passes == 0 {
		return
	}
	s.passes += passes
	s.emittingPasses += passes
	s.stall.passes, s.stall.instant = 0, 0
	s.usePool()
	for i, r := range s.running {
		emitted := r.maxOutput - r.generated - int(c.batch.Left[i])
		r.generated += emitted
		r.lastTokenPass = s.emittingPasses - 1
		r.computed = r.tokens() - 1
		r.allocated = max(r.allocated, r.computed)
		if emitted > passes {
			c.surplus = append(c.surplus, engine.Surplus{ID: r.id, Tokens: emitted - passes})
		}
	}
}

// usePool does to the pool what the passes do.
func (s *Scheduler) usePool() {
	for _, use := range s.bursts.uses {
		if !s.pool.SetAside(use.aside) {
			panic("vllm: blocks that were counted are missing")
		}
		for _, i := range use.openers {
			s.openBlock(s.running[i])
		}
		s.pool.GiveBack()
	}
	if s.observed { // of blocks that only one request can have
		s.pool.TakeEvents()
	}
}
