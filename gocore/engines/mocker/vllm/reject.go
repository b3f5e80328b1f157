package vllm

import (
	"fmt"

	"dynosim/gocore/engine"
)

// cannotEverRun says why r can never run, or "" if it can. It is asked when r stands at the head of the waiting queue.
// The reference rejects only prompts larger than the pool; on the other cases it hangs or reports a dead end.
func (s *Scheduler) cannotEverRun(r *sequence, cached int) string {
	if r.status == waiting {
		if reason := s.overPool(r); reason != "" {
			return reason
		}
	}
	// No request is admitted while r is at the head, so its cached prefix cannot grow any more. On a decode worker
	// others may be, and what they bring along may be what r lacks; there r gives up only when nothing else can happen.
	patient := s.role == engine.Decode && !s.stall.givesUp
	if uncached := r.promptTokens - cached; !s.args.ChunkedPrefill && uncached > s.args.MaxNumBatchedTokens &&
		!patient {
		return fmt.Sprintf("%d uncached prompt tokens exceed max_num_batched_tokens %d and chunked prefill is off",
			uncached, s.args.MaxNumBatchedTokens)
	}
	return ""
}

// overPool says why r can never fit the pool or the longest request, or "" if it can.
func (s *Scheduler) overPool(r *sequence) string {
	if reason := s.args.TooLong(r.promptTokens); reason != "" {
		return reason
	}
	capacity := s.pool.Capacity()
	if needed := s.ceilBlocks(r.promptTokens + r.maxOutput); needed > capacity {
		return fmt.Sprintf("prompt of %d + output of %d tokens need %d blocks of %d, num_gpu_blocks is %d",
			r.promptTokens, r.maxOutput, needed, s.blockSize, capacity)
	}
	if needed := s.ceilBlocks(r.promptTokens); needed+s.keptFree > capacity {
		return fmt.Sprintf("prompt of %d tokens needs %d blocks of %d, the watermark leaves %d of num_gpu_blocks %d",
			r.promptTokens, needed, s.blockSize, capacity-s.keptFree, capacity)
	}
	return ""
}

func (s *Scheduler) reject(r *sequence, reason string) {
	s.out.Rejected = append(s.out.Rejected, engine.Rejection{ID: r.id, Reason: reason})
	s.progressed(r)
	s.drop(r)
}

// drop forgets a request that holds no blocks any more.
func (s *Scheduler) drop(r *sequence) {
	r.status = gone
	s.spares.Put(r)
}
