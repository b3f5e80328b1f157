package sglang

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
)

func newGroup(args engineargs.Args, setup engine.Setup) enginetest.Engine {
	return NewGroup(args, setup)
}

// TestShortcutsOfRanks runs random workloads on groups of ranks, with and without coasting.
func TestShortcutsOfRanks(t *testing.T) {
	enginetest.Shortcuts(t, 600, newGroup, func(seed uint64) enginetest.Workload {
		rng := rand.New(rand.NewPCG(seed, 9))
		args := drawArgs(rng)
		args.HostCache = engineargs.HostCacheArgs{}
		args.Ranks = 1 + rng.IntN(4)
		args.SGLang.ChunkedPrefillSize *= args.Ranks
		return enginetest.Draw(rng, args)
	})
}
