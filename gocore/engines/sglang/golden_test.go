package sglang

import (
	"fmt"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
)

func newEngine(args engineargs.Args, setup engine.Setup) enginetest.Engine { return New(args, setup) }

// TestGolden runs testdata/*.txt, worked examples pass by pass; see testdata/alternation.txt for how to read them.
func TestGolden(t *testing.T) {
	nestedNames := map[string]string{
		"overlap": "overlap_schedule", "chunk": "chunked_prefill_size", "max_prefill": "max_prefill_tokens",
		"conservativeness": "schedule_conservativeness", "policy": "schedule_policy", "ignore_eos": "ignore_eos",
		"mixed":         "enable_mixed_chunk",
		"recv_interval": "scheduler_recv_interval",
	}
	enginetest.Golden(t, enginetest.Examples{
		New:         newEngine,
		TokensPerID: 16,
		Args: func(given [][2]string) string {
			fields, nested := []string{`"engine_type": "sglang", "scheduler": "sglang-0.5"`}, []string{}
			for _, a := range given {
				if a[0] == "window" {
					var tokens, blocks int
					if _, err := fmt.Sscanf(a[1], "%d/%d", &tokens, &blocks); err != nil {
						panic(err)
					}
					const groups = `"kv_cache_groups": [{"type": "full"}, {"type": "sliding_window", "window": %d, "num_blocks": %d}]`
					fields = append(fields, fmt.Sprintf(groups, tokens, blocks))
				} else if long, ok := nestedNames[a[0]]; ok {
					nested = append(nested, fmt.Sprintf("%q: %s", long, a[1]))
				} else {
					fields = append(fields,
						fmt.Sprintf("%q: %s", strings.Replace(a[0], "blocks", "num_gpu_blocks", 1), a[1]))
				}
			}
			return fmt.Sprintf(`{%s, "sglang": {%s}}`, strings.Join(fields, ", "), strings.Join(nested, ", "))
		},
		Line: func(s engine.Shape) string {
			var what []string
			if s.PrefillRequests > 0 {
				what = append(what, fmt.Sprintf("prefill %d;%d;%d", s.PrefillRequests, s.ISLSum, s.PrefixSum))
			}
			if s.DecodeRequests > 0 {
				what = append(what, fmt.Sprintf("decode  %d;%d", s.DecodeRequests, s.ContextSum))
			}
			return fmt.Sprintf("%-16s in use %-4d", strings.Join(what, " "), s.InUse)
		},
	})
}
