package sglang

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
)

// TestBooksOfHost runs random workloads with host memory. What was stored has been evicted or is there, when no copy is
// to come, and passes tell all of it.
func TestBooksOfHost(t *testing.T) {
	moved := engine.Copied{}
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 36))
		args := drawArgs(rng)
		args.HostCache = engineargs.HostCacheArgs{
			Blocks: 1 + rng.IntN(2*args.NumGPUBlocks), WritePolicy: rng.IntN(3), LoadBackThreshold: rng.IntN(20),
			LoadMsPerBlock: rng.Float64(), StoreMsPerBlock: 3 * rng.Float64(), LatencyMs: rng.Float64(),
		}
		s := New(args, engine.Setup{Explain: true})
		var told engine.Copied
		var copied [2]int
		err := enginetest.Draw(rng, args).Run(s, func(p *engine.Pass) {
			if p.Parts == nil { // of a coast
				return
			}
			told.Add(p.Copied)
			for _, c := range p.Parts.Copies {
				copied[way(c)] += c.Blocks
			}
			use := s.pool.HostUse()
			if use.Stored > use.Evicted+use.Resident || !s.pool.Copying() && use.Stored != use.Evicted+use.Resident ||
				use.Resident > args.HostCache.Blocks {
				t.Fatalf("seed %d: %+v in a host of %d, copying %v", seed, use, args.HostCache.Blocks, s.pool.Copying())
			}
			if copied != [2]int{use.Stored, use.Loaded} {
				t.Fatalf("seed %d: copies of %v pages, %+v", seed, copied, use)
			}
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		moved.Add(told)
	}
	if moved.Stored == 0 || moved.Loaded == 0 || moved.Evicted == 0 || moved.Found == 0 {
		t.Errorf("nothing happened: %+v", moved)
	}
}
