package vllm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
)

// TestWork compares with what the reference reported of the same requests: prompts of 96 and of 72 tokens, 32 of them
// cached.
func TestWork(t *testing.T) {
	m := newSimulation(enginetest.Args(t, `{"block_size": 16, "num_gpu_blocks": 64}`), []arrival{
		{name: "A", prompt: 96, output: 2, ids: []int{1, 2, 3, 4, 5, 6}},
		{name: "B", atMs: 1000, prompt: 72, output: 3, ids: []int{1, 2, 7, 7, 7}},
	})
	m.s.ReportWork()
	want := []string{
		"prefill 1;96;0 decode 0;0", "prefill 0;0;0 decode 1;97",
		"prefill 1;40;32 decode 0;0", "prefill 0;0;0 decode 1;73", "prefill 0;0;0 decode 1;74",
	}
	pass := 0
	err := m.run(func(*engine.Pass) error {
		w := m.s.Work().Scheduled
		got := fmt.Sprintf("prefill %d;%d;%d decode %d;%d", w.PrefillRequests, w.PrefillTokens, w.PrefillKVTokens,
			w.DecodeRequests, w.DecodeKVTokens)
		if pass >= len(want) || got != want[pass] {
			t.Errorf("pass %d: got %s", pass, got)
		}
		pass++
		return nil
	})
	if err != nil || pass != len(want) {
		t.Errorf("%d passes, %v", pass, err)
	}
}

func TestVariance(t *testing.T) {
	var p engine.Phases
	for _, tokens := range []int{2, 4, 4, 4, 5, 5, 7, 9} {
		p.AddPrefill(tokens, 1, 0)
		p.AddDecode(10 * tokens)
	}
	if math.Abs(p.PrefillVariance-4) > 1e-12 || math.Abs(p.DecodeKVVariance-400) > 1e-9 {
		t.Errorf("got %v and %v, want 4 and 400", p.PrefillVariance, p.DecodeKVVariance)
	}
}

// TestWorkOfRandomWorkloads: each request that got a share of a pass is in its work, and it does not matter
// whether the engine serves them one by one.
func TestWorkOfRandomWorkloads(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for range 300 {
		data := enginetest.RandomBytes(rng, 12, 60)
		var runs [2][]engine.Work
		for i, plain := range []bool{true, false} {
			args, workload := workloadFrom(data)
			m := newSimulationWith(args, setupFrom(data), workload)
			m.plain = plain
			m.s.ReportWork()
			err := m.run(func(p *engine.Pass) error {
				w := m.s.Work()
				runs[i] = append(runs[i], w)
				waiting, running, _ := m.s.Load()
				if n := w.Scheduled.PrefillRequests + w.Scheduled.DecodeRequests; n != p.Scheduled {
					return fmt.Errorf("%d requests have work, %d were scheduled", n, p.Scheduled)
				}
				if n := w.Queued.PrefillRequests + w.Queued.DecodeRequests; n != waiting ||
					waiting+running != m.s.Requests() {
					return fmt.Errorf("%d requests are queued, %d wait, %d run", n, waiting, running)
				}
				return nil
			})
			if err != nil {
				t.Fatalf("%v\ndata %#v", err, data)
			}
		}
		if fmt.Sprint(runs[0]) != fmt.Sprint(runs[1]) {
			t.Fatalf("one by one %v\nsteady %v\ndata %#v", runs[0], runs[1], data)
		}
	}
}
