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
	args.SGLang.Window = engineargs.WindowArgs{Blocks: 1 + rng.IntN(args.NumGPUBlocks),
		Tokens: 1 + rng.IntN(8*args.BlockSize)}
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
			t.Fatalf("seed %d, %+v, %d blocks of %d, chunk %d: %v", seed, args.SGLang.Window, args.NumGPUBlocks,
				args.BlockSize,
				args.SGLang.ChunkedPrefillSize, err)
		}
		if window := args.SGLang.Window.Blocks * args.BlockSize; s.pool.WindowAvailable() != window ||
			s.pool.Available() != s.pool.Total() {
			t.Fatalf("seed %d: %d of %d window slots and %d of %d others are left", seed, s.pool.WindowAvailable(),
				window,
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
		// so that prompts enter the tree at the ends of passes only
		args.SGLang.Overlap, args.SGLang.ChunkedPrefillSize = false, 1<<20
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
					t.Fatalf("seed %d: request %d finds %d tokens, by the events %d of %d pages of %d", seed, a.ID,
						a.ReusedTokens, found,
						full, args.BlockSize)
				}
			}
			for _, e := range p.KVEvents {
				for id := range e.Blocks.All() {
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

// TestWindowSlotsAreGivenBack has what SGLang's own scheduler was seen to do with a request that is alone: how many of
// its tokens are computed when a decode first gives slots of the window layers back. Prompts in chunks count more as
// given back than the window has left behind.
func TestWindowSlotsAreGivenBack(t *testing.T) {
	for _, c := range []struct{ prompt, chunk, window, page, tokens int }{
		{43, 2048, 16, 1, 170}, {43, 2048, 32, 1, 170}, {100, 2048, 16, 1, 227}, {10, 2048, 16, 1, 144},
		{128, 2048, 32, 16, 240},
		{17, 5, 16, 1, 144}, {20, 5, 16, 1, 159}, {40, 5, 16, 1, 174}, {43, 5, 16, 1, 174}, {46, 5, 16, 1, 174},
		{60, 5, 16, 1, 189},
		{40, 4, 16, 1, 176}, {44, 4, 16, 1, 176}, {43, 20, 16, 1, 184}, {60, 20, 16, 1, 187}, {61, 20, 16, 1, 204},
		{75, 20, 16, 1, 204},
		{80, 20, 16, 1, 207}, {43, 30, 16, 1, 174}, {43, 40, 16, 1, 184}, {43, 42, 16, 1, 186}, {100, 30, 16, 1, 234},
		{100, 60, 16, 1, 227},
		{43, 5, 8, 1, 171}, {43, 5, 24, 1, 177},
	} {
		args := engineargs.Default()
		args.EngineType, args.Scheduler, args.BlockSize, args.NumGPUBlocks = engineargs.SGLang, engineargs.SGLangOwn,
			c.page, 2000/c.page
		args.SGLang.ChunkedPrefillSize, args.SGLang.Overlap = c.chunk, false
		args.SGLang.Window = engineargs.WindowArgs{Blocks: 1000 / c.page, Tokens: c.window}
		s := New(args, engine.Setup{})
		prompt := kvcache.Prompt{PerSegment: 1}
		for i := range uint32(c.prompt/c.page + 1) {
			prompt.Segments = append(prompt.Segments, i)
		}
		s.Add(engine.Request{PromptTokens: c.prompt, OutputTokens: 250, Prompt: prompt})
		now, tokens, free := 0.0, 0, s.pool.WindowAvailable()
		for s.Requests() > 0 && tokens == 0 {
			p, alive := s.RunPass(now)
			if !alive {
				t.Fatalf("%+v: no end in sight", c)
			}
			if after := s.pool.WindowAvailable(); after-free > 20 && len(s.running) > 0 && s.running[0].generated > 20 {
				tokens = s.running[0].computed
			}
			now, free = p.EndMs, s.pool.WindowAvailable()
		}
		if tokens != c.tokens {
			t.Errorf("%+v: slots are given back at %d tokens", c, tokens)
		}
	}
}
