package vllm

import (
	"slices"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache"
)

// TestOutputCutToPool: the first request asks for more than the pool holds and gets what there is room for; the second
// one waits for all of the pool, although there is room for its prompt. Times as in the reference.
func TestOutputCutToPool(t *testing.T) {
	args := enginetest.Args(t, `{"engine_type": "trtllm", "block_size": 16, "num_gpu_blocks": 2}`)
	m := newSimulation(args, []arrival{{name: "A", prompt: 20, output: 40}, {name: "B", prompt: 20, output: 12}})
	notes := enginetest.NewRecorder(2)
	if err := m.run(notes.See); err != nil {
		t.Fatal(err)
	}
	for i, lastMs := range []float64{424.92525699999993, 849.8505139999999} {
		if tokens := notes.Fates[i].TokenMs; len(tokens) != 12 || tokens[11] != lastMs {
			t.Errorf("request %d: got %d tokens, want 12 until %v: %v", i, len(tokens), lastMs, tokens)
		}
	}
}

// TestGuaranteeWatchesSharedBlocks: B lacks a block until A holds the blocks that begin the prompt of B, because A
// computes them chunk by chunk or because A generates them. So B is admitted before A ends and gives any back.
func TestGuaranteeWatchesSharedBlocks(t *testing.T) {
	prompt := kvcache.Prompt{Segments: []uint32{1, 2, 3, 4}, PerSegment: 1}
	for _, c := range []struct {
		name  string
		first engine.Request
		want  int // tokens of A before B is admitted
	}{
		{"prompt in chunks", engine.Request{Prompt: prompt, PromptTokens: 8, OutputTokens: 2}, 0},
		{"output", engine.Request{Prompt: prompt, PromptTokens: 2, OutputTokens: 6, NamedBlocks: 4}, 5},
	} {
		for _, stepwise := range []bool{false, true} {
			args := enginetest.Args(t,
				`{"engine_type": "trtllm", "block_size": 2, "num_gpu_blocks": 6, "max_num_batched_tokens": 2}`)
			s := New(args, engine.Setup{Stepwise: stepwise})
			s.Add(c.first)
			s.Add(engine.Request{ID: 1, Prompt: prompt, PromptTokens: 8, OutputTokens: 2})
			nowMs, emitted, got := 0.0, 0, -1
			for s.Requests() > 0 {
				pass, _ := s.RunPass(nowMs)
				if slices.ContainsFunc(pass.Admitted, func(a engine.Admission) bool { return a.ID == 1 }) {
					got = emitted
				}
				emitted += pass.Tokens
				nowMs = pass.EndMs
			}
			if got != c.want {
				t.Errorf("%s, stepwise %t: B is admitted after %d tokens of A, want %d", c.name, stepwise, got, c.want)
			}
		}
	}
}
