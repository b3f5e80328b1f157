package vllm

import (
	"slices"

	"dynosim/gocore/engine"
)

// serveRunning gives running requests their next chunk or token, in admission order, while the budget lasts, and
// returns what is left of it.
//
// A request that lacks blocks preempts the one admitted last, again and again, until it has them or was preempted
// itself, which ends this phase. The requests it preempts stand behind it: none of them has been served in this pass.
func (s *Scheduler) serveRunning(b *batch) (budget int) {
	budget = s.args.MaxNumBatchedTokens
	from := 0
	if s.steady.serve(b) {
		from = s.steady.prefix
		budget -= b.scheduled
	}
	for i := from; i < len(s.running) && budget > 0; i++ {
		r := s.running[i]
		if r.ending() || s.interval.held && r.midPrompt {
			continue
		}
		tokens := min(b.bounded(r.tokens()+r.inFlight()-r.computed), budget)
		if tokens = s.chunk(r, r.computed, tokens); tokens == 0 {
			continue
		}
		s.trim(r)
		for computed := r.computed; !s.take(r, computed+tokens); {
			if s.sparesFromPreemption(s.running[len(s.running)-1]) {
				return budget
			}
			if s.preemptLast(b) == r {
				if i == 0 && len(s.pulls.held)+len(s.pulls.lost) == 0 { // these give their blocks back one day
					r.tried(computed)
				}
				return budget
			}
		}
		budget -= tokens
		b.prompts = b.prompts || r.midPrompt
		s.serve(b, r, tokens)
	}
	return budget
}

// bounded returns how many of the remaining tokens of a request the pass may compute.
func (b *batch) bounded(remaining int) int {
	if b.threshold > 0 {
		return min(remaining, b.threshold)
	}
	return remaining
}

// serve notes that the batch computes the next tokens tokens of r, whose blocks r holds.
func (s *Scheduler) serve(b *batch, r *sequence, tokens int) {
	r.share = share{start: r.computed, tokens: tokens}
	r.computed += tokens
	r.servedIn = b.number
	s.register(r, min(r.computed, r.tokens()))
	b.scheduled++
	b.computes += tokens
	if r.prefills(b) {
		d := &b.durations
		d.prefillCount++
		d.prefillISL += min(r.computed, r.promptTokens)
		d.prefillStart += r.share.start
		b.explained.Compute(r.id, r.share.start, min(r.computed, r.promptTokens)-r.share.start)
	}
	r.midPrompt = r.computed < r.tokens()+r.inFlight()
	if !r.midPrompt {
		b.durations.context += r.computed
		if r.prefills(b) {
			b.durations.ended++
			b.durations.endedContext += r.computed
		}
		r.scheduled++
		r.deliveredIn = b.number
		b.emitting = append(b.emitting, r)
	}
}

// preemptLast takes all blocks from the running request that was admitted last and puts it at the front of the waiting
// queue. Its tokens stay, and so does one that a pass in flight delivers; their KV is lost but for what stays
// registered.
func (s *Scheduler) preemptLast(b *batch) *sequence {
	s.steady.clear()
	last := len(s.running) - 1
	r := s.running[last]
	s.running = s.running[:last]
	if s.offload != nil {
		s.offload.preempted(r)
	}
	s.lose(r)
	r.status, r.computed = preempted, 0
	s.waiting.PushFront(r)
	if s.parts != nil {
		s.lost = append(s.lost, r)
	}
	b.preempted++
	s.out.Preempted++
	return r
}

// admitWaiting moves requests from the head of the waiting queue into the running list. The first that does not fit
// keeps all others waiting.
func (s *Scheduler) admitWaiting(b *batch, budget int) {
	budget = s.admitLoaded(b, budget)
	if !s.headWaits {
		s.use.lacks = engine.NoLack
	}
	for budget > 0 && len(s.running) < s.rules.MaxActiveSeqs && s.waiting.Len() > 0 && !s.headWaits {
		r := s.waiting.Front()
		if reason := s.cannotEverRun(r); reason != "" {
			s.waiting.PopFront()
			s.out.Rejected = append(s.out.Rejected, engine.Rejection{ID: r.id, Reason: reason})
			s.forget(r)
			continue
		}
		hit := s.findPrefix(r)
		if r.pull {
			if !s.load(r, hit) {
				return
			}
			continue
		}
		cached := hit.blocks * s.blockSize
		left := r.tokens() - cached
		if s.interval.held && left > 1 {
			return
		}
		tokens := b.bounded(left)
		if !s.args.ChunkedPrefill && tokens > budget {
			return
		}
		tokens = s.chunk(r, cached, min(tokens, budget))
		if tokens == 0 || hit.fresh {
			return
		}
		if !s.hasRoom(r, cached+tokens, hit) {
			if s.neverFits(r) {
				continue
			}
			return
		}
		s.waiting.PopFront()
		s.admit(r, hit)
		if !s.take(r, cached+tokens) {
			panic("vllm: a request that fits the pool does not get its blocks")
		}
		budget -= tokens
		b.prompts = b.prompts || left > 1
		s.serve(b, r, tokens)
	}
}

// findPrefix finds the leading blocks of r that are registered. At least one token of r is always computed, so the
// block that holds its last token is not looked up.
func (s *Scheduler) findPrefix(r *sequence) (p prefix) {
	if !s.args.PrefixCaching {
		return p
	}
	for limit := s.wholeBlocks(r.tokens() - 1); p.blocks < limit; p.blocks++ {
		_, inUse, ok := s.pool.Find(r.key.Block(p.blocks))
		if !ok {
			break
		}
		if inUse {
			p.held++
		}
	}
	if s.groups.Beside > 0 {
		long := p.blocks
		s.cut(r, &p)
		for i := p.blocks; i < long; i++ {
			if _, inUse, _ := s.pool.Find(r.key.Block(i)); inUse {
				p.held--
			}
		}
	}
	return p
}

// hasRoom reports whether the blocks of all tokens that r has are free, and those of the first now tokens; blocks that
// other requests hold cost nothing.
func (s *Scheduler) hasRoom(r *sequence, now int, hit prefix) bool {
	free := s.freeAbove()
	whole, part := s.ceilBlocks(r.tokens()), s.ceilBlocks(now)
	if s.groups.Beside > 0 {
		wholeNeed := whole - hit.held + s.neededBeside(hit, s.mostWindow(whole))
		partNeed := part - hit.held + s.neededBeside(hit, part)
		s.waitBeside(whole-hit.blocks, s.mostWindow(whole)-hit.blocks, s.pool.Free()-free)
		need, full := partNeed, part
		if s.rules.ReserveFullISL {
			need, full = max(wholeNeed, partNeed), whole
		}
		s.use.lacks = engine.LackOf(need > free, full-hit.held > free)
		return need <= free
	}
	if s.rules.ReserveFullISL && whole-hit.held > free {
		s.headWaits = true
		return false
	}
	return part-hit.held <= free
}

// freeAbove returns the number of free blocks above the watermark, which is kept free while any request runs.
func (s *Scheduler) freeAbove() int {
	free := s.pool.Free()
	if len(s.running) > 0 {
		free -= int(s.args.Watermark * float64(s.pool.Capacity()+1))
	}
	return free
}

// admit makes r run with the blocks of its prefix that are registered.
func (s *Scheduler) admit(r *sequence, hit prefix) {
	s.hold(r, hit)
	if s.groups.Beside > 0 {
		s.holdBeside(r, hit)
	}
	r.computed = hit.blocks * s.blockSize
	s.run(r, min(r.computed, r.promptTokens))
}

// hold makes r hold the blocks of its prefix that are registered.
func (s *Scheduler) hold(r *sequence, hit prefix) {
	r.registered = slices.Grow(r.registered[:0], hit.blocks)
	for i := range hit.blocks {
		slot, _, _ := s.pool.Find(r.key.Block(i))
		s.pool.Hold(slot)
		r.registered = append(r.registered, slot)
	}
}

// run puts r, of whose prompt reused tokens were found, at the end of the running list.
func (s *Scheduler) run(r *sequence, reused int) {
	r.scheduled = r.generated
	r.status = running
	r.place = s.admissions
	s.admissions++
	s.running = append(s.running, r)
	s.out.Admitted = append(s.out.Admitted, engine.Admission{ID: r.id, ReusedTokens: reused})
	s.composing.explained.Join(r.id)
}
