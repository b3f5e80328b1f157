package vllm

import (
	"fmt"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
)

// TestNoHang runs workloads on which the reference hangs or gives up, together with requests that must not suffer. ends
// says how each request ends, in order of arrival: "tokens", or a part of the reason for which it is rejected.
func TestNoHang(t *testing.T) {
	const overPool, overBudget, overWatermark = "num_gpu_blocks is", "chunked prefill is off", "the watermark leaves"
	small := arrival{name: "small", atMs: 1, prompt: 8, output: 2}
	for _, c := range []struct {
		name     string
		args     string
		workload []arrival
		ends     []string
		passes   int // at most
	}{
		{
			name:     "output one token too long",
			args:     `"block_size": 16, "num_gpu_blocks": 2`,
			workload: []arrival{{prompt: 20, output: 13}, small},
			ends:     []string{overPool, "tokens"}, passes: 3,
		},
		{
			name:     "output just short enough",
			args:     `"block_size": 16, "num_gpu_blocks": 2`,
			workload: []arrival{{prompt: 20, output: 12}, small},
			ends:     []string{"tokens", "tokens"}, passes: 14,
		},
		{
			name:     "prompt fills the pool",
			args:     `"block_size": 16, "num_gpu_blocks": 2`,
			workload: []arrival{{prompt: 32, output: 1}, small},
			ends:     []string{overPool, "tokens"}, passes: 3,
		},
		{
			name:     "prompt fills the pool of two blocks of 8",
			args:     `"block_size": 8, "num_gpu_blocks": 2`,
			workload: []arrival{{prompt: 16, output: 1}, small},
			ends:     []string{overPool, "tokens"}, passes: 3,
		},
		{
			name:     "ninth token after 16 in three blocks of 8",
			args:     `"block_size": 8, "num_gpu_blocks": 3`,
			workload: []arrival{{prompt: 16, output: 9}, small},
			ends:     []string{overPool, "tokens"}, passes: 3,
		},
		{
			name:     "prompt larger than the pool",
			args:     `"block_size": 16, "num_gpu_blocks": 2`,
			workload: []arrival{{prompt: 33, output: 1}, small},
			ends:     []string{overPool, "tokens"}, passes: 3,
		},
		{
			name:     "output of two thousand million",
			args:     `"block_size": 16, "num_gpu_blocks": 2`,
			workload: []arrival{{prompt: 8, output: 1<<31 - 1}, small, {atMs: 2, prompt: 1 << 16, output: 1<<31 - 1}},
			ends:     []string{overPool, "tokens", overPool}, passes: 4,
		},
		{
			name:     "behind the head of the queue",
			args:     `"block_size": 16, "num_gpu_blocks": 3, "max_num_seqs": 1`,
			workload: []arrival{{prompt: 16, output: 4}, {prompt: 40, output: 9}, {prompt: 16, output: 40}, small},
			ends:     []string{"tokens", overPool, overPool, "tokens"}, passes: 6,
		},
		{
			name:     "prompt over the budget, chunking off",
			args:     `"block_size": 16, "num_gpu_blocks": 64, "max_num_batched_tokens": 64, "enable_chunked_prefill": false`,
			workload: []arrival{{prompt: 100, output: 2}, small},
			ends:     []string{overBudget, "tokens"}, passes: 3,
		},
		{
			name:     "prompt over the budget, chunking on",
			args:     `"block_size": 16, "num_gpu_blocks": 64, "max_num_batched_tokens": 64`,
			workload: []arrival{{prompt: 100, output: 2}, small},
			ends:     []string{"tokens", "tokens"}, passes: 4,
		},
		{
			// 10,000 prompt chunks without a token and without a preemption are not a stall.
			name:     "budget of one token",
			args:     `"block_size": 16, "num_gpu_blocks": 2048, "max_num_batched_tokens": 1`,
			workload: []arrival{{prompt: 30000, output: 2}, small},
			ends:     []string{"tokens", "tokens"}, passes: 31000,
		},
		{
			name:     "prompt and reserve over the pool",
			args:     `"block_size": 16, "num_gpu_blocks": 4, "watermark": 0.5`,
			workload: []arrival{{prompt: 33, output: 1}, small},
			ends:     []string{overWatermark, "tokens"}, passes: 3,
		},
		{
			name:     "hardly any room beside the reserve",
			args:     `"block_size": 16, "num_gpu_blocks": 100, "watermark": 0.99`,
			workload: []arrival{{prompt: 16, output: 600}, {prompt: 17, output: 1}, small},
			ends:     []string{"tokens", overWatermark, "tokens"}, passes: 602,
		},
		{
			name: "each fits alone, not both",
			args: `"block_size": 4, "num_gpu_blocks": 8, "max_num_batched_tokens": 6, "preemption_mode": "fifo"`,
			workload: []arrival{
				{atMs: 60, prompt: 4, output: 9, ids: []int{100000}},
				{atMs: 60, prompt: 7, output: 3, ids: []int{101000, 101001}},
				{atMs: 17, prompt: 18, output: 13, ids: []int{1000, 1001, 102002, 102003, 102004}},
				{atMs: 0, prompt: 16, output: 9, ids: []int{1000, 1001, 1002, 103003}},
				{atMs: 0, prompt: 22, output: 2, ids: []int{1000, 1001, 1002, 104003, 104004, 104005}},
			},
			ends: []string{"tokens", "tokens", "tokens", "tokens", "tokens"}, passes: 10_100,
		},
		{
			name: "each fits alone, not both, chunking off",
			args: `"block_size": 4, "num_gpu_blocks": 9, "max_num_batched_tokens": 18, "preemption_mode": "fifo",
				"enable_chunked_prefill": false`,
			workload: []arrival{{prompt: 14, output: 11}, {atMs: 16, prompt: 10, output: 17}},
			ends:     []string{"tokens", "tokens"}, passes: 20_100,
		},
		{
			// A's blocks of the shared prompt are evicted while C, preempted, waits behind B.
			name: "cached prefix lost after a preemption, chunking off",
			args: `"block_size": 4, "num_gpu_blocks": 6, "max_num_batched_tokens": 8, "enable_chunked_prefill": false`,
			workload: []arrival{
				{prompt: 8, output: 1, ids: []int{1, 2}},
				{atMs: 20, prompt: 7, output: 17, ids: []int{8, 9}},
				{atMs: 20, prompt: 12, output: 4, ids: []int{1, 2, 3}},
				{atMs: 30, prompt: 8, output: 2, ids: []int{4, 5}},
			},
			ends: []string{"tokens", "tokens", overBudget, "tokens"}, passes: 21,
		},
	} {
		for _, options := range []string{"", `, "enable_prefix_caching": false`} {
			for _, plain := range []bool{true, false} {
				t.Run(c.name+options+fmt.Sprint(", plain ", plain), func(t *testing.T) {
					m := newSimulation(enginetest.Args(t, "{"+c.args+options+"}"), c.workload)
					m.plain = plain
					notes := enginetest.NewRecorder(len(m.arrivals))
					passes := 0
					err := m.run(func(p *engine.Pass) error {
						if passes++; passes > 10*c.passes {
							return fmt.Errorf("no end after %d passes", passes)
						}
						return notes.See(p)
					})
					if err != nil {
						t.Fatal(err)
					}
					if passes > c.passes {
						t.Errorf("took %d passes, want at most %d", passes, c.passes)
					}
					for i, want := range c.ends {
						switch o := notes.Fates[i]; {
						case want == "tokens" && len(o.TokenMs) != m.arrivals[i].output:
							t.Errorf("request %d got %d tokens, want %d (rejected: %q)", i, len(o.TokenMs),
								m.arrivals[i].output, o.Rejected)
						case want != "tokens" && !strings.Contains(o.Rejected, want):
							t.Errorf("request %d: rejected %q, want %q", i, o.Rejected, want)
						}
					}
				})
			}
		}
	}
}

// TestRejectedAfterPreemption makes sure that the last case above is what it says: C runs, is preempted, and is
// rejected only when the last block of its prefix has been evicted.
func TestRejectedAfterPreemption(t *testing.T) {
	args := enginetest.Args(t, `{"block_size": 4, "num_gpu_blocks": 6, "max_num_batched_tokens": 8, `+
		`"enable_chunked_prefill": false}`)
	m := newSimulation(args, []arrival{
		{name: "A", prompt: 8, output: 1, ids: []int{1, 2}},
		{name: "B", atMs: 20, prompt: 7, output: 17, ids: []int{8, 9}},
		{name: "C", atMs: 20, prompt: 12, output: 4, ids: []int{1, 2, 3}},
	})
	first := m.requests[2].Prompt.Block(0)
	admitted := false
	err := m.run(func(p *engine.Pass) error {
		for _, a := range p.Admitted {
			admitted = admitted || a.ID == 2
		}
		cached := m.s.pool.Lookup(first).Cached
		switch rejected := len(p.Rejected) > 0; {
		case rejected && !admitted:
			t.Errorf("at %v ms: rejected without ever having run", p.StartMs)
		case rejected && cached:
			t.Errorf("at %v ms: rejected although its first block is cached", p.StartMs)
		}
		return nil
	})
	if err != nil || !admitted {
		t.Errorf("admitted %t, error %v", admitted, err)
	}
}

// TestStuck checks what the error of a run that is given up would say.
func TestStuck(t *testing.T) {
	m := newSimulation(enginetest.Args(t, `{"block_size": 4, "num_gpu_blocks": 5}`), []arrival{
		{prompt: 6, output: 7}, {prompt: 7, output: 5}, {prompt: 8, output: 2},
	})
	for range 3 { // the second request is preempted in the third pass
		m.release()
		pass, alive := m.s.RunPass(m.nowMs)
		if !alive {
			t.Fatal("stalled")
		}
		m.nowMs = pass.EndMs
	}
	want := []engine.RequestState{
		{ID: 0, State: "running", PromptTokens: 6, OutputTokens: 7, Generated: 3, BlocksNeeded: 4},
		{ID: 1, State: "preempted", PromptTokens: 7, OutputTokens: 5, Generated: 2, BlocksNeeded: 3},
		{ID: 2, State: "waiting", PromptTokens: 8, OutputTokens: 2, Generated: 0, BlocksNeeded: 3},
	}
	if got := m.s.States(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
