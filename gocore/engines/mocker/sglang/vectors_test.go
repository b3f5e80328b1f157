package sglang

import (
	"fmt"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
)

// TestTimes compares first and last tokens with runs of the reference.
func TestTimes(t *testing.T) {
	type times struct{ first, last float64 }
	prompt := func(atMs float64, tokens, output int, ids ...int) arrival {
		return arrival{atMs: atMs, prompt: tokens, output: output, ids: ids}
	}
	long := func(first int) []int { // ids of 512 tokens each, not shared
		ids := make([]int, 20)
		for i := range ids {
			ids[i] = first + i
		}
		return ids
	}
	for _, c := range []struct {
		name       string
		args       string
		traceBlock int
		arrivals   []arrival
		want       []times // of each request; 0 is not checked
	}{
		{"1000 tokens", ``, 512, []arrival{prompt(0, 1000, 3, 1, 2)}, []times{{41.046479000000005, 58.93703200000001}}},
		{"pages of 64", `"block_size": 64`, 512, []arrival{prompt(0, 1000, 3, 1, 2)},
			[]times{{37.897344000000004, 49.480467000000004}}},
		{
			"two prompts", `"block_size": 64`, 512, []arrival{prompt(0, 1000, 1, 1, 2), prompt(0, 501, 1, 3)},
			[]times{{46.04108900000001, 0}, {46.04108900000001, 0}},
		},
		{"two chunks", `"block_size": 64`, 512, []arrival{prompt(0, 10000, 2, long(0)...)},
			[]times{{220.718924, 226.971713}}},
		{
			"floored means of a mixed batch", `"block_size": 64`, 512,
			[]arrival{prompt(0, 1024, 1, 1, 2), prompt(100, 1536, 1, 1, 2, 3), prompt(100, 700, 1, 4, 5)},
			[]times{{}, {141.377228, 0}, {141.377228, 0}},
		},
		{
			"chunk size 8190 for pages of 3", `"block_size": 3`, 1,
			[]arrival{{prompt: 8193, output: 1, ids: make([]int, 8193)}},
			[]times{{}},
		},
		{
			"prefixes", `"block_size": 8, "num_gpu_blocks": 6`, 8,
			[]arrival{prompt(0, 16, 3, 1, 2), prompt(1000, 16, 3, 1, 3), prompt(2000, 20, 6, 1, 2, 4)},
			[]times{{}, {}, {0, 2168.775207}},
		},
		{
			"prefixes, pages of 1", `"block_size": 1, "num_gpu_blocks": 48`, 8,
			[]arrival{prompt(0, 16, 3, 1, 2), prompt(1000, 16, 3, 1, 3), prompt(2000, 20, 6, 1, 2, 4)},
			[]times{{}, {}, {0, 2168.775207}},
		},
		{
			"reservation without conservativeness", `"num_gpu_blocks": 40, "sglang": {"schedule_conservativeness": 0}`,
			1,
			[]arrival{prompt(0, 10, 20, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
				prompt(1, 10, 5, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)},
			[]times{{}, {77.941005, 0}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := enginetest.Args(t, `{"engine_type": "sglang"`+comma(c.args)+`}`)
			m := newSimulation(args, workload{traceBlock: c.traceBlock, arrivals: c.arrivals})
			for i, o := range m.mustRun(t).Fates {
				if len(o.TokenMs) != c.arrivals[i].output {
					t.Fatalf("request %d got %d tokens, want %d (rejected: %q)", i, len(o.TokenMs),
						c.arrivals[i].output, o.Rejected)
				}
				got := times{o.TokenMs[0], o.TokenMs[len(o.TokenMs)-1]}
				want := c.want[i]
				if want.first != 0 && got.first != want.first || want.last != 0 && !sixDecimals(got.last, want.last) {
					t.Errorf("request %d: got first and last token at %v, want %v", i, got, want)
				}
			}
		})
	}
}

// sixDecimals compares times as reports print durations.
func sixDecimals(a, b float64) bool { return fmt.Sprintf("%.6f", a) == fmt.Sprintf("%.6f", b) }

func comma(text string) string {
	if text == "" {
		return ""
	}
	return ", " + text
}

// TestLongQueueIsNotSorted checks the limit of longest-prefix-match: a request with a long prefix in the cache
// overtakes 127 others, but not 128.
func TestLongQueueIsNotSorted(t *testing.T) {
	for _, c := range []struct {
		others int
		wantMs float64
	}{{126, 22.957348}, {127, 22.957348}, {128, 45.234538}} {
		prefix := make([]int, 41)
		for i := range prefix {
			prefix[i] = i
		}
		w := workload{traceBlock: 1, arrivals: []arrival{{prompt: 40, output: 1, ids: prefix[:40]}}}
		for i := range c.others {
			w.arrivals = append(w.arrivals, arrival{atMs: 10, prompt: 2, output: 1, ids: []int{1000 + 2*i, 1001 + 2*i}})
		}
		prefix[40] = 9
		w.arrivals = append(w.arrivals, arrival{atMs: 11, prompt: 41, output: 1, ids: prefix})
		args := enginetest.Args(t, `{"engine_type": "sglang", "num_gpu_blocks": 20000, "max_num_seqs": 1, `+
			`"sglang": {"schedule_policy": "lpm"}}`)
		fates := newSimulation(args, w).mustRun(t).Fates
		if got := fates[c.others+1].AdmitMs; got != c.wantMs {
			t.Errorf("%d others: admitted at %v, want %v", c.others, got, c.wantMs)
		}
	}
}

// mustRun runs the workload to its end.
func (m *simulation) mustRun(t *testing.T) *enginetest.Recorder {
	t.Helper()
	notes := enginetest.NewRecorder(len(m.requests))
	for m.release() {
		pass, err := m.step(m.s.RunPass)
		if err == nil {
			err = notes.See(pass)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return notes
}

func TestNewTokenRatio(t *testing.T) {
	r := newRatio(1)
	first := r.value
	r.next(false)
	second := r.value
	r.next(false)
	if first != 0.7 || fmt.Sprintf("%.6f %.6f", second, r.value) != "0.698997 0.697993" {
		t.Errorf("got %v, %v, %v", first, second, r.value)
	}
	r.next(true)
	if r.value != second {
		t.Errorf("after a retraction: got %v, want %v", r.value, second)
	}
	for range 600 {
		r.next(false)
	}
	if r.value != 0.7*0.14 {
		t.Errorf("after 600 passes: got %v, want %v", r.value, 0.7*0.14)
	}
}

// TestStuck checks what the error of a run that is given up would say, and what routers learn about the load.
func TestStuck(t *testing.T) {
	args := enginetest.Args(t, `{"engine_type": "sglang", "block_size": 4, "num_gpu_blocks": 7, `+
		`"sglang": {"clip_max_new_tokens": 1}}`)
	w := workload{traceBlock: 8, arrivals: []arrival{
		{prompt: 5, output: 6, ids: []int{1}}, {prompt: 5, output: 6, ids: []int{2}},
		{atMs: 1, prompt: 5, output: 4, ids: []int{3}},
		{atMs: 100, prompt: 4, output: 1, ids: []int{4}},
	}}
	m := newSimulation(args, w)
	for range 4 { // the third request is retracted in the fourth pass
		m.release()
		if _, err := m.step(m.s.RunPass); err != nil {
			t.Fatal(err)
		}
	}
	want := []engine.RequestState{
		{ID: 0, State: "running", PromptTokens: 5, OutputTokens: 6, Generated: 4, BlocksNeeded: 3},
		{ID: 1, State: "running", PromptTokens: 5, OutputTokens: 6, Generated: 4, BlocksNeeded: 3},
		{ID: 2, State: "retracted", PromptTokens: 5, OutputTokens: 4, Generated: 2, BlocksNeeded: 3},
	}
	m.release()
	if got := m.s.States(); fmt.Sprint(got[:3]) != fmt.Sprint(want) || got[3].State != "waiting" {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	// 6 slots are free of 28, the last pages of the two that run have 3 left each.
	if waiting, running, blocks := m.s.Load(); waiting != 2 || running != 2 || blocks != 7 {
		t.Errorf("load: got %d waiting, %d running, %d blocks, want 2, 2, 7", waiting, running, blocks)
	}
}

// TestQuirksChangeNothingElse runs workloads in which no request is retracted with and without them.
func TestQuirksChangeNothingElse(t *testing.T) {
	args := engineargs.Default()
	args.EngineType = engineargs.SGLang
	args.BlockSize, args.NumGPUBlocks = 2, 40
	w := workload{traceBlock: 4, arrivals: []arrival{
		{prompt: 12, output: 9, ids: []int{1, 2, 3}},
		{prompt: 12, output: 5, ids: []int{1, 2, 3}},
		{atMs: 50, prompt: 10, output: 9, ids: []int{1, 2, 4}},
	}}
	var results []string
	for _, quirks := range []bool{true, false} {
		args.SGLang.ReferenceQuirks = quirks
		results = append(results, fmt.Sprint(newSimulation(args, w).mustRun(t).Fates))
	}
	if results[0] != results[1] {
		t.Errorf("with    %s\nwithout %s", results[0], results[1])
	}
}
