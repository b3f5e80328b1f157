package vllmv1

import (
	"fmt"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engine/enginetest"
	"dynosim/gocore/engineargs"
)

func newEngine(args engineargs.Args, setup engine.Setup) enginetest.Engine { return New(args, setup) }

// TestGolden runs testdata/*.txt, worked examples pass by pass; see testdata/one_request.txt for how to read them.
func TestGolden(t *testing.T) {
	names := map[string]string{
		"blocks": "num_gpu_blocks", "async": "async_scheduling", "threshold": "long_prefill_token_threshold",
		"budget": "max_num_batched_tokens",
	}
	enginetest.Golden(t, enginetest.Examples{
		New: newEngine,
		Args: func(given [][2]string) string {
			fields := []string{`"scheduler": "vllm-0.28"`}
			for _, a := range given {
				key := a[0]
				if long, ok := names[key]; ok {
					key = long
				}
				fields = append(fields, fmt.Sprintf("%q: %s", key, a[1]))
			}
			return "{" + strings.Join(fields, ", ") + "}"
		},
		Line: func(s engine.Shape) string {
			if s.ComputedTokens == 0 && s.PreemptedRequests == 0 {
				return ""
			}
			return fmt.Sprintf("prefill %-11s decode %-6s tokens %-4d", fmt.Sprintf("%d;%d;%d", s.PrefillRequests, s.ISLSum, s.PrefixSum),
				fmt.Sprintf("%d,%d", s.DecodeRequests, s.InUse), s.ComputedTokens)
		},
	})
}
