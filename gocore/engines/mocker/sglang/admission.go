package sglang

import "dynosim/gocore/engine"

// budget is what admissions in one pass may still spend, in tokens.
type budget struct {
	total        float64 // of the pool, running requests' future tokens set aside
	input, chunk int
}

// admitWaiting admits a prefill batch from the waiting queue, strictly from its head: the first request that is refused
// keeps all requests behind it waiting. So do all that come from other workers and do not run yet, unless they are what
// the favourite of a rescue waits for.
func (s *Scheduler) admitWaiting() {
	places := s.args.MaxNumSeqs - len(s.running)
	if places <= 0 || s.waiting.Len() == 0 || s.destinations.comeFirst() && !s.rescue.active {
		return
	}
	left := s.newBudget()
	for s.prefillCount < places && left.chunk > 0 {
		at := s.candidate()
		if at < 0 {
			return
		}
		r := s.waiting.At(at)
		if reason := s.cannotEverRun(r); reason != "" {
			s.waiting.Remove(at)
			s.reject(r, reason)
			continue
		}
		chunk, ok := s.affordableChunk(r, &left)
		if !ok {
			return
		}
		s.prefill(r, chunk)
		if r.holding.Tokens() < s.tokens(r) {
			// It keeps its place in the queue until the rest is computed.
			s.pool.Cache(&r.holding, s.now())
			s.out.Scheduled++
			continue
		}
		s.waiting.Remove(at)
		s.run(r)
	}
}

// newBudget sets the budgets of a pass. Unused slots of the last pages are not available, nor is what running requests
// are expected to generate. Requests that wait have no such slots: all chunks but the last end with a page.
func (s *Scheduler) newBudget() budget {
	available := max(0, s.pool.Available()-s.load.overhead())
	return budget{
		total: float64(available) - s.reserved(),
		input: s.args.SGLang.MaxPrefillTokens,
		chunk: s.args.SGLang.ChunkedPrefillSize,
	}
}

// reserved returns the number of tokens set aside for running requests. The terms are added in running order: the last
// bit can decide.
func (s *Scheduler) reserved() float64 {
	sum := 0.0
	for _, r := range s.running {
		sum += float64(float64(min(s.remaining(r), s.args.SGLang.ClipMaxNewTokens)) * s.ratio.value)
	}
	return sum
}

// affordableChunk returns how many tokens of r the budgets admit now, and takes them from the budgets. A rest up to the
// chunk size is all or nothing; of a longer one, what is left of the chunk budget will do.
//
// On a decode worker requests did not have to meet the budgets before they were retracted. One that never can goes on
// without them as soon as no other runs, where the reference leaves it in the queue for ever.
func (s *Scheduler) affordableChunk(r *sequence, left *budget) (tokens int, ok bool) {
	rest := s.tokens(r) - r.holding.Tokens()
	if s.role == engine.Decode && s.overBudgets(r) != "" {
		left.chunk = 0 // for others
		return rest, len(s.running) == 0 && rest < s.pool.Available()
	}
	tokens = rest
	if rest > s.args.SGLang.ChunkedPrefillSize {
		tokens = left.chunk / s.pageSize * s.pageSize
	}
	charge := s.roundUp(tokens)
	future := 0
	if tokens == rest {
		future = min(r.maxOutput-r.generated, s.args.SGLang.ClipMaxNewTokens)
	}
	if tokens == 0 || float64(charge+future) >= left.total || charge > left.input || charge > left.chunk {
		return 0, false
	}
	left.total -= float64(charge + future)
	left.input -= charge
	left.chunk -= charge
	return tokens, true
}

// prefill computes the next tokens of r.
func (s *Scheduler) prefill(r *sequence, tokens int) {
	s.lpm.sorted = false
	end := r.holding.Tokens() + tokens
	reused := s.pool.Prefill(&r.holding, end, s.now())
	s.prefillCount++
	s.prefillEnds += end
	s.prefillStarts += reused
	if s.reporting {
		s.scheduledWork.AddPrefill(r.promptTokens, tokens, reused)
	}
	s.out.Admitted = append(s.out.Admitted, engine.Admission{ID: r.id, ReusedTokens: reused})
	s.parts.Join(r.id)
	s.parts.Compute(r.id, reused, end-reused)
}

// run makes r, all of whose tokens are computed, a running request.
func (s *Scheduler) run(r *sequence) {
	r.finishAt = s.emissions + r.maxOutput - r.generated
	r.status = running
	r.place = s.admissions
	s.admissions++
	if len(s.running) == 0 || r.finishAt < s.nextFinish {
		s.nextFinish = r.finishAt
	}
	r.pagesEnd = s.roundUp(s.tokens(r))
	s.running = append(s.running, r)
	s.count(r, +1)
}
