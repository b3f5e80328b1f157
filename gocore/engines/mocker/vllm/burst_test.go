package vllm

import (
	"fmt"
	"slices"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/speculation"
)

// TestBurstVectors compares the passes of four requests, one after the other, with runs of the reference.
func TestBurstVectors(t *testing.T) {
	var workload []arrival
	for i, output := range []int{20, 31, 40, 17} {
		workload = append(workload, arrival{name: string(rune('A' + i)), atMs: float64(i) * 10_000, prompt: 600,
			output: output})
	}
	for _, c := range []struct {
		seed   uint64
		passes []int
		first  []int // bursts of the first request
	}{
		{42, []int{10, 14, 17, 8}, []int{2, 3, 3, 1, 1, 3, 1, 3, 2, 1}},
		{7, []int{8, 15, 19, 7}, []int{3, 2, 2, 3, 2, 3, 3, 2}},
	} {
		setup := engine.Setup{Drafts: speculation.New([]float64{0.7, 0.5}, c.seed)}
		m := newSimulationWith(enginetest.Args(t, `{"block_size": 512}`), setup, workload)
		passes := make([]int, len(workload))
		var first []int
		err := m.run(func(p *engine.Pass) error {
			request := int(p.StartMs / 10_000)
			passes[request]++
			if request == 0 {
				first = append(first, p.Tokens)
			}
			if burst := len(p.Bursts) == 1 &&
				p.Bursts[0] == (engine.Burst{ID: engine.RequestID(request),
					Tokens: p.Tokens}); burst != (p.Tokens > 1) {
				return fmt.Errorf("%d tokens, bursts %v", p.Tokens, p.Bursts)
			}
			return nil
		})
		if err != nil || !slices.Equal(passes, c.passes) || !slices.Equal(first, c.first) {
			t.Errorf("seed %d: %v, got passes %v, bursts %v, want %v, %v", c.seed, err, passes, first, c.passes,
				c.first)
		}
	}
}

// TestBurstSetsAside follows the pool. Blocks have 4 tokens, three drafts make bursts of 4 that are all accepted.
//
// The prompt of 8 fills 2 of 6 blocks. Its first burst may open one block, and so may the next two; the fourth, capped
// at the 2 tokens that are left, may too. The cached prompt of A is what has to make room for B.
func TestBurstSetsAside(t *testing.T) {
	setup := engine.Setup{Drafts: speculation.New([]float64{1, 1, 1}, 1)}
	m := newSimulationWith(enginetest.Args(t, `{"block_size": 4, "num_gpu_blocks": 6}`), setup, []arrival{
		{name: "A", prompt: 8, output: 1, ids: []int{1, 2}},
		{name: "B", atMs: 100, prompt: 8, output: 14, ids: []int{3, 4}},
	})
	var got []string
	err := m.run(func(p *engine.Pass) error {
		line := fmt.Sprintf("%d tokens, %d active, %d free", p.Tokens, m.s.pool.Active(), m.s.pool.Free())
		for _, e := range m.s.pool.TakeEvents() {
			line += map[kvcache.EventKind]string{kvcache.Stored: ", stored", kvcache.Removed: ", removed"}[e.Kind]
			line += fmt.Sprintf(" %d (%d,%d,%d)", e.Blocks.Len(), e.Free, e.Active, e.Inactive)
		}
		got = append(got, line)
		return nil
	})
	want := []string{
		"1 tokens, 0 active, 4 free, stored 2 (4,2,0)",
		"4 tokens, 3 active, 1 free, stored 2 (2,2,2)",
		"4 tokens, 4 active, 0 free, stored 1 (0,4,2)",
		"4 tokens, 5 active, 0 free, removed 1 (0,5,1), stored 1 (0,5,1)",
		"2 tokens, 0 active, 1 free, removed 1 (0,6,0), stored 1 (0,6,0)",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n got %q\nwant %q", err, got, want)
	}
}

// TestBurstPreempts: two requests fit the pool, but not the bursts of both.
func TestBurstPreempts(t *testing.T) {
	setup := engine.Setup{Drafts: speculation.New([]float64{1, 1, 1}, 1)}
	m := newSimulationWith(enginetest.Args(t, `{"block_size": 4, "num_gpu_blocks": 5}`), setup, []arrival{
		{name: "A", prompt: 8, output: 8, ids: []int{1, 2}},
		{name: "B", prompt: 8, output: 8, ids: []int{3, 4}},
	})
	notes := enginetest.NewRecorder(2)
	var tokens []int
	err := m.run(func(p *engine.Pass) error {
		tokens = append(tokens, p.Tokens)
		return notes.See(p)
	})
	// B gives way to A in the first two passes, before any request emits, and runs when A is through.
	if want := []int{4, 4, 4, 4}; err != nil || !slices.Equal(tokens, want) {
		t.Errorf("%v, got %v tokens, want %v", err, tokens, want)
	}
	// In the second pass its prompt is cached, and of that the first block in the third, after A's burst evicted the
	// other.
	if !slices.Equal(notes.Fates[1].Reused, []int{0, 8, 4}) {
		t.Errorf("B reused %v tokens, want 0, 8 and 4", notes.Fates[1].Reused)
	}
}

// TestBurstSignals: the first and the last token of one burst are two signals, a single token is one.
func TestBurstSignals(t *testing.T) {
	setup := engine.Setup{Drafts: speculation.New([]float64{1, 1}, 1)}
	for output, want := range map[int][]engine.Signal{
		1: {{Final: true}},
		3: {{}, {Final: true}},
	} {
		m := newSimulationWith(enginetest.Args(t, "{}"), setup, []arrival{{prompt: 8, output: output}})
		m.s.Observe()
		if err := m.run(func(p *engine.Pass) error {
			if !slices.Equal(p.Signals, want) || p.Tokens != output {
				return fmt.Errorf("%d tokens, signals %v, want %v", p.Tokens, p.Signals, want)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

// TestBurstCoasts compares coasts with passes that are run one by one, in pools that are large or evict all the time.
func TestBurstCoasts(t *testing.T) {
	for _, pool := range []string{
		`"num_gpu_blocks": 4096, "block_size": 4`, `"num_gpu_blocks": 200, "block_size": 16`,
		`"num_gpu_blocks": 1300, "block_size": 2`,
		`"num_gpu_blocks": 200, "block_size": 16, "enable_prefix_caching": false`,
	} {
		args := enginetest.Args(t, `{"max_num_seqs": 5, `+pool+`}`)
		made := func() *Scheduler {
			return New(args, engine.Setup{Drafts: speculation.New([]float64{0.85, 1, 0.3}, 7)})
		}
		enginetest.CheckBursts(t, made(), made())
	}
}
