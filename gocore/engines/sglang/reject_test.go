package sglang

import (
	"fmt"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache"
)

// TestRejections: SGLang shortens outputs that do not fit the pool beside the prompt and a page, and refuses prompts
// that fill it; such requests are rejected, those just below run. A pool of 10 pages of 16 has 160 tokens.
func TestRejections(t *testing.T) {
	const takesPrompts, cutsOutput = "SGLang takes prompts of up to 153 tokens", "SGLang would cut the output of"
	for _, c := range []struct {
		prompt, output int
		reason         string
	}{
		{prompt: 64, output: 79},
		{prompt: 64, output: 80, reason: cutsOutput + " 80 tokens to 79"},
		{prompt: 65, output: 63},
		{prompt: 65, output: 64, reason: cutsOutput + " 64 tokens to 63"},
		{prompt: 1, output: 127},
		{prompt: 1, output: 1000, reason: cutsOutput + " 1000 tokens to 127"},
		{prompt: 153, output: 1, reason: cutsOutput + " 1 tokens to 0"},
		{prompt: 154, output: 1, reason: takesPrompts},
		{prompt: 4000, output: 1, reason: takesPrompts},
	} {
		t.Run(fmt.Sprintf("%d+%d", c.prompt, c.output), func(t *testing.T) {
			args := enginetest.Args(t, `{"engine_type": "sglang", "scheduler": "sglang", "block_size": 16, `+
				`"num_gpu_blocks": 10}`)
			s := New(args, engine.Setup{})
			s.Add(engine.Request{
				ID: 7, PromptTokens: c.prompt, OutputTokens: c.output,
				Prompt: kvcache.Prompt{Segments: []uint32{0}, PerSegment: 1000},
			})
			tokens, now := 0, 0.0
			var rejected []engine.Rejection
			for s.Requests() > 0 {
				p, alive := s.RunPass(now)
				if !alive {
					t.Fatal("no end in sight")
				}
				tokens += p.Tokens
				rejected = append(rejected, p.Rejected...)
				now = p.EndMs
			}
			switch {
			case c.reason == "" && (tokens != c.output || len(rejected) > 0):
				t.Errorf("%d tokens, rejected %v", tokens, rejected)
			case c.reason != "" && (tokens > 0 || len(rejected) != 1 || rejected[0].ID != 7 ||
				!strings.Contains(rejected[0].Reason, c.reason)):
				t.Errorf("%d tokens, rejected %v, want %q", tokens, rejected, c.reason)
			}
		})
	}
}
