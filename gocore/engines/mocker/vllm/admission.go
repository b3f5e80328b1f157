package vllm

// admitWaiting moves requests from the waiting queue into the running list, strictly from the head: one that does
// not fit keeps all behind it waiting.
//
// There is no condition on the budget: a fully cached prompt at the head needs none and is admitted even when it is
// used up, at most one in a pass.
//
// A request that came to a decode worker with its KV holds all the blocks it needs now, and is admitted without further
// ado.
func (s *Scheduler) admitWaiting() {
	if s.headLacksBlocks {
		return
	}
	roomAwaited := s.destinations.Pending() > 0
	for len(s.running) < s.args.MaxNumSeqs && !s.preempted {
		at := s.candidate(roomAwaited)
		if at < 0 {
			return
		}
		r := s.waiting.At(at)
		cached := 0
		if r.status != activated {
			var active int
			cached, active = s.cachedPrompt(r)
			if reason := s.cannotEverRun(r, cached); reason != "" {
				s.waiting.Remove(at)
				s.reject(r, reason)
				continue
			}
			if !s.fits(r, active) {
				// It lacks them until blocks are released: a block that others take makes one less available, and at
				// best saves r one if it belongs to its prefix. Without chunked prefill r might have to be rejected
				// meanwhile, when its cached prefix is evicted.
				s.headLacksBlocks = s.args.ChunkedPrefill
				return
			}
		}
		if s.serve(r, cached) == blocked {
			return
		}
		s.waiting.Remove(at)
		if r.share.tokens == 0 && s.budget == 0 {
			return
		}
	}
}

// cachedPrompt returns the number of prompt tokens whose blocks are in the cache, and of those the ones in blocks that
// a request holds. It walks the block list from the start to the first block that is not cached. Blocks of generated
// tokens may be hit too, but only prompt tokens count.
func (s *Scheduler) cachedPrompt(r *sequence) (cached, active int) {
	if !s.args.PrefixCaching {
		return 0, 0
	}
	blocks, activeBlocks := 0, 0
	for limit := min(r.full, s.ceilBlocks(r.promptTokens)); blocks < limit; blocks++ {
		found := s.pool.Lookup(r.key.Block(blocks))
		if !found.Cached {
			break
		}
		if found.InUse {
			activeBlocks++
		}
	}
	return min(blocks<<s.blockShift, r.promptTokens), min(activeBlocks<<s.blockShift, r.promptTokens)
}

// fits reports whether the blocks of everything r has so far are available, all at once even if only a chunk of it runs
// now. Blocks that a request holds already cost nothing; cached blocks that no request holds cost like free ones. A
// request that has not run yet must also leave the reserve.
func (s *Scheduler) fits(r *sequence, activeCached int) bool {
	tokens, available := r.tokens(), s.pool.Available()
	if s.guaranteed() {
		tokens, available = r.promptTokens+r.maxOutput, available-s.promised()
	}
	needed := max(0, s.ceilBlocks(tokens)-activeCached>>s.blockShift)
	if r.status == waiting {
		needed += s.keptFree
	}
	return needed <= available
}
