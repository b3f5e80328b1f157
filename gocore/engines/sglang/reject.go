package sglang

import (
	"fmt"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/kvcache/radix"
)

// cannotEverRun says why SGLang would refuse a request or shorten its output, or "" if it would not.
func (s *Scheduler) cannotEverRun(req engine.Request) string {
	if reason := exceedsPool(s.args, req); reason != "" {
		return reason
	}
	output := s.args.Output(req.PromptTokens, req.OutputTokens)
	if w := s.rules.Window; w.Blocks > 0 {
		// What is in sight at the end of the prompt, and what is computed until a decode gives slots back.
		if needed := min(min(req.PromptTokens, w.Tokens)+output-1,
			w.Tokens+radix.EvictionInterval-1); needed > w.Blocks*s.pageSize {
			return fmt.Sprintf("it takes %d slots of the window layers, and their pool has %d blocks of %d", needed,
				w.Blocks, s.pageSize)
		}
	}
	return ""
}

// giveUp rejects a request if nothing can be computed any more, as the pool of the window layers is too small for it:
// the last one that decodes, or else the one of which a part is computed, or else the first in line. SGLang aborts the
// first of these and waits for ever with the others.
func (s *Scheduler) giveUp(b *batch) {
	var r *sequence
	switch {
	case b.stuck:
		r = s.running[0]
	case len(s.running) > 0:
		return
	case s.chunked != nil:
		r = s.chunked
	case s.waiting.Len() > 0:
		r = s.waiting.Front()
	default:
		return
	}
	reason := fmt.Sprintf("SGLang has no room for it in the %d blocks of %d of the window layers, and nothing else runs",
		s.rules.Window.Blocks, s.pageSize)
	s.Cancel(r.id)
	s.out.Rejected = append(s.out.Rejected, engine.Rejection{ID: r.id, Reason: reason})
}

// exceedsPool says why SGLang would refuse a request or shorten its output for the size of its pool, or "" if it would
// not.
func exceedsPool(args engineargs.Args, req engine.Request) string {
	if reason := args.TooLong(req.PromptTokens); reason != "" {
		return reason
	}
	page := args.BlockSize
	total, pages := args.NumGPUBlocks*page, (req.PromptTokens+page-1)/page*page
	if longest := total - 7; req.PromptTokens > longest {
		return fmt.Sprintf("SGLang takes prompts of up to %d tokens with num_gpu_blocks %d of %d, this one has %d",
			max(longest, 0), args.NumGPUBlocks, page, req.PromptTokens)
	}
	output := args.Output(req.PromptTokens, req.OutputTokens)
	if longest := min(total-pages-page-1, total-req.PromptTokens-2); output > longest {
		return fmt.Sprintf("SGLang would cut the output of %d tokens to %d: with num_gpu_blocks %d of %d no more "+
			"fits beside a prompt of %d",
			output, max(longest, 0), args.NumGPUBlocks, page, req.PromptTokens)
	}
	return ""
}

// cannotEverRun says why a decode worker would refuse a request, shorten its output, or never have room for it, or ""
// if none of these is so.
func (d *Decoder) cannotEverRun(req engine.Request) string {
	if reason := exceedsPool(d.args, req); reason != "" {
		return reason
	}
	reserved := d.args.SGLang.Reserved
	if needed := d.ceil(req.PromptTokens) + reserved; needed > d.total {
		return fmt.Sprintf("SGLang never has room for it on a decode worker: its prompt of %d tokens and the %d of "+
			"num_reserved_decode_tokens need %d, and num_gpu_blocks %d of %d are %d",
			req.PromptTokens, reserved, needed, d.args.NumGPUBlocks, d.pageSize, d.total)
	}
	return ""
}
