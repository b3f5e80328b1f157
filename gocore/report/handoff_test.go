package report

import (
	"math"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/workload"
)

// handoffs returns a disaggregated run of five requests: one completed after a preemption on its decode worker, one
// rejected by its prefill worker, one refused by its decode worker, one canceled, and one that is not over.
func handoffs(t *testing.T) (*Collector, *workload.Workload) {
	t.Helper()
	w, err := workload.LoadMooncake(strings.NewReader(strings.Repeat(`{"timestamp":0,"hash_ids":[1,2],"output_length":3}`+
		"\n", 5)), "t",
		workload.TraceSpec{TraceBlockSize: 4, EngineBlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	c := NewDisaggCollector(5, 2)
	for id := range engine.RequestID(5) {
		c.Arrival(engine.Request{ID: id, PromptTokens: 8, OutputTokens: 3}, 0.5)
		if id < 4 {
			c.PrefillRoute(id, int(id)%2, 4)
		}
	}
	c.PrefillPass(0, &engine.Pass{
		StartMs: 1, EndMs: 9,
		Tokens:   2, // of no request
		Admitted: []engine.Admission{{ID: 0, ReusedTokens: 0}, {ID: 2}},
		Rejected: []engine.Rejection{{ID: 1, Reason: "too large"}},
	})
	c.PrefillPass(0, &engine.Pass{StartMs: 2, Admitted: []engine.Admission{{ID: 0, ReusedTokens: 4}}})
	c.Terminal(1, Rejected, "too large")
	c.Terminal(1, Canceled, "")
	c.Step(0, SourceHeld, 9)
	c.Step(2, SourceHeld, 9)
	c.DecodeRoute(2, 0)
	c.Terminal(2, Failed, "no room")
	c.Terminal(3, Canceled, "")
	c.DecodeRoute(0, 0)
	c.Worker(0, 1)
	c.Step(0, DestinationReserved, 9.5)
	c.Step(0, DestinationActivated, 10)
	c.Step(0, SourceReleased, 10.5)
	c.Pass(1, &engine.Pass{
		StartMs: 11, EndMs: 12, Tokens: 1,
		Admitted: []engine.Admission{{ID: 0}}, Started: []engine.TokenRun{{ID: 0}},
	})
	c.Pass(1, &engine.Pass{
		StartMs: 20, EndMs: 22, Tokens: 1,
		Admitted: []engine.Admission{{ID: 0, ReusedTokens: 8}}, Started: []engine.TokenRun{{ID: 0, Index: 1}},
	})
	c.Pass(1, &engine.Pass{StartMs: 22, EndMs: 25, Tokens: 1, Finished: []engine.RequestID{0}})
	c.Terminal(0, Completed, "")
	return c, w
}

func TestHandoffRows(t *testing.T) {
	c, w := handoffs(t)
	var text strings.Builder
	if err := c.Rows(w).WriteJSONL(&text); err != nil {
		t.Fatal(err)
	}
	const none = `"first_token_ms":null,"last_token_ms":null,"ttft_ms":null,"ttst_ms":null,"e2e_latency_ms":null,` +
		`"itl_ms":null,` +
		`"input_length":8,"output_length":3,`
	want := []string{
		`"first_admit_ms":1.0,"first_token_ms":12.0,"last_token_ms":25.0,"ttft_ms":11.5,"ttst_ms":10.0,` +
			`"e2e_latency_ms":24.5,"itl_ms":6.5,` +
			`"input_length":8,"output_length":3,"reused_input_tokens":4,"prefill_worker_idx":0,"decode_worker_idx":1,` +
			`"prefill_admit_ms":1.0,"source_held_ms":9.0,"destination_reserved_ms":9.5,"destination_activated_ms":10.0,` +
			`"decode_admit_ms":11.0,"source_released_ms":10.5,"decode_reused_input_tokens":8,` +
			`"prefill_route_overlap_tokens":4,"decode_route_overlap_tokens":0,"terminal_status":"completed",` +
			`"rejection_reason":null,"trace_row":0,"state":"finished"}`,
		`"first_admit_ms":null,` + none + `"reused_input_tokens":0,"prefill_worker_idx":1,"decode_worker_idx":null,` +
			`"prefill_admit_ms":null,"source_held_ms":null,"destination_reserved_ms":null,"destination_activated_ms":null,` +
			`"decode_admit_ms":null,"source_released_ms":null,"decode_reused_input_tokens":null,` +
			`"prefill_route_overlap_tokens":4,"decode_route_overlap_tokens":null,"terminal_status":"rejected",` +
			`"rejection_reason":"too large","trace_row":1,"state":"rejected"}`,
		`"first_admit_ms":1.0,` + none + `"reused_input_tokens":0,"prefill_worker_idx":0,"decode_worker_idx":null,` +
			`"prefill_admit_ms":1.0,"source_held_ms":9.0,"destination_reserved_ms":null,"destination_activated_ms":null,` +
			`"decode_admit_ms":null,"source_released_ms":null,"decode_reused_input_tokens":null,` +
			`"prefill_route_overlap_tokens":4,"decode_route_overlap_tokens":0,"terminal_status":"failed",` +
			`"rejection_reason":"no room","trace_row":2,"state":"failed"}`,
		`"terminal_status":"canceled","rejection_reason":null,"trace_row":3,"state":"cancelled"}`,
		`"terminal_status":null,"rejection_reason":null,"trace_row":4,"state":"waiting"}`,
	}
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	if len(lines) != len(want) {
		t.Fatalf("got %d rows, want %d", len(lines), len(want))
	}
	for i := range want {
		if !strings.HasSuffix(lines[i], want[i]) {
			t.Errorf("got  %s\nwant ...%s", lines[i], want[i])
		}
	}
}

func TestHandoffReport(t *testing.T) {
	c, _ := handoffs(t)
	used := Resources{PrefillWorkerSeconds: 0.132156046, DecodeWorkerSeconds: 0.19823406900000007,
		PrefillGPUsPerWorker: 1, DecodeGPUsPerWorker: 2}
	want := map[string]float64{
		"num_requests": 5, "completed_requests": 1, "rejected_requests": 2, "finished_requests": 1,
		"total_input_tokens": 8, "duration_ms": 25,
		"prefill_worker_seconds": 0.132156046, "decode_worker_seconds": 0.19823406900000007,
		"prefill_gpus_per_worker": 1, "decode_gpus_per_worker": 2, "gpu_hours": 0.00014684005111111114,
		"prefix_cache_reused_ratio":                 1, // the larger of what the two workers found in their caches
		"first_admission_prefix_cache_reused_ratio": 0,
		"mean_ttft_ms":                              11.5, "max_itl_ms": 10, "min_itl_ms": 3,
	}
	for _, v := range c.Summarise(used, NoSLA()) {
		got := v.Float
		if v.IsInt {
			got = float64(v.Int)
		}
		if expected, ok := want[v.Key]; ok && math.Abs(got-expected) > 1e-15 {
			t.Errorf("%s: got %v, want %v", v.Key, got, expected)
		}
		delete(want, v.Key)
	}
	if len(want) > 0 {
		t.Errorf("no value for %v", want)
	}
}
