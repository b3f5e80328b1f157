package sglang

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
		args.EngineType, args.BlockSize, args.NumGPUBlocks = engineargs.SGLang, 4, 10+rng.IntN(10)
		args.SGLang.ChunkedPrefillSize, args.SGLang.ReferenceQuirks = 8, false
		args.SGLang.Policy = engineargs.SchedulePolicy(rng.IntN(2))
		s := New(args, engine.Setup{})
		enginetest.CheckCancel(t, rng, s)
		if s.pool.Available() != s.pool.Total() {
			t.Fatalf("%d slots are still held", s.pool.Total()-s.pool.Available())
		}
	}
}
