package vllm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache"
)

// BenchmarkPass measures one pass of an engine that always owns the same number of requests: one that finishes is
// replaced by a new one. "tokens/s", of simulated output, tells how long a simulation takes.
func BenchmarkPass(b *testing.B) {
	for _, c := range []struct {
		name           string
		args           string
		requests       int
		prompt, output int // means
	}{
		{"decode-1", `{"num_gpu_blocks": 65536}`, 1, 512, 2000},
		{"decode-64", `{"num_gpu_blocks": 65536}`, 64, 512, 2000},
		{"decode-256", `{"num_gpu_blocks": 65536}`, 256, 512, 2000},
		{"chunked-prefill", `{"num_gpu_blocks": 65536, "max_num_batched_tokens": 2048}`, 64, 8192, 16},
		{"preemption", `{"block_size": 16, "num_gpu_blocks": 1024}`, 64, 256, 512},
		{"preemption-fifo", `{"block_size": 16, "num_gpu_blocks": 1024, "preemption_mode": "fifo"}`, 64, 256, 512},
	} {
		for _, steady := range []bool{true, false} {
			name := c.name
			if !steady {
				name += "-one-by-one"
			}
			b.Run(name, func(b *testing.B) {
				s := New(enginetest.Args(b, c.args), engine.Setup{})
				s.steady.off = !steady
				rng := rand.New(rand.NewPCG(1, 2))
				added := 0
				add := func() {
					s.Add(engine.Request{
						ID:           engine.RequestID(added),
						Prompt:       kvcache.Prompt{Segments: []uint32{uint32(added)}, PerSegment: 4096},
						PromptTokens: around(rng, c.prompt),
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
					pass, alive := s.RunPass(now)
					if !alive {
						b.Fatal("stalled")
					}
					now = pass.EndMs
					tokens += pass.Tokens
					for range pass.Finished {
						add()
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
			s := New(enginetest.Args(b, `{"block_size": 16, "num_gpu_blocks": 256}`), engine.Setup{})
			b.ReportAllocs()
			now := 0.0
			for id := range waiting {
				s.Add(engine.Request{
					ID:           engine.RequestID(id),
					Prompt:       kvcache.Prompt{Segments: []uint32{uint32(id)}, PerSegment: 256},
					PromptTokens: 2048,
					OutputTokens: 2000,
				})
			}
			for b.Loop() {
				pass, alive := s.RunPass(now)
				if !alive {
					b.Fatal("stalled")
				}
				now = pass.EndMs
				for _, id := range pass.Finished {
					s.Add(engine.Request{
						ID:           id,
						Prompt:       kvcache.Prompt{Segments: []uint32{uint32(id)}, PerSegment: 256},
						PromptTokens: 2048,
						OutputTokens: 2000,
					})
				}
			}
		})
	}
}

// BenchmarkCoast measures passes that are run in one go. Of 64 requests one opens a block in every pass.
func BenchmarkCoast(b *testing.B) {
	for _, requests := range []int{1, 64} {
		b.Run(fmt.Sprint(requests), func(b *testing.B) {
			s, now := decoding(b, requests)
			passes := 0
			for b.Loop() {
				ends := s.Coast(now, math.Inf(1))
				if len(ends) == 0 { // a request ends
					s, now = decoding(b, requests)
					continue
				}
				now = ends[len(ends)-1]
				passes += len(ends)
				s.Settle(len(ends))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(passes), "ns/pass")
		})
	}
}

// decoding returns an engine whose requests have a million tokens to go, and the time.
func decoding(b *testing.B, requests int) (*Scheduler, float64) {
	b.Helper()
	s := New(enginetest.Args(b, `{"num_gpu_blocks": 2000000}`), engine.Setup{})
	for i := range requests {
		s.Add(engine.Request{
			ID:           engine.RequestID(i),
			Prompt:       kvcache.Prompt{Segments: []uint32{uint32(i)}, PerSegment: 8},
			PromptTokens: 100 + i,
			OutputTokens: 1 << 20,
		})
	}
	now := 0.0
	for range 10 {
		pass, _ := s.RunPass(now)
		now = pass.EndMs
	}
	return s, now
}
