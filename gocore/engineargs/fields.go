package engineargs

import (
	"math"

	"dynosim/gocore/engine"
	"dynosim/gocore/speculation"
	"dynosim/gocore/strictjson"
)

// use is what this build does with a field; see doc.go.
type use uint8

const (
	applied use = iota
	liveOnly
	offload
	silent
)

// field is one row of the table.
type field struct {
	strictjson.Field
	use     use
	engines []EngineType  // that look at an applied field; nil for all
	workers []engine.Role // likewise
	rules   []Scheduler   // likewise
	// aic marks the fields at which only predictions by AIC look.
	aic bool
	// zeroIsUnset marks the counts of which 0 says the same as null.
	zeroIsUnset bool
}

// maxBlocks keeps slot numbers within 32 bits and token counts of a pool within an int.
const maxBlocks = 1 << 30

// table holds every accepted key, in the order of the Python constructor where it has the key.
var table = []field{
	row("engine_type", strictjson.Enum{Choices: engineTypeNames(), FoldCase: true, Added: engineTypeNames}, "vllm"),
	row("num_gpu_blocks", between(1, maxBlocks), 16384).orNull(),
	row("num_gpu_blocks_override", between(1, maxBlocks), nil),
	row("block_size", atLeast(0), 0),
	row("max_num_seqs", atLeast(1), 256).orNull(),
	row("max_num_batched_tokens", atLeast(1), 8192).orNull(),
	row("enable_prefix_caching", strictjson.Bool{}, true).only(VLLM, TRTLLM),
	row("enable_chunked_prefill", strictjson.Bool{}, true).only(VLLM, TRTLLM),
	row("speedup_ratio", strictjson.Number{}, 1.0),
	row("decode_speedup_ratio", strictjson.Number{}, 1.0),
	row("dp_size", between(1, math.MaxUint32), 1),
	row("startup_time", strictjson.Number{}, nil).as(liveOnly),
	row("worker_type", strictjson.Enum{Choices: engine.RoleNames()}, "aggregated").orNull(),
	row("is_prefill", strictjson.Bool{}, false),
	row("is_decode", strictjson.Bool{}, false),

	row("planner_profile_data", strictjson.Text{NonEmpty: true}, nil),
	row("aic_backend", strictjson.Text{NonEmpty: true}, nil),
	row("aic_system", strictjson.Text{NonEmpty: true}, nil).withAIC(),
	row("aic_backend_version", strictjson.Text{}, nil).withAIC(),
	row("aic_tp_size", between(0, math.MaxInt32), nil),
	row("aic_model_path", strictjson.Text{NonEmpty: true}, nil).withAIC(),
	row("aic_moe_tp_size", between(0, math.MaxInt32), nil).withAIC(),
	row("aic_moe_ep_size", between(0, math.MaxInt32), nil).withAIC(),
	row("aic_attention_dp_size", between(0, math.MaxInt32), nil),
	row("aic_nextn", between(1, speculation.MaxDrafts), nil),
	row("aic_nextn_accept_rates", strictjson.Text{}, nil),
	row("aic_mtp_seed", between(0, math.MaxUint64), 42),
	row("aic_gemm_dtype", strictjson.Text{}, nil).withAIC(),
	row("aic_moe_dtype", strictjson.Text{}, nil).withAIC(),
	row("aic_fmha_dtype", strictjson.Text{}, nil).withAIC(),
	row("aic_kv_cache_dtype", strictjson.Text{}, nil).withAIC(),
	row("aic_comm_dtype", strictjson.Text{}, nil).withAIC(),
	row("gpu_memory_utilization", fraction, nil).withAIC(),
	row("mem_fraction_static", fraction, nil).withAIC(),
	row("free_gpu_memory_fraction", fraction, nil).withAIC(),

	row("enable_local_indexer", strictjson.Bool{}, false).as(liveOnly),
	row("bootstrap_port", port, nil).as(liveOnly).on(engine.Prefill),
	row("handoff_session_timeout_ms", between(1, math.MaxUint64), 300000).as(liveOnly).on(engine.Prefill, engine.Decode),
	row("kv_bytes_per_token", atLeast(0), nil).on(engine.Prefill),
	row("kv_transfer_bandwidth", strictjson.Number{}, nil).on(engine.Prefill),
	row("kv_transfer_timing_mode", word("full_prompt", destinationMissing), "full_prompt").on(engine.Prefill),
	row("reasoning", strictjson.Nested{Fields: reasoningFields}, nil).as(liveOnly),
	row("response_replay_trace_path", strictjson.Text{}, nil).as(liveOnly),
	row("zmq_kv_events_port", port, nil).as(liveOnly),
	row("zmq_replay_port", port, nil).as(liveOnly),
	row("preemption_mode", word(preemptionNames...), "lifo").only(VLLM),
	row("router_queue_policy", strictjson.Enum{Choices: []string{"fcfs", "lcfs", "wspt"}}, nil),
	row("sglang", strictjson.Nested{Fields: sglangFields}, nil).only(SGLang),
	row("trtllm", strictjson.Nested{Fields: trtllmFields}, nil).only(TRTLLM),

	row("num_g2_blocks", atLeast(0), nil).as(offload).zeroUnset(),
	row("num_g3_blocks", atLeast(0), nil).as(offload).zeroUnset(),
	row("offload_batch_size", atLeast(0), nil).as(offload).zeroUnset(),
	row("bandwidth_g1_to_g2_gbps", strictjson.Number{}, nil).as(offload),
	row("bandwidth_g2_to_g1_gbps", strictjson.Number{}, nil).as(offload),
	row("bandwidth_g2_to_g3_gbps", strictjson.Number{}, nil).as(offload),
	row("bandwidth_g3_to_g2_gbps", strictjson.Number{}, nil).as(offload),
	row("enable_g4_storage", strictjson.Bool{}, false).as(offload),
	row("bandwidth_g2_to_g4_gbps", strictjson.Number{}, nil).as(offload),
	row("bandwidth_g4_to_g2_gbps", strictjson.Number{}, nil).as(offload),

	row("watermark", strictjson.Number{Max: 1, MaxOpen: true}, 0.0).only(VLLM),
	row("eviction_backend", word(evictionNames...), "lineage").only(VLLM, TRTLLM),
	row("scheduler", word(schedulerNames()...), "dynamo"),
	row("async_scheduling", strictjson.Bool{}, true).only(VLLM).by(VLLMOwn),
	row("scheduler_reserve_full_isl", strictjson.Bool{}, true).only(VLLM).by(VLLMOwn),
	row("long_prefill_token_threshold", atLeast(0), 0).only(VLLM).by(VLLMOwn),
	row("step_overhead_us", overhead, 0.0),
	row("seq_overhead_us", overhead, 0.0),
	row("request_overhead_us", overhead, 0.0).on(engine.Aggregated, engine.Prefill),
	row("prefill_scale", factor, 1.0),
	row("decode_scale", factor, 1.0),
	row("kv_pool_scale", factor, 1.0).withAIC(),
	row("calibration", strictjson.Text{NonEmpty: true}, nil),
	row("has_perf_model", strictjson.Any{}, nil).as(silent),
}

const destinationMissing = "destination_missing"

var reasoningFields = []strictjson.Field{
	{Name: "start_thinking_token_id", Type: between(0, math.MaxUint32), Required: true, NotNull: true},
	{Name: "end_thinking_token_id", Type: between(0, math.MaxUint32), Required: true, NotNull: true},
	{Name: "thinking_ratio", Type: fraction, Required: true, NotNull: true},
}

var sglangFields = []strictjson.Field{
	{Name: "schedule_policy", Type: strictjson.Enum{Choices: policyNames}},
	{Name: "page_size", Type: atLeast(1)},
	{Name: "max_prefill_tokens", Type: atLeast(1)},
	{Name: "chunked_prefill_size", Type: atLeast(1)},
	{Name: "clip_max_new_tokens", Type: atLeast(1)},
	{Name: "schedule_conservativeness", Type: strictjson.Number{}},
	{Name: "reference_quirks", Type: strictjson.Bool{}},
	{Name: "overlap_schedule", Type: strictjson.Bool{}},
	{Name: "ignore_eos", Type: strictjson.Bool{}},
	{Name: "enable_mixed_chunk", Type: strictjson.Bool{}},
	{Name: "scheduler_recv_interval", Type: atLeast(1)},
}

var trtllmFields = []strictjson.Field{
	{Name: "capacity_scheduler_policy", Type: strictjson.Text{}},
}

var (
	fraction = strictjson.Number{Max: 1}
	port     = between(0, math.MaxUint16)
	overhead = strictjson.Number{Max: 1e9} // microseconds
	factor   = strictjson.Number{MinOpen: true, Max: 1000}
)

func atLeast(low uint64) strictjson.Integer { return strictjson.Integer{Min: low} }

func between(low, high uint64) strictjson.Integer { return strictjson.Integer{Min: low, Max: high} }

// word is a choice that ignores case, as engine arguments in JSON always did.
func word(choices ...string) strictjson.Enum {
	return strictjson.Enum{Choices: choices, FoldCase: true}
}

// row starts an applied field. Null is allowed where it is the default.
func row(name string, t strictjson.Type, byDefault any) field {
	return field{Field: strictjson.Field{Name: name, Type: t, Default: byDefault, NotNull: byDefault != nil}}
}

func (f field) orNull() field {
	f.NotNull = false
	return f
}

func (f field) as(u use) field {
	f.use = u
	return f
}

func (f field) only(engines ...EngineType) field {
	f.engines = engines
	return f
}

func (f field) on(workers ...engine.Role) field {
	f.workers = workers
	return f
}

func (f field) by(rules ...Scheduler) field {
	f.rules = rules
	return f
}

func (f field) withAIC() field {
	f.aic = true
	return f
}

func (f field) zeroUnset() field {
	f.zeroIsUnset = true
	return f
}

// schema is the table as package strictjson wants it.
func schema() strictjson.Schema {
	fields := make([]strictjson.Field, len(table))
	for i, f := range table {
		fields[i] = f.Field
	}
	return strictjson.Schema{Fields: fields}
}
