package sglang

import (
	"fmt"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
)

// TestWork: two prompts, the second of which begins like the first and comes in chunks. A chunk finds in the tree what
// those before it have put there.
func TestWork(t *testing.T) {
	args := enginetest.Args(t, `{"engine_type": "sglang", "block_size": 16, "num_gpu_blocks": 64, `+
		`"sglang": {"chunked_prefill_size": 64}}`)
	m := newSimulation(args, workload{traceBlock: 16, arrivals: []arrival{
		{name: "A", prompt: 48, output: 3, ids: []int{1, 2, 3}},
		{name: "B", atMs: 1, prompt: 160, output: 2, ids: []int{1, 2, 4, 4, 4, 4, 4, 4, 4, 4}},
	}})
	m.s.ReportWork()
	want := []string{
		"prefill 1;48;0 decode 1;48, queued 0;0 decode 0;0",
		"prefill 1;64;32 decode 1;49, queued 1;160 decode 0;0",
		"prefill 1;64;64 decode 1;50, queued 1;160 decode 0;0",
		"prefill 1;32;128 decode 1;160, queued 0;0 decode 0;0",
		"prefill 0;0;0 decode 1;161, queued 0;0 decode 0;0",
	}
	for i := 0; m.release(); i++ {
		if _, err := m.step(m.s.RunPass); err != nil {
			t.Fatal(err)
		}
		w := m.s.Work()
		got := fmt.Sprintf("prefill %s, queued %d;%d decode %d;%d", brief(w.Scheduled),
			w.Queued.PrefillRequests, w.Queued.PrefillTokens, w.Queued.DecodeRequests, w.Queued.DecodeKVTokens)
		if i >= len(want) || got != want[i] {
			t.Errorf("pass %d: got %s", i, got)
		}
	}
}

func brief(p engine.Phases) string {
	return fmt.Sprintf("%d;%d;%d decode %d;%d", p.PrefillRequests, p.PrefillTokens, p.PrefillKVTokens, p.DecodeRequests,
		p.DecodeKVTokens)
}
