package sglang

import (
	"slices"

	"dynosim/gocore/engine"
)

// compose decides what the next batch is: a prefill if any request is admitted, otherwise one token for every running
// request. Pages are taken and given up at once; tokens come with deliver.
func (s *Scheduler) compose() *batch {
	b := s.newBatch()
	s.receive()
	s.pair()
	if s.pool.Tiered() {
		s.pool.Notice()
	}
	if s.prefetches != nil {
		s.fetched()
		s.seek()
	}
	if c := s.chunked; c != nil {
		s.pool.Share(&c.lease, c.computed, c.promptTokens)
		if s.receiver.prefill { // it leaves the batch before, which does not join whole
			s.full = false
		}
	}
	s.mergePrefilled()
	if s.pool.Windowed() {
		s.full, s.lacks = false, engine.NoLack
	}
	s.composePrefill(b)
	b.lacks = s.lacks
	if len(b.prefills) > 0 {
		if s.pool.Tiered() {
			b.loadEndMs, _ = s.pool.SubmitLoads()
		}
		s.takePages(b)
		s.mixIn(b)
		b.promptMs = float64(s.clock.PrefillSeconds(len(b.prefills), b.islSum, b.prefixSum) * 1000)
		b.ms = b.promptMs + s.tokensMs(b.decodes, b.context) + s.clock.HostMs(len(b.prefills)+b.decodes)
	} else if s.composeDecode(b); b.decodes > 0 {
		b.ms = s.decodeMs(b.decodes, b.context)
	}
	b.inUse = s.inUse()
	if s.pool.Tiered() {
		b.notBeforeMs = s.pool.Clock()
	}
	s.receiver.prefill = len(b.prefills) > 0
	if s.reporting {
		b.work = s.workOf(b)
	}
	return b
}

// mergePrefilled runs the requests whose prompts the batch before completes, and forgets those that have ended. After a
// mixed batch they come before those that decoded in it, as in the batch.
func (s *Scheduler) mergePrefilled() {
	if s.over > 0 {
		s.running = s.withoutOver(s.running)
		s.prefilled = s.withoutOver(s.prefilled)
		s.over = 0
		s.full = false
	}
	if len(s.running) == 0 {
		s.full = false
	}
	for _, r := range s.prefilled {
		s.join(r)
	}
	if s.mixed {
		s.running = append(s.running[len(s.running)-len(s.prefilled):], s.running[:len(s.running)-len(s.prefilled)]...)
		s.mixed, s.full = false, false
	}
	s.prefilled = s.prefilled[:0]
}

func (s *Scheduler) withoutOver(list []*sequence) []*sequence {
	return slices.DeleteFunc(list, func(r *sequence) bool {
		if r.status == over {
			s.stop(r)
			s.drop(r)
			return true
		}
		return false
	})
}

// composePrefill admits a prefill batch: the next part of the chunked request, then the waiting queue from its head
// while all budgets last. The first request that is refused keeps all others waiting.
func (s *Scheduler) composePrefill(b *batch) {
	if (s.full || s.waiting.Len() == 0) && s.chunked == nil {
		return
	}
	seats := s.seats()
	if seats <= 0 && s.chunked == nil {
		s.full = true
		return
	}
	s.orderQueue()
	left := s.newBudget()
	if s.chunked != nil {
		if left.chunk <= 0 { // as many requests run as the chunk has tokens; SGLang is not made for that
			return
		}
		if !s.continueChunked(b, &left) {
			return
		}
		if s.verdict(&left) == overBudget {
			return
		}
	} else if left.input <= 0 || left.chunk <= 0 { // as each running request counts in a mixed batch
		return
	}
	for {
		place := s.next()
		if place == s.waiting.Len() {
			return
		}
		if len(b.prefills) >= seats {
			s.full = true
			return
		}
		switch s.admit(b, &left, place) {
		case noRoom:
			s.full = len(s.running) > 0 || len(b.prefills) > 0
			return
		case overBudget:
			return
		}
	}
}

// seats returns the number of requests that the next prefill batch may have.
func (s *Scheduler) seats() int {
	free := s.args.MaxNumSeqs - s.rows
	if s.chunked != nil {
		free++
	}
	return min(s.args.MaxNumSeqs-len(s.running), free)
}

type verdict uint8

const (
	admitted   verdict = iota
	noRoom             // the pool has none
	overBudget         // the batch is full
)

// admit moves the request at a place of the waiting queue into the prefill batch, or says why not. The verdict on one
// that was admitted is whether another one may follow. The look-up makes what it finds the youngest, also for a request
// that is refused.
func (s *Scheduler) admit(b *batch, left *budget, place int) verdict {
	r := s.waiting.At(place)
	cached := s.pool.Open(&r.lease, r.tokens()-1)
	tokens, output := r.tokens()-cached, s.clipped(r.maxOutput)
	if lack := s.lackOf(left, tokens, s.owed(r)); lack != engine.NoLack {
		s.lacks = lack
		s.pool.Close(&r.lease)
		return noRoom
	}
	if s.floor(left.chunk) == 0 { // before anything is loaded for it
		s.pool.Close(&r.lease)
		return overBudget
	}
	loaded := 0
	if s.pool.Tiered() && s.pool.Load(&r.lease) {
		loaded = s.pool.Cached(&r.lease) - cached
		cached, tokens = cached+loaded, tokens-loaded
	}
	if s.ceil(tokens) > left.chunk {
		tokens, output = s.floor(left.chunk), 0
		s.chunked = r
	}
	if s.pool.Tiered() {
		s.missed += s.pool.Waiting(&r.lease) / s.pageSize
		if r.status == waiting {
			s.found += max(0, loaded-max(0, cached-r.promptTokens))
		}
	}
	s.waiting.Remove(place)
	s.rows++
	r.status, r.computed, r.scheduled = running, cached, r.generated
	s.out.Admitted = append(s.out.Admitted, engine.Admission{ID: r.id, ReusedTokens: min(cached, r.promptTokens)})
	s.charge(left, tokens, output)
	b.add(r, tokens)
	if s.parts != nil {
		b.joined = append(b.joined, r.id)
	}
	return s.verdict(left)
}

// lackOf returns which pool has no room for a request that computes tokens tokens and gets output more.
func (s *Scheduler) lackOf(left *budget, tokens, output int) engine.Lack {
	full := !s.leaves(left, tokens+output+s.pageSize)
	return engine.LackOf(full || !s.leavesWindow(left, s.windowNeed(left, tokens, output)), full)
}

// verdict tells whether the budgets admit anything more.
func (s *Scheduler) verdict(left *budget) verdict {
	switch {
	case !s.leaves(left, 0), !s.leavesWindow(left, 0):
		return noRoom
	case left.input <= 0 || left.chunk <= 0:
		return overBudget
	}
	return admitted
}

// continueChunked computes the next part of the chunked request, which needs no room beyond its own, and reports
// whether it does: in the pool of the layers with a window a page of reserve stays, and without more the request waits.
// It waits, too, if requests that decode in mixed batches have taken its room, of which SGLang would run out.
func (s *Scheduler) continueChunked(b *batch, left *budget) bool {
	r := s.chunked
	limit := left.chunk
	if !s.leaves(left, limit) {
		limit = min(limit, int(s.left(left)))
	}
	if limit <= 0 {
		limit = left.chunk
	}
	if s.pool.Windowed() {
		if limit = min(limit, s.floor(s.pool.WindowAvailable()-s.pageSize)); limit <= 0 {
			s.lacks = engine.OthersLack
			return false
		}
	}
	rest := r.tokens() - r.computed
	tokens, output := min(rest, limit), 0
	if s.ceil(r.computed+tokens)-s.ceil(r.computed) > s.pool.Available() && len(s.running) > 0 {
		return false // those that decode in the same batches have taken its room: they go on without it
	}
	if tokens == rest {
		s.chunked = nil
		output = s.clipped(r.maxOutput)
	}
	s.charge(left, tokens, output)
	b.add(r, tokens)
	return true
}
