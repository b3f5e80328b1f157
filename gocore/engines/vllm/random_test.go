package vllm

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
)

// TestShortcuts runs random workloads with and without steady requests and coasting.
func TestShortcuts(t *testing.T) {
	enginetest.Shortcuts(t, 3000, newEngine, func(seed uint64) enginetest.Workload {
		rng := rand.New(rand.NewPCG(seed, 7))
		return enginetest.Draw(rng, drawArgs(rng))
	})
}

func drawArgs(rng *rand.Rand) engineargs.Args {
	args := engineargs.Default()
	args.Scheduler = engineargs.VLLMOwn
	args.BlockSize = 1 << rng.IntN(5)
	args.NumGPUBlocks = 8 + rng.IntN(40)
	args.MaxNumSeqs = 1 + rng.IntN(6)
	args.MaxNumBatchedTokens = args.MaxNumSeqs + rng.IntN(60)
	args.PrefixCaching = rng.IntN(4) > 0
	args.ChunkedPrefill = rng.IntN(4) > 0
	args.VLLM = engineargs.VLLMArgs{
		Async: rng.IntN(2) == 0, ReserveFullISL: rng.IntN(3) > 0,
		PrefillInterval: 1, MaxActiveSeqs: args.MaxNumSeqs, Release: engineargs.VLLM028,
	}
	if rng.IntN(3) == 0 {
		args.VLLM.LongPrefillTokenThreshold = 1 + rng.IntN(12)
	}
	if rng.IntN(2) == 0 {
		args.VLLM.Release = engineargs.VLLM033
		args.VLLM.PrefillInterval = 1 + rng.IntN(4)
		args.VLLM.MaxActiveSeqs = 1 + rng.IntN(args.MaxNumSeqs)
		args.VLLM.AdaptiveThreshold = rng.IntN(2) == 0
	}
	if rng.IntN(3) == 0 {
		args.Watermark = 0.15
	}
	if rng.IntN(3) == 0 {
		args.VLLM.Groups = drawGroups(rng, args)
		args.NumGPUBlocks *= 1 + rng.IntN(2*(1+args.VLLM.Groups.Beside))
		args.BlockSize = max(1, args.BlockSize-rng.IntN(2)) // of any size, not only powers of two
		args.VLLM.Groups.Retention = max(-1, args.VLLM.Groups.Retention*args.BlockSize)
	}
	if rng.IntN(4) == 0 {
		groups := args.VLLM.Groups
		withHost(rng, &args)
		args.VLLM.Groups = byChunks(groups, args.HostCache.ChunkBlocks)
	}
	args.VLLM.Fused = rng.IntN(4) == 0
	return args
}

// withHost puts host memory below the pool, with settings that go together with it.
func withHost(rng *rand.Rand, args *engineargs.Args) {
	args.PrefixCaching, args.ChunkedPrefill, args.Watermark = true, true, 0
	args.VLLM = engineargs.VLLMArgs{ReserveFullISL: true, PrefillInterval: 1, MaxActiveSeqs: args.MaxNumSeqs,
		Release: engineargs.VLLM033}
	args.HostCache = engineargs.HostCacheArgs{
		Blocks: 4 + rng.IntN(3*args.NumGPUBlocks), ARC: rng.IntN(2) == 0, ChunkBlocks: 1 + rng.IntN(3),
		StoreThreshold: 1 + rng.IntN(2),
		PromptOnly:     rng.IntN(3) > 0, LoadMsPerBlock: rng.Float64() * 4, StoreMsPerBlock: rng.Float64() * 4,
		LatencyMs: float64(rng.IntN(6)),
	}
}

// byChunks returns groups whose retention is by whole chunks of host memory.
func byChunks(groups engineargs.Groups, chunk int) engineargs.Groups {
	if groups.Retention > 0 {
		groups.Retention *= chunk
	}
	return groups
}

func drawGroups(rng *rand.Rand, args engineargs.Args) engineargs.Groups {
	g := engineargs.Groups{Beside: 1 + rng.IntN(3), Linear: rng.IntN(2) == 0, Retention: engineargs.RetainAll}
	if !g.Linear {
		g.Window = 2 + rng.IntN(5*args.BlockSize)
	}
	if args.VLLM.Release == engineargs.VLLM033 {
		g.Retention += rng.IntN(4)
	}
	return g
}
