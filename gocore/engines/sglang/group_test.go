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
		return enginetest.Draw(rng, drawRanks(rng))
	})
}

// drawRanks returns the arguments of ranks, a third of them with host memory.
func drawRanks(rng *rand.Rand) engineargs.Args {
	args := drawArgs(rng)
	args.Ranks = 1 + rng.IntN(4)
	args.SGLang.ChunkedPrefillSize *= args.Ranks
	return args
}

// TestBooksOfRanks runs random workloads on ranks, a third of them with host memory. What was stored has been evicted
// or is on the hosts of the ranks, and passes tell all of it.
func TestBooksOfRanks(t *testing.T) {
	moved := engine.Copied{}
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 10))
		args := drawRanks(rng)
		g := NewGroup(args, engine.Setup{Explain: true})
		var told engine.Copied
		var copied [2]int
		err := enginetest.Draw(rng, args).Run(g, func(p *engine.Pass) {
			if p.Parts == nil { // of a coast
				return
			}
			told.Add(p.Copied)
			for _, c := range p.Parts.Copies {
				copied[way(c)] += c.Blocks
			}
			if args.HostCache.Blocks > 0 {
				checkBooks(t, seed, g, copied)
			}
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		moved.Add(told)
	}
	if moved.Stored == 0 || moved.Loaded == 0 || moved.Evicted == 0 || moved.Found == 0 || moved.HeldMs == 0 {
		t.Errorf("nothing happened: %+v", moved)
	}
}

func checkBooks(t *testing.T, seed uint64, g *Group, copied [2]int) {
	t.Helper()
	all := [2]int{}
	for i, s := range g.ranks {
		use := s.pool.HostUse()
		all[0], all[1] = all[0]+use.Stored, all[1]+use.Loaded
		if kept := use.Evicted + use.Resident; use.Stored > kept || !s.pool.Copying() && use.Stored != kept {
			t.Fatalf("seed %d, rank %d: %+v, copying %v", seed, i, use, s.pool.Copying())
		}
	}
	if copied != all {
		t.Fatalf("seed %d: copies of %v pages, of the ranks %v", seed, copied, all)
	}
}

// way returns 0 for a copy to the host, 1 for one back.
func way(c engine.Copy) int {
	if c.Back {
		return 1
	}
	return 0
}
