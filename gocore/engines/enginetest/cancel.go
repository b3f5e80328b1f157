package enginetest

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/kvcache"
)

// CheckCancel takes random requests out of an engine at random moments: those that were not cancelled get all their
// tokens, and those that were do not finish later. What the engine still holds then is for the caller to check.
func CheckCancel(t *testing.T, rng *rand.Rand, s engine.Engine) {
	t.Helper()
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
}
