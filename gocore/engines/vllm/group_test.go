package vllm

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

// TestShortcutsOfRanks runs random workloads on groups of ranks, with and without shortcuts.
func TestShortcutsOfRanks(t *testing.T) {
	enginetest.Shortcuts(t, 150, newGroup, func(seed uint64) enginetest.Workload {
		rng := rand.New(rand.NewPCG(seed, 8))
		args := drawArgs(rng)
		args.HostCache = engineargs.HostCacheArgs{}
		args.Ranks = 1 + rng.IntN(4)
		args.VLLM.RoundRobin = rng.IntN(2) == 0
		args.VLLM.PrefillInterval = 1 + rng.IntN(3)
		return enginetest.Draw(rng, args)
	})
}

// TestShortcutsOfRanksWithHost does the same on groups whose ranks have host memory.
func TestShortcutsOfRanksWithHost(t *testing.T) {
	enginetest.Shortcuts(t, 150, newGroup, func(seed uint64) enginetest.Workload {
		rng := rand.New(rand.NewPCG(seed, 81))
		return enginetest.Draw(rng, ranksWithHost(rng))
	})
}

func ranksWithHost(rng *rand.Rand) engineargs.Args {
	args := drawArgs(rng)
	args.VLLM.Groups.Beside, args.BlockSize = 0, 1<<rng.IntN(5)
	withHost(rng, &args)
	args.Ranks = 1 + rng.IntN(4)
	args.VLLM.RoundRobin = rng.IntN(2) == 0
	return args
}

// TestBooksOfRanks runs random workloads on ranks with host memory. What passes tell was stored or is about to be has
// been evicted or is on the hosts of the ranks, single copies add up to it, and those of a rank in one direction do not
// overlap.
func TestBooksOfRanks(t *testing.T) {
	moved := engine.Copied{}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 82))
		args := ranksWithHost(rng)
		g := NewGroup(args, engine.Setup{Explain: true})
		var told engine.Copied
		copied := make([]copies, args.Ranks)
		err := enginetest.Draw(rng, args).Run(g, func(p *engine.Pass) {
			if p.Parts == nil { // of a coast, before which all copies have ended
				return
			}
			told.Add(p.Copied)
			for _, c := range p.Parts.Copies {
				copied[c.Rank].add(t, seed, c)
			}
			kept, evicted, sum := 0, 0, [2]int{}
			for i := range g.ranks {
				for way, n := range copied[i].blocks {
					sum[way] += n
				}
				o := g.ranks[i].offload
				use := o.host.Use()
				kept, evicted = kept+(use.Evicted+use.Resident)*o.chunkBlocks, evicted+use.Evicted*o.chunkBlocks
				for _, list := range [][]*transferring{o.pending, o.fresh} {
					for _, t := range list {
						kept -= t.blocks
					}
				}
			}
			if told.Stored != kept || told.Evicted != evicted || told.Stored != sum[0] || told.Loaded != sum[1] {
				t.Fatalf("seed %d: told %+v, copies of %v blocks, %d kept, %d evicted", seed, told, sum, kept, evicted)
			}
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		moved.Add(told)
	}
	if moved.Loaded == 0 || moved.Evicted == 0 || moved.Found == 0 || moved.HeldMs == 0 {
		t.Errorf("nothing happened: %+v", moved)
	}
}
