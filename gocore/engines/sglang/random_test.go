package sglang

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
)

// TestShortcuts runs random workloads with and without coasting.
func TestShortcuts(t *testing.T) {
	enginetest.Shortcuts(t, 3000, newEngine, func(seed uint64) enginetest.Workload {
		rng := rand.New(rand.NewPCG(seed, 7))
		return enginetest.Draw(rng, drawArgs(rng))
	})
}

func drawArgs(rng *rand.Rand) engineargs.Args {
	args := engineargs.Default()
	args.EngineType, args.Scheduler = engineargs.SGLang, engineargs.SGLangOwn
	args.BlockSize = 1 + rng.IntN(8)
	args.NumGPUBlocks = (8+rng.IntN(40))*8/args.BlockSize + 3
	args.MaxNumSeqs = 1 + rng.IntN(6)
	args.SGLang.ChunkedPrefillSize = args.BlockSize * (1 + rng.IntN(20))
	args.SGLang.MaxPrefillTokens = 1 + rng.IntN(100)
	args.SGLang.Conservativeness = []float64{0.05, 0.3, 1}[rng.IntN(3)]
	args.SGLang.Overlap, args.SGLang.IgnoreEOS = rng.IntN(2) == 0, rng.IntN(8) == 0
	args.SGLang.MixedChunk = rng.IntN(3) == 0
	if rng.IntN(3) == 0 {
		args.HostCache = engineargs.HostCacheArgs{
			Blocks: 1 + rng.IntN(2*args.NumGPUBlocks), WritePolicy: rng.IntN(3), LoadBackThreshold: rng.IntN(20),
			LoadMsPerBlock: rng.Float64(), StoreMsPerBlock: 3 * rng.Float64(), LatencyMs: rng.Float64(),
		}
	}
	if rng.IntN(3) == 0 {
		args.SGLang.Policy = engineargs.LPM
	}
	if rng.IntN(6) == 0 {
		args.SGLang.ClipMaxNewTokens = 1 + rng.IntN(20)
	}
	return args
}
