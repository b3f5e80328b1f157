package engineargs

import (
	"reflect"
	"strings"
	"testing"
)

// TestNestedForm: the nested form of Dynamo 1.6 describes the same engine as the flat one.
func TestNestedForm(t *testing.T) {
	tests := []struct{ nested, flat string }{
		{`{"engine": {}}`, `{}`},
		{`{"engine": {"backend": "sglang", "num_gpu_blocks": 900, "sglang": {"clip_max_new_tokens": 9}}}`,
			`{"engine_type": "sglang", "num_gpu_blocks": 900, "sglang": {"clip_max_new_tokens": 9}}`},
		{`{"engine": {"block_size": 16, "max_model_len": 512, "kv_transfer_bytes_per_token": 7, ` +
			`"worker_type": "prefill"}, "tensor_parallel_size": 4}`,
			`{"block_size": 16, "max_model_len": 512, "kv_bytes_per_token": 7, "worker_type": "prefill", "aic_tp_size": 4}`},
		{`{"engine": {"emit_kv_events": true, "prefill_schedule_interval": 1, "prefill_decode_interval": 0, ` +
			`"native_host_offload": null}, "scheduler": "vllm"}`,
			`{"scheduler": "vllm"}`},
		{`{"dynamo": {"router_queue_policy": "wspt"}, "dp_size": 1}`, `{"router_queue_policy": "wspt"}`},
		{`{"engine": {"timing_model": {"type": "fixed", "prefill_ms": 10, "decode_ms": 2}}}`,
			`{"timing_model": "fixed", "fixed_prefill_ms": 10, "fixed_decode_ms": 2}`},
		{`{"timing_model": {"type": "polynomial"}}`, `{}`},
	}
	for _, test := range tests {
		got, want := parse1(t, test.nested), parse1(t, test.flat)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %+v\nwant %+v", test.nested, got, want)
		}
	}
}

// TestNormalizedForm: what Dynamo 1.6.1 makes of {} is what it was.
func TestNormalizedForm(t *testing.T) {
	const text = `{"engine": {"backend": "vllm", "num_gpu_blocks": 16384, "block_size": 64, "max_model_len": null,
		"max_num_seqs": 256,
		"max_num_batched_tokens": 8192, "prefill_schedule_interval": 1, "prefill_decode_interval": 0,
		"enable_prefix_caching": true,
		"enable_chunked_prefill": true, "speedup_ratio": 1.0, "decode_speedup_ratio": 1.0, "aic_nextn": null,
		"aic_nextn_accept_rates": null,
		"aic_mtp_seed": 42, "worker_type": "aggregated", "preemption_mode": "lifo", "emit_kv_events": false,
		"emit_kv_token_ids": false,
		"kv_transfer_bytes_per_token": null, "kv_transfer_bandwidth": null, "kv_transfer_timing_mode": "full_prompt",
		"timing_model": {"type": "polynomial"}}, "dp_size": 1, "tensor_parallel_size": 1, "startup_time": null,
		"num_gpu_blocks_is_explicit": false, "gpu_memory_utilization": null, "mem_fraction_static": null,
		"free_gpu_memory_fraction": null,
		"cuda_graph_reserved_bytes": null, "dynamo": {"enable_local_indexer": false, "bootstrap_port": null,
		"handoff_session_timeout_ms": 300000, "reasoning": null, "response_replay_trace_path": null,
		"zmq_kv_events_port": null,
		"zmq_replay_port": null, "router_queue_policy": null}}`
	args, warnings, err := Parse(text)
	if err != nil || len(warnings) > 0 || !reflect.DeepEqual(args, Default()) {
		t.Errorf("got %+v, warnings %q, error %v", args, warnings, err)
	}
}

func TestNestedErrors(t *testing.T) {
	tests := []struct{ text, want string }{
		{`{"engine": {"zz": 1}}`, `unknown field "engine.zz", want one of `},
		{`{"engine": {"num_gpu_block": 1}}`,
			`unknown field "engine.num_gpu_block", did you mean "engine.num_gpu_blocks"?`},
		{`{"dynamo": {"bootstrap_prt": 1}}`,
			`unknown field "dynamo.bootstrap_prt", did you mean "dynamo.bootstrap_port"?`},
		{`{"engine": 5}`, `engine: got 5, want an object`},
		{`{"engine": {"block_size": 16}, "block_size": 16}`,
			`block_size: got 16 beside engine.block_size, want one of the two`},
		{`{"engine": {"block_size": 16, "block_size": 16}}`,
			`engine.block_size: got a duplicate key, want the key once`},
		{`{"engine": {"block_size": 3}}`, `block_size: got 3, want a power of two from 2 to 1024`},
		{`{"engine": {"native_host_offload": {"num_host_blocks": 1}}}`,
			`engine.native_host_offload: got {"num_host_blocks": 1}, want it left out: KV offload tiers are not simulated`},
		{`{"engine": {"prefill_decode_interval": 2}}`,
			`engine.prefill_decode_interval: got 2, want 0: no decode passes are forced between prompts`},
		{`{"engine": {"timing_model": {"type": "external", "provider": "x"}}}`,
			`engine.timing_model.type: got "external", want polynomial or fixed: `},
		{`{"engine": {"timing_model": {"type": "fixed", "prefill_ms": 1}}}`,
			`fixed_decode_ms: got nothing, want it given, as timing_model is fixed`},
		{`{"engine": {"timing_model": {}}}`, `engine.timing_model.type: got nothing, want polynomial or fixed`},
		{`{"timing_model": {"type": "fixed", "prefil_ms": 1}}`, `unknown field "timing_model.prefil_ms", `},
		{`{"fixed_decode_ms": 1}`, `fixed_decode_ms: got 1, want fixed_prefill_ms with it`},
		{`{"engine": {"max_model_len": 0}}`, `max_model_len: got 0, want an integer from 1 to `},
		{`{"num_host_blocks": 5, "host_offload_d2h_bandwidth_gbps": 0}`,
			`num_host_blocks: 5 is not built yet (KV offload tiers with scheduler dynamo); ` +
				`host_offload_d2h_bandwidth_gbps: 0 is not built yet (KV offload tiers with scheduler dynamo)`},
		{`{"engine": {}`, `line 1 column 14: unexpected end of text`},
	}
	for _, test := range tests {
		_, _, err := Parse(test.text)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s\ngot  %v\nwant %s", test.text, err, test.want)
		}
	}
}

// TestMaxModelLen checks that max_model_len limits prompt and output together, and that a prompt which leaves no room
// for output is refused.
func TestMaxModelLen(t *testing.T) {
	args := parse1(t, `{"max_model_len": 260}`)
	if got := args.Output(256, 10); got != 4 {
		t.Errorf("output of %d tokens, want 4", got)
	}
	if got := args.Output(256, 3); got != 3 {
		t.Errorf("short output of %d tokens, want 3", got)
	}
	if args.TooLong(259) != "" || args.TooLong(260) != "prompt of 260 tokens leaves no room for output within "+
		"max_model_len 260" {
		t.Errorf("got %q and %q", args.TooLong(259), args.TooLong(260))
	}
	if none := Default(); none.Output(1<<20, 5) != 5 || none.TooLong(1<<20) != "" {
		t.Error("there is a limit by default")
	}
}

func parse1(t *testing.T, text string) Args {
	t.Helper()
	args, _, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return args
}
