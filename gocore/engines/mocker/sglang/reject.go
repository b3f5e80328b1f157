package sglang

import (
	"fmt"

	"dynosim/gocore/engine"
)

// cannotEverRun says why r can never run, or "" if it can. It is asked when r stands at the head of the waiting queue.
// The reference keeps such a request there until nothing else is left, and then gives up.
func (s *Scheduler) cannotEverRun(r *sequence) string {
	if reason := s.overPool(r); reason != "" || s.role == engine.Decode {
		return reason
	}
	return s.overBudgets(r)
}

// overBudgets says why r, which fits the pool, can never be admitted, or "" if it can.
func (s *Scheduler) overBudgets(r *sequence) string {
	limits, attainable := s.args.SGLang, s.pool.Attainable()
	// However the prompt is cut, its last chunk is admitted only if the pool has a token more than this.
	length := s.tokens(r)
	future := min(r.maxOutput-r.generated, limits.ClipMaxNewTokens)
	if s.roundUp(length)+future >= attainable {
		return fmt.Sprintf("%d tokens in whole blocks of %d + %d reserved for output leave nothing of num_gpu_blocks %d",
			length, s.pageSize, future, s.args.NumGPUBlocks)
	}
	// Both budgets shrink together, so that a chunk cut to what is left of its budget does not fit either.
	chunk := min(s.roundUp(length-r.holding.Tokens()), limits.ChunkedPrefillSize)
	if chunk > limits.MaxPrefillTokens {
		return fmt.Sprintf("the next prefill chunk, %d tokens in whole blocks of %d, exceeds max_prefill_tokens %d",
			chunk, s.pageSize, limits.MaxPrefillTokens)
	}
	return ""
}

// overPool says why r can never fit the pool or the longest request, or "" if it can.
func (s *Scheduler) overPool(r *sequence) string {
	if reason := s.args.TooLong(r.promptTokens); reason != "" {
		return reason
	}
	if r.promptTokens+r.maxOutput <= s.pool.Attainable() {
		return ""
	}
	return fmt.Sprintf("prompt of %d + output of %d tokens need %d blocks of %d, num_gpu_blocks is %d",
		r.promptTokens, r.maxOutput, ceilDiv(r.promptTokens+r.maxOutput, s.pageSize), s.pageSize, s.args.NumGPUBlocks)
}

func (s *Scheduler) roundUp(tokens int) int { return ceilDiv(tokens, s.pageSize) * s.pageSize }

func (s *Scheduler) reject(r *sequence, reason string) {
	s.out.Rejected = append(s.out.Rejected, engine.Rejection{ID: r.id, Reason: reason})
	s.drop(r)
}

// drop forgets a request before its end. What the tree has of it stays in the cache.
func (s *Scheduler) drop(r *sequence) {
	s.pool.Release(&r.holding)
	s.rescue.left(r)
	s.lpm.sorted = false
	s.forget(r)
}

// forget ends the life of a request that has no slots any more.
func (s *Scheduler) forget(r *sequence) {
	s.destinations.RoomMade()
	s.spares.Put(r)
}
