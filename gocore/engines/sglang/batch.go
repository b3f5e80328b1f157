package sglang

import (
	"slices"

	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/internal/transit"
)

// batch is one pass: a prefill or a decode or, with mixed chunks, both.
type batch struct {
	prefills []prefill
	// decodes is the number of requests that have a token computed, tokens that of those which are to get it: others
	// were retracted since. fresh are those of them whose first token from a decode it is, ends those whose last one,
	// in batch order.
	decodes, tokens int
	fresh, ends     []*sequence
	number          int // of a decode, see Scheduler.composed

	islSum, prefixSum int // over prefills
	computes          int // tokens of prefills
	context           int // lengths of the sequences that decode
	inUse             int // pages
	retracted         int
	stuck             bool // the only running request has no room for its next token
	lacks             engine.Lack
	ms                float64
	startMs           float64 // set when it runs
	promptMs          float64 // of ms, if the batch has prefills
	// With a host tier: the batch starts no earlier and, unless it is 0, ends no earlier.
	notBeforeMs, loadEndMs float64
	work                   engine.Phases
	joined, lost           []engine.RequestID // admitted, retracted; empty unless passes are to be explained
}

// prefill is the share of a request in a prefill batch.
type prefill struct {
	request    *sequence
	start, end int  // tokens computed before and after the batch
	partial    bool // there is more to compute
}

func (b *batch) empty() bool { return len(b.prefills) == 0 && b.decodes == 0 }

func (s *Scheduler) newBatch() *batch {
	b := s.spares.Take()
	*b = batch{prefills: b.prefills[:0], fresh: b.fresh[:0], ends: b.ends[:0], joined: b.joined[:0], lost: b.lost[:0]}
	return b
}

// add makes r compute its next tokens tokens.
func (b *batch) add(r *sequence, tokens int) {
	p := prefill{request: r, start: r.computed, end: r.computed + tokens}
	r.computed = p.end
	b.islSum += p.end
	b.prefixSum += p.start
	b.computes += tokens
	b.prefills = append(b.prefills, p)
}

// takePages makes room for a whole prefill batch at once. The requests whose prompt it completes get a token from it.
func (s *Scheduler) takePages(b *batch) {
	slots := b.computes
	if s.pageSize > 1 {
		slots += s.pageSize * len(b.prefills)
	}
	s.pool.MakeRoom(slots)
	for i := range b.prefills {
		p := &b.prefills[i]
		r := p.request
		s.pool.Grow(&r.lease, r.computed)
		if p.partial = r == s.chunked; !p.partial && !s.sends.on {
			r.scheduled++
			r.listed = true
			s.prefilled = append(s.prefilled, r)
		}
	}
}

// decodeMs returns how long a batch takes that gives a token to each of this number of requests.
func (s *Scheduler) decodeMs(count, context int) float64 {
	return s.tokensMs(count, context) + s.clock.HostMs(count)
}

// tokensMs returns decodeMs without the time of the host.
func (s *Scheduler) tokensMs(count, context int) float64 {
	total := s.pool.Total()
	return float64(s.clock.DecodeSeconds(count, context, min(context, total), total) * 1000)
}

// inUse returns the number of pages that requests need.
func (s *Scheduler) inUse() int { return (s.pool.Total() - s.pool.Available()) / s.pageSize }

// deliver carries out a batch.
func (s *Scheduler) deliver(b *batch) {
	s.run(b)
	s.results(b, s.out.EndMs)
}

// run says when a batch starts and ends.
func (s *Scheduler) run(b *batch) {
	b.startMs, s.out.EndMs = s.out.StartMs, s.out.StartMs+b.ms
	if s.pool.Tiered() {
		b.startMs = max(b.startMs, b.notBeforeMs)
		s.out.EndMs = max(b.startMs+b.ms, b.loadEndMs)
	}
}

// results gives each request of a batch its token, if one is due and it was not retracted since, and ends those that
// have their last one. Computed prompts enter the tree, and are copied to the host from atMs on: the end of the batch
// or, of ranks, that of the slowest. Of requests that decode it looks only at those whose first or last token from a
// decode this is (roll.go).
func (s *Scheduler) results(b *batch, atMs float64) {
	if s.pool.Tiered() {
		s.pool.Tell(atMs)
	}
	s.out.Scheduled = len(b.prefills) + b.decodes
	s.work = b.work
	s.waits.Wait(b.lacks, b.ms)
	s.explain(b)
	completed := &s.out.Singles
	if b.decodes > 0 || s.emits {
		// a mixed batch, or one beside decodes of other ranks: they decode on with the others
		completed = &s.out.Started
	}
	for _, p := range b.prefills {
		if s.sends.on {
			s.sendOn(p)
		} else if !p.partial && p.request.status == running {
			*completed = append(*completed, engine.TokenRun{ID: p.request.id, Index: p.request.generated})
			s.emit(p.request)
			if p.request.status != over {
				s.pool.Share(&p.request.lease, p.end, p.request.promptTokens)
			}
		}
	}
	if b.decodes > 0 {
		s.deliverDecode(b)
	}
	if s.pool.Tiered() {
		s.pool.SubmitStores()
	}
	s.tell(b)
}

// tell describes a pass to whatever listens.
func (s *Scheduler) tell(b *batch) {
	if s.shapes == nil || b.empty() {
		return
	}
	s.shapes(engine.Shape{
		StartMs: b.startMs, EndMs: s.out.EndMs,
		PrefillRequests: len(b.prefills), ISLSum: b.islSum, PrefixSum: b.prefixSum,
		DecodeRequests: b.decodes, ContextSum: b.context,
		InUse: b.inUse, ComputedTokens: b.computes + b.decodes, PreemptedRequests: b.retracted,
	})
}

// emit appends a token to r that comes from a prefill.
func (s *Scheduler) emit(r *sequence) {
	s.out.Tokens++
	r.generated++
	if r.runs {
		s.roll.owed--
	}
	last := r.generated == r.maxOutput
	if s.observed && (r.generated == 1 || last) {
		s.out.Signals = append(s.out.Signals, engine.Signal{ID: r.id, Final: last})
	}
	if last {
		s.finish(r)
	}
}

// deliverDecode appends a token to each request that a decode has computed one for.
func (s *Scheduler) deliverDecode(b *batch) {
	s.out.Tokens += b.tokens
	fresh := b.fresh
	if s.lapsed {
		fresh, s.lapsed = s.takingPart(b), false
	}
	for _, r := range fresh {
		s.out.Started = append(s.out.Started, engine.TokenRun{ID: r.id, Index: s.generated(r)})
	}
	s.delivered, s.going = b.number, b.tokens-len(b.ends)
	s.roll.owed -= b.tokens
	for _, r := range b.ends {
		s.catchUp(r)
		if !r.runs {
			s.roll.owed++ // it had left with this token
		}
		if s.observed {
			s.out.Signals = append(s.out.Signals, engine.Signal{ID: r.id, Final: true})
		}
		s.finish(r)
	}
}

// finish leaves the whole pages of a request that has its last token to the tree; that token itself is not computed.
// Pages of the prompt and those behind it can be evicted separately.
func (s *Scheduler) finish(r *sequence) {
	s.out.Finished = append(s.out.Finished, r.id)
	r.lease.End()
	s.pool.Share(&r.lease, r.tokens()-1, r.promptTokens)
	s.leave(r)
}

// leave ends the life of an admitted request.
func (s *Scheduler) leave(r *sequence) {
	s.pool.Close(&r.lease)
	s.rows--
	r.status = over
	if r.listed {
		s.over++
	} else {
		s.drop(r)
	}
}

// drop forgets a request that holds nothing.
func (s *Scheduler) drop(r *sequence) { s.spareSequences.Put(r) }

// Cancel implements [engine.Engine]. A batch in flight takes as long as it would have taken.
func (s *Scheduler) Cancel(id engine.RequestID) {
	s.rejected = slices.DeleteFunc(s.rejected, func(r engine.Rejection) bool { return r.ID == id })
	if s.cancelPaired(id) {
		return
	}
	for _, queue := range []*deque.Deque[*sequence]{&s.waiting, &s.unread} {
		if r, ok := transit.TakeFrom(queue, id); ok {
			s.leaveFetch(r)
			s.drop(r)
			return
		}
	}
	for _, r := range s.admitted() {
		if r.id == id {
			s.cancelAdmitted(r)
			return
		}
	}
}

func (s *Scheduler) cancelAdmitted(r *sequence) {
	if b := s.flying; b != nil {
		b.prefills = slices.DeleteFunc(b.prefills, func(p prefill) bool { return p.request == r })
		if b.takesPart(r) {
			b.decodes--
			b.without(r)
		}
	}
	s.detach(r)
	if s.chunked == r {
		s.chunked = nil
	}
	s.leave(r)
}

// admitted lists the requests that were admitted and are not over.
func (s *Scheduler) admitted() []*sequence {
	all := slices.Concat(s.running, s.prefilled)
	if s.chunked != nil {
		all = append(all, s.chunked)
	}
	if s.sends.on {
		all = append(all, s.computing()...)
	}
	return slices.DeleteFunc(all, func(r *sequence) bool { return r.status == over })
}
