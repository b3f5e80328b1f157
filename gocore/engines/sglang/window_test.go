package sglang

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache"
)

// drawWindow draws arguments with a sliding window.
func drawWindow(rng *rand.Rand) engineargs.Args {
	args := drawArgs(rng)
	args.HostCache, args.SGLang.MixedChunk = engineargs.HostCacheArgs{}, false
	args.SGLang.Window = engineargs.WindowArgs{Blocks: 1 + rng.IntN(args.NumGPUBlocks), Tokens: 1 + rng.IntN(8*args.BlockSize)}
	return args
}

// TestWindowsEnd runs random workloads with pools of the window layers from too small for any request to ample ones:
// all end, and at the end both pools have all slots.
func TestWindowsEnd(t *testing.T) {
	rejected, finished := 0, 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 44))
		args := drawWindow(rng)
		s := New(args, engine.Setup{})
		err := enginetest.Draw(rng, args).Run(s, func(p *engine.Pass) {
			rejected += len(p.Rejected)
			finished += len(p.Finished)
		})
		if err != nil {
			t.Fatalf("seed %d, %+v, %d blocks of %d, chunk %d: %v", seed, args.SGLang.Window, args.NumGPUBlocks, args.BlockSize,
				args.SGLang.ChunkedPrefillSize, err)
		}
		if window := args.SGLang.Window.Blocks * args.BlockSize; s.pool.WindowAvailable() != window || s.pool.Available() != s.pool.Total() {
			t.Fatalf("seed %d: %d of %d window slots and %d of %d others are left", seed, s.pool.WindowAvailable(), window,
				s.pool.Available(), s.pool.Total())
		}
	}
	if rejected < 1000 || finished < 10000 {
		t.Errorf("%d requests were rejected, %d ended", rejected, finished)
	}
}

// TestEventsOfWindows: what requests find when they are admitted follows from the events of the passes before.
func TestEventsOfWindows(t *testing.T) {
	short, whole := 0, 0
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 45))
		args := drawWindow(rng)
		args.SGLang.Overlap, args.SGLang.ChunkedPrefillSize = false, 1<<20 // so that prompts enter the tree at the ends of passes only
		w := enginetest.Draw(rng, args)
		w.Observe = true
		s := New(args, engine.Setup{})
		cached, run := [2]map[kvcache.BlockID]bool{{}, {}}, args.LayerGroups().Run
		var seen [100]bool
		err := w.Run(s, func(p *engine.Pass) {
			for _, a := range p.Admitted {
				if seen[a.ID] {
					continue
				}
				seen[a.ID] = true
				prompt := w.Requests[a.ID]
				full, found := 0, 0
				for full < (prompt.PromptTokens-1)/args.BlockSize && cached[0][prompt.Prompt.Block(full)] {
					full++
				}
				for end, have := full, 0; end > 0 && have < run; end-- {
					if have++; !cached[1][prompt.Prompt.Block(end-1)] {
						have = 0
					}
					found = end - 1 + have
				}
				if found < full {
					short++
				} else if full > 0 {
					whole++
				}
				if found*args.BlockSize != a.ReusedTokens {
					t.Fatalf("seed %d: request %d finds %d tokens, by the events %d of %d pages of %d", seed, a.ID, a.ReusedTokens, found,
						full, args.BlockSize)
				}
			}
			for _, e := range p.KVEvents {
				for _, id := range e.Blocks {
					if stored := e.Kind == kvcache.Stored; cached[e.Group][id] == stored {
						t.Fatalf("seed %d: event %+v, and block %x was there: %v", seed, e, id, cached[e.Group][id])
					} else {
						cached[e.Group][id] = stored
					}
				}
			}
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if short < 100 || whole < 500 {
		t.Errorf("%d requests found less than full attention had, %d all of it", short, whole)
	}
}
