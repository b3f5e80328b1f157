package vllm

import "fmt"

// cannotEverRun says why vLLM would refuse r, or "" if it would not: it wants the longest request to fit the pool and,
// without chunked prefill, the budget of a pass.
func (s *Scheduler) cannotEverRun(r *sequence) string {
	if reason := s.args.TooLong(r.promptTokens); reason != "" {
		return reason
	}
	total := r.promptTokens + r.maxOutput
	if limit := s.args.MaxNumBatchedTokens; !s.args.ChunkedPrefill && total > limit {
		return fmt.Sprintf("prompt of %d + output of %d tokens exceed max_num_batched_tokens %d and chunked prefill is off",
			r.promptTokens, r.maxOutput, limit)
	}
	if capacity := s.pool.Capacity(); total > capacity*s.blockSize {
		return fmt.Sprintf("prompt of %d + output of %d tokens need %d blocks of %d, num_gpu_blocks is %d",
			r.promptTokens, r.maxOutput, s.ceilBlocks(total), s.blockSize, capacity)
	}
	if r.fruitless > mostFruitless {
		return s.stuck(r)
	}
	return ""
}

// mostFruitless is how often a request may preempt itself, alone in the pool, without getting further. With prefix
// caching each try may find what the one before has computed; vLLM itself was seen to need five.
const mostFruitless = 10

// tried records the number of tokens after which r has preempted itself.
func (r *sequence) tried(computed int) {
	if r.fruitless++; computed > r.furthest {
		r.furthest, r.fruitless = computed, 1
	}
}

// neverFits reports whether r, which has no room now, never will: nothing else is in the pool. It is rejected when it
// is looked at again.
func (s *Scheduler) neverFits(r *sequence) bool {
	if s.groups.Beside == 0 || s.pool.InUse() > 0 {
		return false
	}
	r.fruitless, s.headWaits = mostFruitless+1, false
	return true
}

// stuck says why a request that has the pool for itself can go no further. vLLM refuses to start with such a pool.
func (s *Scheduler) stuck(r *sequence) string {
	return fmt.Sprintf("prompt of %d + output of %d tokens need more than the %d blocks of %d that the %d KV cache "+
		"groups share (num_gpu_blocks)",
		r.promptTokens, r.maxOutput, s.pool.Capacity(), s.blockSize, 1+s.groups.Beside)
}
