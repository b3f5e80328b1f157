package sglang

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/speculation"
)

// TestBurstVectors compares one request of 1000 tokens with runs of the reference.
func TestBurstVectors(t *testing.T) {
	for _, c := range []struct {
		args   string
		output int
		bursts []int
		lastMs float64
	}{
		{`"aic_nextn": 2`, 30, []int{2, 2, 2, 2, 3, 1, 2, 2, 3, 3, 2, 2, 2, 2}, 157.870288},
		{
			`"aic_nextn": 1, "aic_nextn_accept_rates": "0.5"`, 40,
			[]int{1, 1, 1, 2, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2, 1, 2, 2, 1, 2, 1, 1, 2, 1, 2, 2, 2}, 266.047962,
		},
		{
			`"aic_nextn": 3, "aic_nextn_accept_rates": "0.9,1,0.5", "aic_mtp_seed": 7`, 50,
			[]int{4, 3, 3, 4, 3, 4, 4, 3, 3, 3, 4, 3, 4, 1, 4}, 167.33482600000002,
		},
	} {
		args := enginetest.Args(t, `{"engine_type": "sglang", `+c.args+`}`)
		m := newSimulation(args, workload{traceBlock: 512,
			arrivals: []arrival{{prompt: 1000, output: c.output, ids: []int{1, 2}}}})
		var bursts []int
		for m.release() {
			pass, err := m.step(m.s.RunPass)
			if err != nil {
				t.Fatal(err)
			}
			bursts = append(bursts, pass.Tokens)
			if listed := len(pass.Bursts) == 1 && pass.Bursts[0].Tokens == pass.Tokens; listed != (pass.Tokens > 1) {
				t.Errorf("%s: %d tokens, bursts %v", c.args, pass.Tokens, pass.Bursts)
			}
		}
		if m.nowMs != c.lastMs || !slices.Equal(bursts, c.bursts) {
			t.Errorf("%s:\n got %v, ending at %v\nwant %v, ending at %v", c.args, bursts, m.nowMs, c.bursts, c.lastMs)
		}
	}
}

// TestBurstSignals: the first and the last token of one burst are two signals, a single token is one.
func TestBurstSignals(t *testing.T) {
	args := enginetest.Args(t, `{"engine_type": "sglang", "aic_nextn": 2, "aic_nextn_accept_rates": "1,1"}`)
	for output, want := range map[int][]engine.Signal{
		1: {{Final: true}},
		3: {{}, {Final: true}},
		4: {{}},
	} {
		m := newSimulation(args, workload{traceBlock: 8,
			arrivals: []arrival{{prompt: 8, output: output, ids: []int{1}}}})
		m.s.Observe()
		m.release()
		if pass, _ := m.s.RunPass(0); !slices.Equal(pass.Signals, want) || pass.Tokens != min(output, 3) {
			t.Errorf("output %d: %d tokens, signals %v, want %v", output, pass.Tokens, pass.Signals, want)
		}
	}
}

// TestDrawsInRunningOrder: two requests draw in turn from one generator, also one with a single token left.
func TestDrawsInRunningOrder(t *testing.T) {
	args := enginetest.Args(t, `{"engine_type": "sglang", "aic_nextn": 2, "aic_nextn_accept_rates": "0.7,0.5"}`)
	m := newSimulation(args, workload{traceBlock: 8, arrivals: []arrival{
		{prompt: 8, output: 3, ids: []int{1}}, {prompt: 8, output: 9, ids: []int{2}},
	}})
	var got []string
	for m.release() {
		pass, err := m.step(m.s.RunPass)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(pass.Tokens, pass.Bursts))
	}
	// The generator draws 2 3, 3 1, 1, 3, 1: of the second 3 only 1 token is left to emit, and of the last 3 all.
	if want := []string{"5 [{0 2} {1 3}]", "2 []", "1 []", "3 [{1 3}]", "1 []"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestBurstCoasts compares coasts with passes that are run one by one, in pools that are large or evict all the time.
func TestBurstCoasts(t *testing.T) {
	for _, pool := range []string{`"num_gpu_blocks": 4096, "block_size": 4`, `"num_gpu_blocks": 200, "block_size": 16`,
		`"num_gpu_blocks": 2400, "block_size": 1`} {
		args := enginetest.Args(t, `{"engine_type": "sglang", "max_num_seqs": 5, `+pool+`}`)
		made := func() *Scheduler {
			return New(args, engine.Setup{Drafts: speculation.New([]float64{0.85, 1, 0.3}, 7)})
		}
		enginetest.CheckBursts(t, made(), made())
		if ends := made().Coast(0, math.Inf(1)); len(ends) > 0 {
			t.Errorf("an idle engine coasts: %v", ends)
		}
	}
}
