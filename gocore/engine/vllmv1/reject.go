package vllmv1

import "fmt"

// cannotEverRun says why vLLM would refuse r, or "" if it would not: it wants the longest request to fit the pool and,
// without chunked prefill, the budget of a pass.
func (s *Scheduler) cannotEverRun(r *sequence) string {
	total := r.promptTokens + r.maxOutput
	if limit := s.args.MaxNumBatchedTokens; !s.args.ChunkedPrefill && total > limit {
		return fmt.Sprintf("prompt of %d + output of %d tokens exceed max_num_batched_tokens %d and chunked prefill is off",
			r.promptTokens, r.maxOutput, limit)
	}
	if capacity := s.pool.Capacity(); total > capacity<<s.blockShift {
		return fmt.Sprintf("prompt of %d + output of %d tokens need %d blocks of %d, num_gpu_blocks is %d",
			r.promptTokens, r.maxOutput, s.ceilBlocks(total), s.blockSize, capacity)
	}
	return ""
}
