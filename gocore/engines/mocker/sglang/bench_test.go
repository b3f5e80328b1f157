package sglang

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache"
)

// BenchmarkPass measures one pass of an engine that always owns the same number of requests: one that finishes
// is replaced by a new one. "tokens/s", of simulated output, tells how long a simulation takes. Every case runs with
// pages of 1 and of 64 tokens and the same pool; small pages may cost at most three times as much.
func BenchmarkPass(b *testing.B) {
	for _, c := range []struct {
		name           string
		args           string
		slots          int
		requests       int
		prompt, output int // means
		shared         int // tokens that half of the prompts have in common with others, all of them if it is longer
	}{
		{"decode-1", ``, 1 << 22, 1, 512, 2000, 128},
		{"decode-256", ``, 1 << 22, 256, 512, 2000, 128},
		{"bursts-256", `"aic_nextn": 2`, 1 << 22, 256, 512, 2000, 128},
		{"turnover-256", ``, 1 << 22, 256, 512, 20, 128},
		// A quarter of the prompts end within what they share, so that it is cut wherever a page ends.
		{"cut-prefixes", ``, 1 << 22, 256, 512, 20, 512},
		{"queue-64-of-256", `"max_num_seqs": 64`, 1 << 22, 256, 512, 200, 128},
		{"chunked-prefill", `"sglang": {"chunked_prefill_size": 2048}`, 1 << 22, 64, 8192, 16, 128},
		{"lpm", `"max_num_seqs": 64, "sglang": {"schedule_policy": "lpm"}`, 1 << 22, 160, 512, 200, 128},
		{"full", ``, 1 << 16, 256, 512, 512, 128},
		{"retraction", `"sglang": {"clip_max_new_tokens": 1}`, 1 << 14, 64, 256, 512, 128},
	} {
		for _, pageSize := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/page=%d", c.name, pageSize), func(b *testing.B) {
				text := fmt.Sprintf(`"engine_type": "sglang", "block_size": %d, "num_gpu_blocks": %d`, pageSize,
					c.slots/pageSize)
				if c.args != "" {
					text += ", " + c.args
				}
				args := enginetest.Args(b, "{"+text+"}")
				s := New(args, setup(args, engine.Aggregated))
				rng := rand.New(rand.NewPCG(1, 2))
				added := 0
				add := func() {
					prompt := around(rng, c.prompt)
					segments := make([]uint32, prompt/c.shared+1)
					for i := range segments {
						segments[i] = uint32(added*64 + i)
						if i == 0 && added%2 == 0 {
							segments[i] = uint32(1<<30 + added/2%10) // some have a beginning in common
						}
					}
					s.Add(engine.Request{
						ID:           engine.RequestID(added),
						Prompt:       kvcache.Prompt{Segments: segments, PerSegment: c.shared / pageSize},
						PromptTokens: prompt,
						OutputTokens: around(rng, c.output),
					})
					added++
				}
				for range c.requests {
					add()
				}
				now, tokens := 0.0, 0
				b.ReportAllocs()
				for b.Loop() {
					pass, _ := s.RunPass(now)
					now = pass.EndMs
					tokens += pass.Tokens
					for range len(pass.Finished) + len(pass.Rejected) {
						add()
					}
					if pass.Idle() {
						b.Fatal("a pass without effect")
					}
				}
				b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
	}
}

// around returns a number from mean/2 to 3*mean/2.
func around(rng *rand.Rand, mean int) int { return mean/2 + rng.IntN(mean) }

// BenchmarkLongQueue measures a pass when thousands wait behind a head that does not fit: they must cost nothing.
func BenchmarkLongQueue(b *testing.B) {
	for _, waiting := range []int{10, 10_000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			s := New(enginetest.Args(b, `{"engine_type": "sglang", "block_size": 16, "num_gpu_blocks": 512}`), engine.Setup{})
			b.ReportAllocs()
			now := 0.0
			add := func(id engine.RequestID) {
				s.Add(engine.Request{
					ID:           id,
					Prompt:       kvcache.Prompt{Segments: []uint32{uint32(id)}, PerSegment: 256},
					PromptTokens: 2048,
					OutputTokens: 2000,
				})
			}
			for id := range waiting {
				add(engine.RequestID(id))
			}
			for b.Loop() {
				pass, _ := s.RunPass(now)
				now = pass.EndMs
				for _, id := range pass.Finished {
					add(id)
				}
			}
		})
	}
}
