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
		ends := make([][2]float64, args.Ranks)
		copied := [2]int{}
		err := enginetest.Draw(rng, args).Run(g, func(p *engine.Pass) {
			if p.Parts == nil { // of a coast, before which all copies have ended
				return
			}
			told.Add(p.Copied)
			for _, c := range p.Parts.Copies {
				way := 0
				if c.Back {
					way = 1
				}
				if c.StartMs < ends[c.Rank][way] || c.EndMs < c.StartMs {
					t.Fatalf("seed %d: %+v, after one that ends at %v", seed, c, ends[c.Rank][way])
				}
				ends[c.Rank][way] = c.EndMs
				copied[way] += c.Blocks
			}
			kept, evicted := 0, 0
			for i := range g.ranks {
				o := g.ranks[i].offload
				use := o.host.Use()
				kept, evicted = kept+(use.Evicted+use.Resident)*o.chunkBlocks, evicted+use.Evicted*o.chunkBlocks
				for _, list := range [][]*transferring{o.pending, o.fresh} {
					for _, t := range list {
						kept -= t.blocks
					}
				}
			}
			if told.Stored != kept || told.Evicted != evicted || told.Stored != copied[0] || told.Loaded != copied[1] {
				t.Fatalf("seed %d: told %+v, copies of %v blocks, %d kept, %d evicted", seed, told, copied, kept, evicted)
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
