package vllm

import (
	"math"
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/timing"
)

// expertTimes takes 1 ms for the attention of a prompt token and 2 ms for that of a decoding request; the expert layers
// take 10 and 20 ms for each token of a rank, if they can be told apart.
type expertTimes struct{ known bool }

func (expertTimes) PrefillMs(s timing.PrefillShape) float64 {
	return float64(11 * s.Requests * s.NewTokens())
}

func (expertTimes) DecodeMs(s timing.DecodeShape) float64 { return float64(22 * s.Requests) }

func (m expertTimes) KnowsExperts() bool { return m.known }

func (expertTimes) ExpertsMs(part timing.Kind, tokens int) float64 {
	if part == timing.Decode {
		return float64(20 * tokens)
	}
	return float64(10 * tokens)
}

func rankArgs(t *testing.T, more string) engineargs.Args {
	t.Helper()
	return enginetest.Args(t, `{"scheduler": "vllm", "block_size": 4, "num_gpu_blocks": 64,
		"dp_routing": "round_robin",
		"async_scheduling": false, "enable_prefix_caching": false`+more+`}`)
}

// TestExpertsOfAllRanks sends 12 prompt tokens to one of four ranks. Each rank has the experts of 12 / 4 = 3 of them to
// compute, and of one token that comes out, as a quarter is rounded up: 12*1 + 3*10 + 2 + 20 = 64 ms. Then it decodes
// while another rank computes as long a prompt; at last both decode. Where passes are one forward, the prompts pay for
// the token that comes out, and for the experts of the one that decodes beside them: 12*1 + 3*10 = 42 ms.
func TestExpertsOfAllRanks(t *testing.T) {
	for _, c := range []struct {
		model timing.Model
		more  string
		want  []float64 // ends of passes
	}{
		{expertTimes{known: true}, `, "dp_size": 4`, []float64{64, 128, 150}},
		{timing.Scale(expertTimes{known: true}, 2, 3), `, "dp_size": 4`, []float64{150, 300, 366}},
		{expertTimes{known: true}, `, "dp_size": 4, "speedup_ratio": 2`, []float64{32, 64, 75}},
		{expertTimes{known: true}, `, "dp_size": 4, "step_overhead_us": 5000`, []float64{69, 138, 165}},
		{expertTimes{}, `, "dp_size": 4`, []float64{154, 308, 330}},
		{expertTimes{known: true}, `, "dp_size": 2`, []float64{94, 188, 210}},
		{expertTimes{known: true}, `, "dp_size": 4, "pass_time": "fused"`, []float64{42, 84, 106}},
		{expertTimes{known: true}, `, "dp_size": 2, "pass_time": "fused"`, []float64{72, 144, 166}},
		{expertTimes{known: true}, `, "dp_size": 4, "pass_time": "fused", "step_overhead_us": 5000`, []float64{47, 94, 121}},
		{expertTimes{}, `, "dp_size": 4, "pass_time": "fused"`, []float64{132, 264, 286}},
	} {
		g := NewGroup(rankArgs(t, c.more), engine.Setup{Model: c.model, Explain: true})
		now := 0.0
		for i, want := range c.want {
			if i < 2 { // rank 0, then rank 1 while rank 0 decodes
				g.Add(engine.Request{ID: engine.RequestID(i), PromptTokens: 12, OutputTokens: 3 - i, SentMs: now})
			}
			pass, _ := g.RunPass(now)
			if math.Abs(pass.EndMs-want) > 1e-9 {
				t.Fatalf("%+v: pass %d ends at %v, want %v", c, i, pass.EndMs, want)
			}
			if sum := pass.Parts.PromptMs + pass.Parts.DecodeMs + pass.Parts.HostMs; math.Abs(now+sum-want) > 1e-9 {
				t.Errorf("%+v: the parts of pass %d are %+v, want %v together", c, i, pass.Parts, want-now)
			}
			now = pass.EndMs
		}
	}
}

// TestExpertsOfPrefillWorkers: a pass of ranks that only compute prompts has the host's time once, and no decode part.
func TestExpertsOfPrefillWorkers(t *testing.T) {
	for more, want := range map[string]float64{
		``:                           12 + 6*10,
		`, "pass_time": "fused"`:     12 + 6*10,
		`, "step_overhead_us": 5000`: 12 + 6*10 + 5,
	} {
		g := NewGroup(rankArgs(t, `, "dp_size": 2`+more),
			engine.Setup{Model: expertTimes{known: true}, Role: engine.Prefill})
		g.Add(engine.Request{ID: 1, PromptTokens: 12, OutputTokens: 1})
		if pass, _ := g.RunPass(0); math.Abs(pass.EndMs-want) > 1e-9 {
			t.Errorf("%s: the pass ends at %v, want %v", more, pass.EndMs, want)
		}
	}
}

// leastTokens remembers the fewest tokens that experts were asked for.
type leastTokens struct {
	expertTimes
	least *int
}

func (m leastTokens) ExpertsMs(part timing.Kind, tokens int) float64 {
	*m.least = min(*m.least, tokens)
	return m.expertTimes.ExpertsMs(part, tokens)
}

// TestExpertsOfCancelledRequests: experts are corrected by the tokens that a pass was measured with, also if a request
// whose prompt ends in it was cancelled while the pass before it ran.
func TestExpertsOfCancelledRequests(t *testing.T) {
	for cancelledAt := range 4 {
		least := 0
		g := NewGroup(enginetest.Args(t, `{"scheduler": "vllm", "block_size": 4, "num_gpu_blocks": 64, "dp_size": 2,
			"max_num_batched_tokens": 8, "max_num_seqs": 8,
			"dp_routing": "round_robin", "pass_time": "fused", "enable_prefix_caching": false}`),
			engine.Setup{Model: leastTokens{expertTimes{known: true}, &least}})
		for id := range engine.RequestID(2) {
			g.Add(engine.Request{ID: id, PromptTokens: 14, OutputTokens: 9})
		}
		now := 0.0
		for i := range 8 {
			if i == cancelledAt {
				g.Cancel(0)
			}
			pass, ran := g.RunPass(now)
			if !ran || pass.EndMs <= now {
				t.Fatalf("pass %d ends at %v after %v", i, pass.EndMs, now)
			}
			now = pass.EndMs
		}
		if least < 0 {
			t.Errorf("cancelled at %d: experts were asked for %d tokens", cancelledAt, least)
		}
	}
}

// TestExpertsOfEqualRanks compares ranks that all have the same requests with a single engine: nothing is to be
// corrected.
func TestExpertsOfEqualRanks(t *testing.T) {
	model := expertTimes{known: true}
	group := NewGroup(rankArgs(t, `, "dp_size": 3`), engine.Setup{Model: model})
	alone := New(rankArgs(t, ""), engine.Setup{Model: model})
	rng := rand.New(rand.NewPCG(5, 0))
	now := 0.0
	for id := engine.RequestID(0); id < 300; id++ {
		if rng.IntN(4) == 0 {
			req := engine.Request{ID: id, PromptTokens: 1 + rng.IntN(40), OutputTokens: 1 + rng.IntN(9), SentMs: now}
			alone.Add(req)
			for rank := range 3 {
				req.ID = 3*id + engine.RequestID(rank)
				group.Add(req)
			}
		}
		together, _ := group.RunPass(now)
		single, _ := alone.RunPass(now)
		if math.Abs(together.EndMs-single.EndMs) > 1e-6 {
			t.Fatalf("at %v ms: ranks end at %v, one engine at %v", now, together.EndMs, single.EndMs)
		}
		now = max(together.EndMs, now+1)
	}
}

// TestExpertsEndCoasting makes sure that no pass is run without the correction, whatever the model.
func TestExpertsEndCoasting(t *testing.T) {
	g := NewGroup(rankArgs(t, `, "dp_size": 2`), engine.Setup{Model: pureTimes{expertTimes{known: true}}})
	g.Add(engine.Request{ID: 1, PromptTokens: 12, OutputTokens: 100})
	pass, _ := g.RunPass(0)
	pass, _ = g.RunPass(pass.EndMs)
	if ends := g.Coast(pass.EndMs, math.Inf(1)); ends != nil {
		t.Errorf("coasts through %d passes", len(ends))
	}
}

type pureTimes struct{ expertTimes }

func (pureTimes) Pure() bool { return true }
