package vllm

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
)

// TestBooksOfHost runs random workloads with host memory. After each pass, what was stored or is about to be has been
// evicted or is there, passes tell all of it, single copies add up to it, and none overlaps with the one before in its
// direction.
func TestBooksOfHost(t *testing.T) {
	moved := engine.Copied{}
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 36))
		args := drawArgs(rng)
		args.VLLM.Groups.Beside, args.BlockSize = 0, 1<<rng.IntN(5)
		withHost(rng, &args)
		s := New(args, engine.Setup{Explain: true})
		o := s.offload
		var told engine.Copied
		var copied copies
		err := enginetest.Draw(rng, args).Run(s, func(p *engine.Pass) {
			if p.Parts == nil { // of a coast, before which all copies have ended
				return
			}
			told.Add(p.Copied)
			for _, c := range p.Parts.Copies {
				copied.add(t, seed, c)
			}
			toCome, use, size := o.unsubmitted(), o.host.Use(), o.chunkBlocks
			if told.Stored+toCome != (use.Evicted+use.Resident)*size || told.Evicted != use.Evicted*size {
				t.Fatalf("seed %d: stored %d, to come %d, in chunks of %d %+v", seed, told.Stored, toCome, size, use)
			}
			if told.Stored != copied.blocks[0] || told.Loaded != copied.blocks[1] {
				t.Fatalf("seed %d: copies of %v blocks, told %+v", seed, copied.blocks, told)
			}
			running := 0
			for i := range o.loading.Len() {
				running += o.loading.At(i).blocks
			}
			if size == 1 && told.Loaded != use.Loaded+running {
				t.Fatalf("seed %d: loaded %d blocks, %d being loaded, %+v", seed, told.Loaded, running, use)
			}
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		moved.Add(told)
	}
	if moved.Loaded == 0 || moved.Evicted == 0 || moved.Found == 0 || moved.Missed == 0 {
		t.Errorf("nothing happened: %+v", moved)
	}
}

// copies counts the blocks that are copied to a host, and back, and knows when the last copy ends.
type copies struct {
	blocks [2]int
	ends   [2]float64
}

// add counts a copy, which must not overlap with the one before in its direction.
func (all *copies) add(t *testing.T, seed uint64, c engine.Copy) {
	t.Helper()
	way := 0
	if c.Back {
		way = 1
	}
	if c.StartMs < all.ends[way] || c.EndMs < c.StartMs {
		t.Fatalf("seed %d: %+v, after one that ends at %v", seed, c, all.ends[way])
	}
	all.blocks[way] += c.Blocks
	all.ends[way] = c.EndMs
}
