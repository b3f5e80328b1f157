package vllm

import (
	"fmt"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache"
)

// TestCacheVectors compares with runs of the reference under DYN_MOCKER_KV_CACHE_TRACE: A(free,active,inactive) is a
// record "allocation", E one "eviction". Reuse is what the report calls prefix_cache_reused_ratio, by the largest reuse
// of each request and by that of its first admission.
func TestCacheVectors(t *testing.T) {
	evictionOrder := []arrival{
		{atMs: 0, prompt: 16, output: 2, ids: []int{1, 2}},
		{atMs: 1000, prompt: 16, output: 2, ids: []int{3, 4}},
		{atMs: 2000, prompt: 16, output: 2, ids: []int{5, 6}},
		{atMs: 3000, prompt: 16, output: 2, ids: []int{1, 2}},
	}
	preemption := []arrival{
		{prompt: 16, output: 12, ids: []int{1, 2}},
		{prompt: 16, output: 12, ids: []int{1, 3}},
	}
	samePass := []arrival{
		{prompt: 32, output: 2, ids: []int{1, 2, 3, 4}},
		{prompt: 32, output: 2, ids: []int{1, 2, 3, 4}},
	}
	for _, c := range []struct {
		name              string
		args              string // beyond block_size 8
		workload          []arrival
		want              string
		reuse, firstReuse float64
		durationMs        float64
	}{
		{
			name: "one block shared, then two",
			args: `"num_gpu_blocks": 6`,
			workload: []arrival{
				{atMs: 0, prompt: 16, output: 4, ids: []int{1, 2}},
				{atMs: 1000, prompt: 16, output: 4, ids: []int{1, 3}},
				{atMs: 2000, prompt: 20, output: 6, ids: []int{1, 2, 4}},
			},
			want:  "A(4,2,0) A(3,2,1) A(2,3,1)",
			reuse: 0.46153846153846156, firstReuse: 0.46153846153846156, durationMs: 2178.4188269999995,
		},
		{
			name: "eviction, 4 blocks", args: `"num_gpu_blocks": 4`, workload: evictionOrder,
			want:       "A(2,2,0) A(0,2,2) E(0,3,1) A(0,2,2) E(0,2,2) E(0,3,1) A(0,2,2) E(0,2,2) E(0,3,1)",
			durationMs: 3074.823213,
		},
		{
			name: "eviction, 5 blocks", args: `"num_gpu_blocks": 5`, workload: evictionOrder,
			want:       "A(3,2,0) A(1,2,2) A(0,2,3) E(0,2,3) E(0,3,2) A(0,2,3) E(0,2,3) E(0,3,2)",
			durationMs: 3068.8496630000004,
		},
		{
			name: "eviction, 6 blocks", args: `"num_gpu_blocks": 6`, workload: evictionOrder,
			want:  "A(4,2,0) A(2,2,2) A(0,2,4) E(0,3,3) A(0,2,4) E(0,3,3)",
			reuse: 0.125, firstReuse: 0.125, durationMs: 3063.816247,
		},
		{
			name: "no eviction, 7 blocks", args: `"num_gpu_blocks": 7`, workload: evictionOrder,
			want:  "A(5,2,0) A(3,2,2) A(1,2,4)",
			reuse: 0.25, firstReuse: 0.25, durationMs: 3043.229592,
		},
		{
			name: "eviction, no prefix caching", args: `"num_gpu_blocks": 6, "enable_prefix_caching": false`,
			workload:   evictionOrder,
			want:       "A(4,2,0) A(2,2,2) A(0,2,4) E(0,3,3) A(0,2,4) E(0,2,4) E(0,3,3)",
			durationMs: 3063.937796,
		},
		{
			name: "preemption, 5 blocks", args: `"num_gpu_blocks": 5`, workload: preemption,
			want:  "A(3,2,0) A(2,3,0) A(0,5,0) A(0,3,2) E(0,4,1)",
			reuse: 0.5, firstReuse: 0.25, durationMs: 541.551665,
		},
		{
			name: "preemption, 6 blocks", args: `"num_gpu_blocks": 6`, workload: preemption,
			want:  "A(4,2,0) A(3,3,0) A(1,5,0) A(0,6,0)",
			reuse: 0.5, firstReuse: 0.25, durationMs: 499.11273,
		},
		{
			name: "no preemption, 7 blocks", args: `"num_gpu_blocks": 7`, workload: preemption,
			want:  "A(5,2,0) A(4,3,0) A(2,5,0) A(1,6,0)",
			reuse: 0.25, firstReuse: 0.25, durationMs: 392.54279700000006,
		},
		{
			name: "hit in the same pass", args: `"num_gpu_blocks": 20`, workload: samePass,
			want:  "A(16,4,0)",
			reuse: 0.5, firstReuse: 0.5, durationMs: 52.126521,
		},
		{
			name: "hit in the same pass, in chunks", args: `"num_gpu_blocks": 20, "max_num_batched_tokens": 16`,
			workload: samePass,
			want:     "A(18,2,0) A(16,4,0)",
			reuse:    0.5, firstReuse: 0.5, durationMs: 68.627726,
		},
		{
			name: "pool filled exactly", args: `"num_gpu_blocks": 3`,
			workload:   []arrival{{prompt: 16, output: 8, ids: []int{1, 2}}},
			want:       "A(1,2,0)",
			durationMs: 285.12112999999994,
		},
	} {
		for _, plain := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, plain %t", c.name, plain), func(t *testing.T) {
				m := newSimulation(enginetest.Args(t, `{"block_size": 8, `+c.args+`}`), c.workload)
				m.plain = plain
				notes := enginetest.NewRecorder(len(m.arrivals))
				var trace []string
				err := m.run(func(p *engine.Pass) error {
					for _, e := range m.s.pool.TakeEvents() {
						kind := map[kvcache.EventKind]string{kvcache.Stored: "A", kvcache.Removed: "E"}[e.Kind]
						trace = append(trace, fmt.Sprintf("%s(%d,%d,%d)", kind, e.Free, e.Active, e.Inactive))
					}
					return notes.See(p)
				})
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(trace, " "); got != c.want {
					t.Errorf("cache trace\n got %s\nwant %s", got, c.want)
				}
				reuse, firstReuse := reuseRatios(m, notes)
				if reuse != c.reuse || firstReuse != c.firstReuse {
					t.Errorf("reuse: got %v, at first admission %v, want %v, %v", reuse, firstReuse, c.reuse,
						c.firstReuse)
				}
				if m.nowMs != c.durationMs {
					t.Errorf("duration: got %v, want %v", m.nowMs, c.durationMs)
				}
			})
		}
	}
}

func reuseRatios(m *simulation, notes *enginetest.Recorder) (largest, first float64) {
	prompt, sumLargest, sumFirst := 0, 0, 0
	for i, a := range m.arrivals {
		prompt += a.prompt
		sumLargest += notes.Fates[i].MaxReused()
		sumFirst += notes.Fates[i].Reused[0]
	}
	return float64(sumLargest) / float64(prompt), float64(sumFirst) / float64(prompt)
}
