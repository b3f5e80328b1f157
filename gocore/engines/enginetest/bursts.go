package enginetest

import (
	"math/rand/v2"
	"slices"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/kvcache"
)

// BurstEngine is an engine that may coast while it decodes speculatively.
type BurstEngine interface {
	engine.BurstCoaster
	Load() (waiting, running, activeBlocks int)
}

// CheckBursts runs the same requests on two engines, of which one coasts, and settles a part of each coast. Passes must
// have the same ends, and everything else must agree between coasts.
func CheckBursts(t *testing.T, coasting, stepping BurstEngine) {
	t.Helper()
	coasting.CoastWithBursts()
	rng := rand.New(rand.NewPCG(1, 0))
	for id := range 40 {
		output := 1 + rng.IntN(300)
		for _, e := range []BurstEngine{coasting, stepping} {
			e.Add(engine.Request{
				ID: engine.RequestID(id), Prompt: kvcache.Prompt{Segments: []uint32{uint32(id)}, PerSegment: 512},
				PromptTokens: 1 + id*7, OutputTokens: output,
			})
		}
	}
	now, coasted := 0.0, 0
	for coasting.Requests() > 0 {
		tokens, surplus := 0, 0
		ends := slices.Clone(coasting.Coast(now, now+rng.Float64()*1000))
		ends = ends[:rng.IntN(len(ends)+1)]
		for _, endMs := range ends {
			pass, _ := stepping.RunPass(now)
			if now = pass.EndMs; now != endMs {
				t.Fatalf("a pass ends at %v ms, want %v", endMs, now)
			}
			tokens += pass.Tokens
		}
		if len(ends) > 0 || rng.IntN(2) == 0 { // else a planned coast is forgotten
			coasting.Settle(len(ends))
			for _, more := range coasting.Surplus() {
				surplus += more.Tokens
			}
			_, running, _ := stepping.Load()
			if got := running*len(ends) + surplus; got != tokens {
				t.Fatalf("%v ms: %d tokens in %d passes, want %d", now, got, len(ends), tokens)
			}
		}
		coasted += len(ends)
		got, _ := coasting.RunPass(now)
		want, _ := stepping.RunPass(now)
		sameBursts(t, got, want)
		gotWaiting, gotRunning, gotBlocks := coasting.Load()
		waiting, running, blocks := stepping.Load()
		if gotWaiting != waiting || gotRunning != running || gotBlocks != blocks {
			t.Fatalf("%v ms: %d wait, %d run, %d blocks, want %d, %d, %d", now, gotWaiting, gotRunning, gotBlocks,
				waiting, running, blocks)
		}
		now = want.EndMs
	}
	if coasted < 50 {
		t.Errorf("only %d passes were coasted through", coasted)
	}
}

func sameBursts(t *testing.T, got, want *engine.Pass) {
	t.Helper()
	if got.EndMs != want.EndMs || got.Tokens != want.Tokens || !slices.Equal(got.Bursts, want.Bursts) ||
		!slices.Equal(got.Finished, want.Finished) || !slices.Equal(got.Started, want.Started) {
		t.Fatalf("got %+v\nwant %+v", *got, *want)
	}
}
