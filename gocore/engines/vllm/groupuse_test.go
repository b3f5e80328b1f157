package vllm

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache/paged"
)

// TestBlocksByGroup: the blocks in use by the groups beside the first are those in the tables of the requests, whatever
// happens to these.
func TestBlocksByGroup(t *testing.T) {
	shared := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 43))
		args := drawArgs(rng)
		for args.VLLM.Groups.Beside == 0 || args.HostCache.Blocks > 0 {
			args = drawArgs(rng)
		}
		s := New(args, engine.Setup{})
		err := enginetest.Draw(rng, args).Run(s, func(*engine.Pass) {
			loose, held := 0, map[paged.Slot]bool{}
			for _, r := range s.running {
				for _, slot := range r.tables.slots {
					switch {
					case slot == paged.PartialSlot:
						loose++
					case held[slot]:
						shared++
					default:
						held[slot] = true
					}
				}
			}
			if now, _ := s.Groups(); now.Full != s.pool.InUse()-loose-len(held) {
				t.Fatalf("seed %d: %d of %d blocks are said to belong to full attention, and %d do not",
					seed, now.Full, s.pool.InUse(), loose+len(held))
			}
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if shared < 100 {
		t.Errorf("only %d blocks were shared", shared)
	}
}

// TestWaitsForGroups: two requests with prompts of 64 tokens, blocks of 16, a window of 64 beside full attention. The
// first takes 4 + 4 blocks, and then 5 + 5. The second waits until it has gone: of 11 blocks too few are left for full
// attention, of 15 for that and the window.
func TestWaitsForGroups(t *testing.T) {
	for _, c := range []struct {
		blocks int
		full   bool
	}{{11, true}, {15, false}} {
		args := engineargs.Default()
		args.Scheduler, args.BlockSize, args.NumGPUBlocks, args.PrefixCaching = engineargs.VLLMOwn, 16, c.blocks, false
		args.VLLM = engineargs.VLLMArgs{
			ReserveFullISL: true, PrefillInterval: 1, MaxActiveSeqs: args.MaxNumSeqs, Release: engineargs.VLLM033,
			Groups: engineargs.Groups{Beside: 1, Window: 64},
		}
		s := New(args, engine.Setup{})
		for id := range engine.RequestID(2) {
			s.Add(engine.Request{ID: id, PromptTokens: 64, OutputTokens: 8})
		}
		now, waited := 0.0, 0.0
		for s.Requests() > 0 {
			var endMs float64
			if ends := s.Coast(now, 1e9); len(ends) > 0 {
				endMs = ends[len(ends)-1]
				s.Settle(len(ends))
			} else {
				p, _ := s.RunPass(now)
				endMs = p.EndMs
			}
			if s.Requests() > 1 || s.waiting.Len() > 0 {
				waited = endMs
			}
			now = endMs
		}
		got, several := s.Groups()
		want := engine.GroupUse{WaitOthersMs: got.WaitOthersMs}
		if c.full {
			want = engine.GroupUse{WaitFullMs: got.WaitFullMs}
		}
		if sum := got.WaitFullMs + got.WaitOthersMs; !several || got != want || sum < 0.99*waited || sum > now {
			t.Errorf("%d blocks: %+v after %v ms, of which the second request waited more than %v", c.blocks, got, now,
				waited)
		}
	}
}
