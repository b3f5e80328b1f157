package vllmv1

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/kvcache"
)

// drawn is a random engine with requests that arrive at random times. Block ids of prompts are shared among few families.
type drawn struct {
	args     engineargs.Args
	atMs     []float64
	requests []engine.Request
	observe  bool
}

func draw(seed uint64) drawn {
	rng := rand.New(rand.NewPCG(seed, 7))
	args := engineargs.Default()
	args.Scheduler = engineargs.VLLMOwn
	args.BlockSize = 1 << rng.IntN(5)
	args.NumGPUBlocks = 8 + rng.IntN(40)
	args.MaxNumSeqs = 1 + rng.IntN(6)
	args.MaxNumBatchedTokens = args.MaxNumSeqs + rng.IntN(60)
	args.PrefixCaching = rng.IntN(4) > 0
	args.ChunkedPrefill = rng.IntN(4) > 0
	args.VLLM = engineargs.VLLMArgs{Async: rng.IntN(2) == 0, ReserveFullISL: rng.IntN(3) > 0}
	if rng.IntN(3) == 0 {
		args.VLLM.LongPrefillTokenThreshold = 1 + rng.IntN(12)
	}
	if rng.IntN(3) == 0 {
		args.Watermark = 0.15
	}
	d := drawn{args: args, observe: rng.IntN(2) == 0}
	now := 0.0
	for id := range 3 + rng.IntN(25) {
		tokens := 1 + rng.IntN(5*args.BlockSize)
		blocks := tokens/args.BlockSize + 1
		prompt := kvcache.Prompt{PerSegment: 1}
		family, leaves := uint32(rng.IntN(3)), rng.IntN(blocks+1)
		for b := range blocks {
			if b < leaves {
				prompt.Segments = append(prompt.Segments, 100*family+uint32(b))
			} else {
				prompt.Segments = append(prompt.Segments, 1000+100*uint32(id)+uint32(b))
			}
		}
		d.requests = append(d.requests, engine.Request{
			ID: engine.RequestID(id), Prompt: prompt, PromptTokens: tokens, OutputTokens: 1 + rng.IntN(60),
		})
		d.atMs = append(d.atMs, now)
		now += float64(rng.IntN(3) * rng.IntN(100))
	}
	return d
}

// run shows every pass to see, until all requests are over.
func (d drawn) run(s *Scheduler, see func(*engine.Pass)) error {
	if d.observe {
		s.Observe()
	}
	now, next := 0.0, 0
	for passes := 0; ; passes++ {
		if s.Requests() == 0 {
			if next == len(d.requests) {
				return nil
			}
			now = max(now, d.atMs[next])
		}
		for next < len(d.requests) && d.atMs[next] <= now {
			s.Add(d.requests[next])
			next++
		}
		p, alive := s.RunPass(now)
		if !alive || passes > 100_000 {
			return fmt.Errorf("at %v ms: no end in sight", now)
		}
		see(p)
		now = p.EndMs
	}
}

// clonePass copies what a pass owns only until the next one. The order in which runs of tokens start means nothing.
func clonePass(p *engine.Pass) engine.Pass {
	c := *p
	c.Admitted, c.Started, c.Finished = slices.Clone(p.Admitted), slices.Clone(p.Started), slices.Clone(p.Finished)
	c.Rejected, c.KVEvents, c.Signals = slices.Clone(p.Rejected), slices.Clone(p.KVEvents), slices.Clone(p.Signals)
	slices.SortFunc(c.Started, func(a, b engine.TokenRun) int { return int(a.ID - b.ID) })
	return c
}

// TestSteady runs random workloads with and without steady requests: every pass must be the same.
func TestSteady(t *testing.T) {
	for seed := range uint64(3000) {
		d := draw(seed)
		var want []engine.Pass
		if err := d.run(New(d.args, engine.Setup{Stepwise: true}), func(p *engine.Pass) { want = append(want, clonePass(p)) }); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		i := 0
		err := d.run(New(d.args, engine.Setup{}), func(p *engine.Pass) {
			if got := clonePass(p); i < len(want) && !reflect.DeepEqual(got, want[i]) {
				t.Fatalf("seed %d, pass %d, %+v:\nsteady %+v\nwant   %+v", seed, i+1, d.args.VLLM, got, want[i])
			}
			i++
		})
		if err != nil || i != len(want) {
			t.Fatalf("seed %d: %d passes, want %d: %v", seed, i, len(want), err)
		}
	}
}
