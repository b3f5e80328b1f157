package sglang

import (
	"fmt"

	"dynosim/gocore/engine"
)

// cannotEverRun says why SGLang would refuse a request or shorten its output, or "" if it would not.
func (s *Scheduler) cannotEverRun(req engine.Request) string {
	if reason := s.args.TooLong(req.PromptTokens); reason != "" {
		return reason
	}
	total, pages := s.pool.Total(), s.ceil(req.PromptTokens)
	if longest := total - 7; req.PromptTokens > longest {
		return fmt.Sprintf("SGLang takes prompts of up to %d tokens with num_gpu_blocks %d of %d, this one has %d",
			max(longest, 0), s.args.NumGPUBlocks, s.pageSize, req.PromptTokens)
	}
	output := s.args.Output(req.PromptTokens, req.OutputTokens)
	if longest := min(total-pages-s.pageSize-1, total-req.PromptTokens-2); output > longest {
		return fmt.Sprintf("SGLang would cut the output of %d tokens to %d: with num_gpu_blocks %d of %d no more fits beside a prompt of %d",
			output, max(longest, 0), s.args.NumGPUBlocks, s.pageSize, req.PromptTokens)
	}
	return ""
}
