package cluster

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/handoff"
)

// importing returns one worker that may take prompts over, which takes 1 ms for 16 tokens.
func importing(t *testing.T, arguments string) *Cluster {
	args := enginetest.Args(t, arguments)
	return New(Config{
		Pools:    []Pool{{Args: args, Workers: 1, Setup: func(int) engine.Setup { return engine.Setup{} }}},
		Transfer: handoff.Transfer{BytesPerToken: 62500, BandwidthGBs: 1},
	})
}

// asking returns a request for a prompt without a kin.
func asking(prompt, output int, imported bool, r *record) *Request {
	tokens := make([]uint32, prompt+output)
	for i := range tokens {
		tokens[i] = rand.Uint32()
	}
	return &Request{Keys: Keys(tokens, 16, ""), PromptTokens: prompt, OutputTokens: output, Sink: r, Imported: imported}
}

// TestImportedPrompt: a prompt that comes from elsewhere takes its transfer in place of its computation, beside which
// other requests are served.
func TestImportedPrompt(t *testing.T) {
	for _, arguments := range []string{`{"block_size":16}`, `{"engine_type":"sglang","block_size":16}`,
		`{"engine_type":"trtllm","block_size":16}`} {
		var local, imported, second record
		c := importing(t, arguments)
		step := func(atMs float64, r *Request) {
			t.Helper()
			if err := c.Step(atMs, []*Request{r}, nil); err != nil {
				t.Fatal(err)
			}
			drain(t, c)
		}
		step(0, asking(4000, 3, false, &local))
		gapMs := (local.last - local.first) / 2
		step(1000, asking(4000, 3, true, &imported))
		if wantMs := 1000 + 250 + gapMs; imported.first < wantMs-0.1*gapMs || imported.first > wantMs+0.1*gapMs {
			t.Errorf("%s: the first token came at %v, want about %v: transfer and a pass; computing the prompt takes %v",
				arguments, imported.first, wantMs, local.first)
		}
		if imported.tokens != 3 || imported.ended != 1 || imported.reason != "" {
			t.Errorf("%s: got %+v", arguments, imported)
		}
		again := asking(4000, 1, true, &second)
		step(5000, again)
		if second.first < 5250 {
			t.Errorf("%s: the first token came at %v, before the transfer has ended", arguments, second.first)
		}
		checkEmpty(t, c)
	}
}

// TestImportedPromptWaits: it waits for room, and leaves when it is cancelled before, during and after its transfer.
func TestImportedPromptWaits(t *testing.T) {
	c := importing(t, `{"block_size":16,"num_gpu_blocks":20}`)
	var holds, waits, large, local record
	step := func(atMs float64, arrivals, cancels []*Request) {
		t.Helper()
		if err := c.Step(atMs, arrivals, cancels); err != nil {
			t.Fatal(err)
		}
	}
	step(0, []*Request{asking(160, 100, true, &holds), asking(240, 2, true, &waits), asking(480, 1, true, &large)}, nil)
	step(0, []*Request{asking(16, 2, false, &local)}, nil)
	drain(t, c)
	if large.ended != 1 || large.reason == "" || large.tokens != 0 {
		t.Errorf("a prompt beyond the pool: got %+v", large)
	}
	if holds.tokens != 100 || waits.tokens != 2 || local.tokens != 2 || waits.first < holds.last {
		t.Errorf("got %+v, %+v and %+v", holds, waits, local)
	}
	for _, afterMs := range []float64{0, 1, 5, 10, 10.5, 40} {
		var first, second record
		nowMs := c.fleet.NowMs() + 1000
		one, two := asking(160, 100, true, &first), asking(240, 2, true, &second)
		step(nowMs, []*Request{one, two}, nil)
		step(nowMs+afterMs, nil, []*Request{one})
		drain(t, c)
		if first.ended != 0 || second.ended != 1 || second.tokens != 2 {
			t.Errorf("cancelled after %v ms: got %+v and %+v", afterMs, first, second)
		}
	}
	checkEmpty(t, c)
}
