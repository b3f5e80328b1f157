package vllm

import (
	"fmt"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
)

func newEngine(args engineargs.Args, setup engine.Setup) enginetest.Engine { return New(args, setup) }

// TestGolden runs testdata/*.txt, worked examples pass by pass; see testdata/one_request.txt for how to read them.
func TestGolden(t *testing.T) {
	names := map[string]string{
		"blocks": "num_gpu_blocks", "async": "async_scheduling", "threshold": "long_prefill_token_threshold",
		"budget": "max_num_batched_tokens", "interval": "prefill_schedule_interval", "active": "max_num_active_seqs",
		"groups": "kv_cache_groups", "retention": "prefix_cache_retention_interval",
		"host":     "host_cache",
		"adaptive": "long_prefill_token_threshold_adaptive",
	}
	enginetest.Golden(t, enginetest.Examples{
		New: newEngine,
		Args: func(given [][2]string) string {
			release := "0.28"
			var fields []string
			for _, a := range given {
				key := a[0]
				if key == "release" {
					release = a[1]
					continue
				}
				if long, ok := names[key]; ok {
					key = long
				}
				fields = append(fields, fmt.Sprintf("%q: %s", key, a[1]))
			}
			fields = append(fields, fmt.Sprintf(`"scheduler": "vllm-%s"`, release))
			return "{" + strings.Join(fields, ", ") + "}"
		},
		Line: func(s engine.Shape) string {
			if s.ComputedTokens == 0 && s.PreemptedRequests == 0 {
				return ""
			}
			return fmt.Sprintf("prefill %-11s decode %-6s tokens %-4d",
				fmt.Sprintf("%d;%d;%d", s.PrefillRequests, s.ISLSum, s.PrefixSum),
				fmt.Sprintf("%d,%d", s.DecodeRequests, s.InUse), s.ComputedTokens)
		},
	})
}
