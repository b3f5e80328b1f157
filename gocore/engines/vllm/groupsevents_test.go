package vllm

import (
	"math/rand/v2"
	"slices"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/paged"
)

// TestEventsOfGroups checks that the events of each pass add up to what is cached in each group, also when blocks are
// stored twice or leave the pool in one group only.
func TestEventsOfGroups(t *testing.T) {
	removed := map[int]int{}
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 34))
		args := drawArgs(rng)
		for args.VLLM.Groups.Beside == 0 || args.HostCache.Blocks > 0 || !args.PrefixCaching {
			args = drawArgs(rng)
		}
		w := enginetest.Draw(rng, args)
		w.Observe = true
		s := New(args, engine.Setup{})
		cached := map[kvcache.BlockID]bool{} // by id in its group
		err := w.Run(s, func(p *engine.Pass) {
			for _, e := range p.KVEvents {
				if e.Group > args.VLLM.Groups.Beside || len(e.Blocks) == 0 {
					t.Fatalf("seed %d: event %+v of %d groups", seed, e, 1+args.VLLM.Groups.Beside)
				}
				for id := range e.Blocks.All() {
					at := paged.InGroup(id, e.Group)
					if had := cached[at]; had != (e.Kind == kvcache.Removed) {
						t.Fatalf("seed %d: event %+v, and block %x was there: %v", seed, e, id, had)
					}
					cached[at] = e.Kind == kvcache.Stored
				}
				if e.Kind == kvcache.Removed {
					removed[min(e.Group, 1)]++
				}
			}
			for at, want := range cached {
				if _, _, got := s.pool.Find(at); got != want {
					t.Fatalf("seed %d: block %x is in the pool: %v, by its events: %v", seed, at, got, want)
				}
			}
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if removed[0] < 200 || removed[1] < 200 {
		t.Errorf("only %v events of removed blocks, by group", removed)
	}
}

// TestParentsOfGroups: events name the block before the first one, whatever the group, and list blocks that follow each
// other together.
func TestParentsOfGroups(t *testing.T) {
	args := engineargs.Default()
	args.Scheduler, args.BlockSize, args.NumGPUBlocks = engineargs.VLLMOwn, 16, 60
	args.VLLM = engineargs.VLLMArgs{
		ReserveFullISL: true, PrefillInterval: 1, MaxActiveSeqs: args.MaxNumSeqs, Release: engineargs.VLLM033,
		Groups: engineargs.Groups{Beside: 2, Window: 32},
	}
	s := New(args, engine.Setup{})
	s.Observe()
	prompt := kvcache.Prompt{PerSegment: 1, Segments: []uint32{1, 2, 3, 4, 5, 6}}
	s.Add(engine.Request{PromptTokens: 96, OutputTokens: 1, Prompt: prompt})
	p, _ := s.RunPass(0)
	want := []kvcache.Event{ // entries 3 and 4 of the windows: what the same prompt needs at the end of its hit
		{Blocks: kvcache.BlocksOf(1, 2, 3, 4, 5, 6)},
		{Group: 1, Blocks: kvcache.BlocksOf(4, 5), Parent: 3, HasParent: true},
		{Group: 2, Blocks: kvcache.BlocksOf(4, 5), Parent: 3, HasParent: true},
	}
	if len(p.KVEvents) != len(want) {
		t.Fatalf("got %+v, want %+v", p.KVEvents, want)
	}
	for i, e := range p.KVEvents {
		if !slices.Equal(e.Blocks, want[i].Blocks) || e.Group != want[i].Group ||
			e.Parent != want[i].Parent || e.HasParent != want[i].HasParent {
			t.Errorf("event %d: got %+v, want %+v", i, e, want[i])
		}
	}
}
