package vllm

import (
	"math"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/timing"
)

// forwardTimes takes 5 ms for any forward, 1 ms for a prompt token and 2 ms for a request that decodes.
type forwardTimes struct{}

func (forwardTimes) PrefillMs(s timing.PrefillShape) float64 {
	return float64(5 + s.Requests*s.NewTokens())
}

func (forwardTimes) DecodeMs(s timing.DecodeShape) float64 { return float64(5 + 2*s.Requests) }

// TestPassTime sends a prompt of 12 tokens to an idle engine, a second one once it decodes, and a third beside the two.
// Passes compute at most 9 tokens, so that prompts are computed in two. Their ends take a decode step only in separate
// passes.
func TestPassTime(t *testing.T) {
	for _, c := range []struct {
		more string
		want []float64 // how long passes take
	}{
		//                              A   A's end   A   B+A        B's end+A    A, B   C+A+B       C's end+A+B     all
		{`"pass_time": "separate"`, []float64{14, 8 + 7, 7, 13 + 7, 9 + 9, 9, 12 + 9, 10 + 11, 11}},
		{`"pass_time": "fused"`, []float64{14, 8, 7, 13, 9, 9, 12 + 2, 10 + 2, 11}},
		{`"pass_time": "fused", "step_overhead_us": 500`, []float64{14.5, 8.5, 7.5, 13.5, 9.5, 9.5, 14.5, 12.5, 11.5}},
		{`"pass_time": "fused", "decode_scale": 2`, []float64{14, 8, 14, 13, 9, 18, 12 + 4, 10 + 4, 22}},
	} {
		args := enginetest.Args(t, `{"scheduler": "vllm", "block_size": 4, "num_gpu_blocks": 64,
			"max_num_batched_tokens": 9,
			"max_num_seqs": 9, "async_scheduling": false, "enable_prefix_caching": false, `+c.more+`}`)
		s := New(args, engine.Setup{Model: args.Knobs.Scaled(forwardTimes{}), Explain: true})
		now := 0.0
		for i, want := range c.want {
			if i == 0 || i == 3 || i == 6 {
				s.Add(engine.Request{ID: engine.RequestID(i), PromptTokens: 12, OutputTokens: 30, SentMs: now})
			}
			pass, _ := s.RunPass(now)
			if took := pass.EndMs - now; math.Abs(took-want) > 1e-9 {
				t.Errorf("%s: pass %d takes %v ms, want %v", c.more, i, took, want)
			}
			if sum := pass.Parts.PromptMs + pass.Parts.DecodeMs +
				pass.Parts.HostMs; math.Abs(now+sum-pass.EndMs) > 1e-9 {
				t.Errorf("%s: the parts of pass %d are %+v, want %v together", c.more, i, pass.Parts, pass.EndMs-now)
			}
			now = pass.EndMs
		}
	}
}
