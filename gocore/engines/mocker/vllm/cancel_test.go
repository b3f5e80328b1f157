package vllm

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
)

// TestCancel takes requests out of engines with tight pools at random moments: those that were not cancelled get all
// their tokens, those that were get none any more, and nothing is left behind.
func TestCancel(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	for range 500 {
		args := engineargs.Default()
		args.BlockSize, args.NumGPUBlocks, args.MaxNumBatchedTokens = 4, 10+rng.IntN(10), 8+rng.IntN(40)
		args.Preemption = engineargs.PreemptionMode(rng.IntN(2))
		s := New(args, engine.Setup{})
		enginetest.CheckCancel(t, rng, s)
		if s.pool.Active() != 0 {
			t.Fatalf("%d blocks are still held", s.pool.Active())
		}
	}
}
