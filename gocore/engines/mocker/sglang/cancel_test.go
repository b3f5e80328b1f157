package sglang

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/kvcache"
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
		const requests = 8
		for id := range engine.RequestID(requests) {
			s.Add(engine.Request{
				ID: id, Prompt: kvcache.Prompt{Segments: []uint32{uint32(id % 3), 10 + uint32(id)}, PerSegment: 4},
				PromptTokens: 1 + rng.IntN(20), OutputTokens: 1 + rng.IntN(15),
			})
		}
		ended, cancelled := map[engine.RequestID]bool{}, map[engine.RequestID]bool{}
		for now, passes := 0.0, 0; s.Requests() > 0; passes++ {
			pass, alive := s.RunPass(now)
			if !alive && !s.Unblock() || passes > 10_000 {
				t.Fatalf("it does not end: %+v", s.States())
			}
			now = pass.EndMs
			for _, id := range pass.Finished {
				if cancelled[id] || ended[id] {
					t.Fatalf("request %d ends again", id)
				}
				ended[id] = true
			}
			if id := engine.RequestID(rng.IntN(3 * requests)); id < requests {
				s.Cancel(id)
				s.Cancel(id)
				cancelled[id] = true
			}
		}
		for id := range engine.RequestID(requests) {
			if !ended[id] && !cancelled[id] {
				t.Fatalf("request %d is lost", id)
			}
		}
		if s.pool.Available() != s.pool.Total() {
			t.Fatalf("%d slots are still held", s.pool.Total()-s.pool.Available())
		}
	}
}
