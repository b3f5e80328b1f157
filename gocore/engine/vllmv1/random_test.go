package vllmv1

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine/enginetest"
	"dynosim/gocore/engineargs"
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
	args.VLLM = engineargs.VLLMArgs{Async: rng.IntN(2) == 0, ReserveFullISL: rng.IntN(3) > 0}
	if rng.IntN(3) == 0 {
		args.VLLM.LongPrefillTokenThreshold = 1 + rng.IntN(12)
	}
	if rng.IntN(3) == 0 {
		args.Watermark = 0.15
	}
	return args
}
