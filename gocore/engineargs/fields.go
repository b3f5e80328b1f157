package engineargs

import (
	"math"

	"dynosim/gocore/aic"
	"dynosim/gocore/engine"
	"dynosim/gocore/strictjson"
)

// maxBlocks keeps slot numbers within 32 bits and token counts of a pool within an int.
const maxBlocks = 1 << 30

// table holds every accepted key, in the order of the Python constructor where it has the key. Python classes, their
// docstrings and docs/reference/engine-arguments.md are generated from it: see doc.go.
var table = []field{
	row("engine_type", strictjson.Enum{Choices: engineTypeNames(), FoldCase: true, Added: engineTypeNames}, "vllm",
		"The engine that is simulated."),
	row("num_gpu_blocks", between(1, maxBlocks), 16384,
		"KV blocks of the pool. With an ``aic_backend`` it is estimated unless given.").orNull().settable(),
	row("num_gpu_blocks_override", between(1, maxBlocks), nil,
		"Another name of num_gpu_blocks, as vLLM's command line has it.").byKeyword(),
	row("block_size", atLeast(0), 0,
		"Tokens of a KV block; 0 takes that of the engine: vLLM 64, SGLang 1 (or its page_size), TensorRT-LLM 32."),
	row("max_model_len", between(1, math.MaxInt32), nil,
		"Most tokens of a prompt and its output together: outputs end there, and prompts that reach it are rejected.").
		byKeyword(),
	row("max_num_seqs", atLeast(1), 256,
		"Most requests that run at the same time; None is unlimited.").orNull(),
	row("max_num_batched_tokens", atLeast(1), 8192,
		"Most tokens of one pass; None is unlimited.").orNull(),
	row("enable_prefix_caching", strictjson.Bool{}, true,
		"Whether blocks are kept for later prompts that begin with the same tokens.").only(VLLM, TRTLLM).settable(),
	row("enable_chunked_prefill", strictjson.Bool{}, true,
		"Whether a prompt may be spread over several passes.").only(VLLM, TRTLLM),
	row("speedup_ratio", strictjson.Number{}, 1.0,
		"Divides all durations."),
	row("decode_speedup_ratio", strictjson.Number{}, 1.0,
		"Divides decode durations once more."),
	row("dp_size", between(1, math.MaxUint32), 1,
		"Data-parallel ranks: with scheduler vllm or sglang, ranks that run their passes together; otherwise, on live "+
			"workers and in the server, an engine each."),
	row("startup_time", strictjson.Number{}, nil,
		"Seconds before a live worker serves, or one that a planner has started.").as(startUp).implied(0),
	row("startup_time_cv", strictjson.Number{Max: 10}, 0.0,
		"Lets startup_time vary for workers that a planner starts: standard deviation of lognormal times, divided by "+
			"their mean, which is startup_time.").as(plannedOnly).byKeyword(),
	row("worker_type", strictjson.Enum{Choices: engine.RoleNames()}, "aggregated",
		"``\"aggregated\"``, or ``\"prefill\"`` or ``\"decode\"`` in a deployment of two pools.").orNull().settable(),
	row("is_prefill", strictjson.Bool{}, false,
		"Older spelling of worker_type prefill.").inJSONOnly(),
	row("is_decode", strictjson.Bool{}, false,
		"Older spelling of worker_type decode.").inJSONOnly(),

	row("planner_profile_data", path, nil,
		"Measured durations: the path of an NPZ file or of a folder that a profiler wrote.").unless("aic_backend"),
	aicRow("aic_backend").doc("Take durations from the AIC SDK, for this engine: ``\"vllm\"``, ``\"sglang\"`` or " +
		"``\"trtllm\"``."),
	aicRow("aic_system").withAIC().implied(aic.DefaultSystem),
	aicRow("aic_backend_version").withAIC(),
	aicRow("aic_tp_size").doc("Tensor parallelism, and so GPUs per worker in the report.").implied(1),
	aicRow("aic_model_path").withAIC(),
	aicRow("aic_moe_tp_size").withAIC(),
	aicRow("aic_moe_ep_size").withAIC(),
	aicRow("aic_attention_dp_size").implied(1),
	aicRow("aic_nextn").doc("Draft tokens of speculative decoding, 1 to 5, with any timing model."),
	aicRow("aic_nextn_accept_rates").
		doc("Probability that each draft token is accepted if those before it were, as text: ``\"0.85,0.3\"``."),
	row("aic_mtp_seed", between(0, math.MaxUint64), 42,
		"Decides which draft tokens are accepted; each worker adds its number.").settable(),
	aicRow("aic_gemm_dtype").withAIC(),
	aicRow("aic_moe_dtype").withAIC(),
	aicRow("aic_fmha_dtype").withAIC(),
	aicRow("aic_kv_cache_dtype").withAIC(),
	aicRow("aic_comm_dtype").withAIC(),
	row("aic_shapes", word("all", gridShapes), "all",
		"Which shapes of passes the AIC SDK is asked for: ``\"all\"`` that occur, or ``\"grid\"``, every batch, but "+
			"four numbers of tokens "+
			"for each doubling, with straight lines between them: faster where much is new, and nearly the same.").
		withAIC().byKeyword(),
	memoryRow("gpu_memory_utilization", "vllm", "Fraction of GPU memory that vLLM uses, to estimate num_gpu_blocks."),
	memoryRow("mem_fraction_static", "sglang", "Fraction of GPU memory that SGLang uses, to estimate num_gpu_blocks."),
	memoryRow("free_gpu_memory_fraction", "trtllm",
		"Fraction of the GPU memory beside the model that TensorRT-LLM uses, to estimate num_gpu_blocks."),

	row("enable_local_indexer", strictjson.Bool{}, false,
		"Whether live workers keep an index of their own KV events.").as(liveOnly),
	row("bootstrap_port", port, nil,
		"Port at which a live prefill worker hands requests over.").as(liveOnly).on(engine.Prefill),
	row("handoff_session_timeout_ms", between(1, math.MaxUint64), 300000,
		"Milliseconds after which a live hand-off that makes no progress is given up.").as(liveOnly).
		on(engine.Prefill, engine.Decode),
	row("kv_bytes_per_token", atLeast(0), nil,
		"Bytes of a token's KV, for transfers from prefill to decode workers, and for host memory in GB; with AIC, "+
			"None takes those of the model.").on(engine.Prefill),
	row("kv_transfer_bandwidth", strictjson.Number{}, nil,
		"GB/s between prefill and decode workers; 0 makes transfers take no time, and so does None, but for 64 with "+
			"AIC or a scheduler of the engine's own.").on(engine.Prefill),
	row("kv_transfer_timing_mode", word("full_prompt", destinationMissing), "full_prompt",
		"``\"full_prompt\"``, or ``\"destination_missing\"`` to move only what the decode worker has not cached.").
		on(engine.Prefill).inAnyCase(),
	row("kv_transfer_ms_per_block", copyMs, nil,
		"Milliseconds in which a KV block moves from a prefill to a decode worker, instead of bytes and bandwidth.").
		on(engine.Prefill).only(VLLM, SGLang).by(VLLMOwn, SGLangOwn).byKeyword(),
	row("kv_transfer_lanes", word("pair", unlimitedLanes), "pair",
		"``\"pair\"`` for one transfer at a time between a prefill and a decode worker, or ``\"unlimited\"`` "+
			"for all at once.").
		on(engine.Prefill).only(VLLM, SGLang).by(VLLMOwn, SGLangOwn).byKeyword(),
	row("reasoning", strictjson.Nested{Fields: fieldsOf(reasoningTable)}, nil,
		"How a live engine thinks: a ReasoningConfig or a dict of its fields.").as(liveOnly),
	row("response_replay_trace_path", strictjson.Text{Path: true}, nil,
		"JSONL file with answers that live workers repeat.").as(liveOnly),
	row("zmq_kv_events_port", port, nil,
		"Port at which a live worker publishes KV events in its engine's own format.").as(liveOnly),
	row("zmq_replay_port", port, nil,
		"Port at which missed KV events can be asked for again.").as(liveOnly),
	row("preemption_mode", word(preemptionNames...), "lifo",
		"When blocks run short, ``\"lifo\"`` preempts the request admitted last, ``\"fifo\"`` the first.").only(VLLM),
	row("router_queue_policy", strictjson.Enum{Choices: []string{"fcfs", "lcfs", "wspt"}}, nil,
		"Order of the router's queue, instead of that in its own configuration: ``\"fcfs\"``, ``\"lcfs\"`` or "+
			"``\"wspt\"``."),
	row("sglang", strictjson.Nested{Fields: fieldsOf(sglangTable)}, nil,
		"Settings of SGLang: an SglangArgs or a dict of its fields.").only(SGLang),
	row("trtllm", strictjson.Nested{Fields: fieldsOf(trtllmTable)}, nil,
		"Settings of TensorRT-LLM: a TrtllmArgs or a dict of its fields.").only(TRTLLM),

	row("num_g2_blocks", atLeast(0), nil,
		"KV blocks in host memory, as Dynamo 1.3 names those of host_cache.").as(offload).by(SGLangOwn, VLLMOwn).
		zeroUnset(),
	row("num_g3_blocks", atLeast(0), nil,
		"KV blocks on disk; they need num_g2_blocks.").as(offload).zeroUnset(),
	row("offload_batch_size", atLeast(0), nil,
		"Blocks that are moved together.").as(offload).zeroUnset().implied(32),
	row("bandwidth_g1_to_g2_gbps", strictjson.Number{}, nil, "GB/s from GPU to host.").as(offload).
		by(SGLangOwn, VLLMOwn).implied(14),
	row("bandwidth_g2_to_g1_gbps", strictjson.Number{}, nil, "GB/s from host to GPU.").as(offload).
		by(SGLangOwn, VLLMOwn).implied(14),
	row("bandwidth_g2_to_g3_gbps", strictjson.Number{}, nil, "GB/s from host to disk.").as(offload).implied(7),
	row("bandwidth_g3_to_g2_gbps", strictjson.Number{}, nil, "GB/s from disk to host.").as(offload).implied(7),
	row("enable_g4_storage", strictjson.Bool{}, false,
		"Whether there is object storage; it needs num_g2_blocks.").as(offload),
	row("bandwidth_g2_to_g4_gbps", strictjson.Number{}, nil, "GB/s from host to object storage.").as(offload).
		implied(4),
	row("bandwidth_g4_to_g2_gbps", strictjson.Number{}, nil, "GB/s from object storage to host.").as(offload).
		implied(4),

	row("num_host_blocks", between(1, maxBlocks), nil,
		"KV blocks in host memory, as Dynamo 1.6 names those of host_cache.").as(hostBlocks).byKeyword(),
	row("host_cache_gb", strictjson.Number{MinOpen: true, Max: 1e9}, nil,
		"GB (10^9 bytes) of host memory for KV blocks of a worker, instead of num_host_blocks.").as(hostBlocks).
		byKeyword(),
	row("host_offload_d2h_bandwidth_gbps", strictjson.Number{}, nil,
		"GB/s from GPU to host, of the whole worker; 0 and None make copies take no time.").as(hostBlocks).byKeyword(),
	row("host_offload_h2d_bandwidth_gbps", strictjson.Number{}, nil, "GB/s from host to GPU, likewise.").as(hostBlocks).
		byKeyword(),
	row("host_link", word(linkNames()...), nil,
		"Link of each GPU of the worker to the host, instead of both bandwidths: ``\"pcie5\"`` for 63 GB/s, say.").
		as(hostBlocks).byKeyword(),

	row("watermark", strictjson.Number{Max: 1, MaxOpen: true}, 0.0,
		"Fraction of the pool that admission must leave free, 0 to less than 1.").only(VLLM),
	row("eviction_backend", word(evictionNames...), "lineage",
		"Which cached block is evicted: ``\"lineage\"`` (leaves first), ``\"lru\"`` or ``\"multi_lru\"``.").
		only(VLLM, TRTLLM),
	row("scheduler", word(schedulerNames()...), "dynamo",
		"Whose rules the engine schedules by: ``\"dynamo\"``, those of Dynamo's mocker, or those of the engine, "+
			"``\"vllm\"`` or ``\"sglang\"`` for the newest release known and ``\"vllm-0.28\"`` or "+
			"``\"sglang-0.5\"``, say, for that one."),
	row("async_scheduling", strictjson.Bool{}, true,
		"Whether a pass is composed while the one before it runs, as a stock server does.").only(VLLM).by(VLLMOwn),
	row("pass_time", word("separate", fused), "separate",
		"How long a pass takes that computes prompts and decodes: ``\"separate\"``, a prefill and a decode step of "+
			"all that get a token, or "+
			"``\"fused\"``, one forward: the end of a prompt takes no decode step, and what any forward takes counts "+
			"once. A calibration sets it "+
			"to what its fit was made with.").
		only(VLLM).by(VLLMOwn).byKeyword(),
	row("scheduler_reserve_full_isl", strictjson.Bool{}, true,
		"Whether a request is admitted only if blocks for its whole prompt are free.").only(VLLM).by(VLLMOwn),
	row("long_prefill_token_threshold", atLeast(0), 0,
		"Most tokens that one request computes in a pass; 0 is no limit.").only(VLLM).by(VLLMOwn),
	row("long_prefill_token_threshold_adaptive", strictjson.Bool{}, false,
		"Whether that threshold is raised to an equal share of ``max_num_batched_tokens`` for each request.").
		since(VLLM033).byKeyword(),
	row("prefill_schedule_interval", atLeast(1), 1,
		"Passes from one that computes prompts to the next one that may, while other requests decode.").only(VLLM).
		by(VLLMOwn).byKeyword(),
	row("max_num_active_seqs", atLeast(1), nil,
		"Most requests that run when one is admitted; None is ``max_num_seqs``.").since(VLLM033).byKeyword(),
	row("dp_routing", word("vllm", "round_robin", routerRanks), "vllm",
		"How a request finds its data-parallel rank: ``\"vllm\"``, by vLLM's load balancer, in turn with SGLang; "+
			"``\"round_robin\"``, in turn; or ``\"router\"``, by the router before the workers, for which each rank is "+
			"a worker of its own.").
		only(VLLM, SGLang).by(VLLMOwn, SGLangOwn).byKeyword(),
	row("kv_cache_groups", strictjson.Objects{Fields: fieldsOf(groupTable)}, nil,
		"Groups of layers that share the pool, as vLLM forms them for models with sliding windows or linear "+
			"attention: one of "+
			"``{\"type\": \"full\"}``, then ``{\"type\": \"sliding_window\", \"window\": 1024}`` or ``{\"type\": "+
			"\"linear\"}`` for each other one. "+
			"With SGLang the second group is ``{\"type\": \"sliding_window\", \"window\": 128, \"num_blocks\": "+
			"4096}``, whose blocks are not those "+
			"of ``num_gpu_blocks``. None is one group of full attention.").by(VLLMOwn, SGLangOwn).byKeyword(),
	row("prefix_cache_retention_interval", atLeast(0), nil,
		"Which blocks of windows and linear states are kept for later prompts: those at the ends of prompts (0, the "+
			"default from vLLM 0.33 on), besides those at each multiple of this number of tokens, or all (null in JSON, "+
			"the default of 0.28).").only(VLLM).by(VLLMOwn).byKeyword(),
	row("model", strictjson.Text{NonEmpty: true}, nil,
		"A model that ``python -m dynamo.replay models`` lists, served by vLLM or SGLang: scheduler, KV cache "+
			"groups, block size, num_gpu_blocks, "+
			"max_model_len and aic_tp_size follow from it, as far as they are not given.").only(VLLM, SGLang).
		byKeyword(),
	row("model_config", path, nil,
		"The config.json of a model, or its folder, of any other model; replays only.").only(VLLM, SGLang).byKeyword(),
	row("model_weights_gib", strictjson.Number{Max: 1e6, MinOpen: true}, nil,
		"GiB of the weights, of all GPUs together. Known for ``model``.").only(VLLM, SGLang).
		unless("kv_cache_memory_bytes").byKeyword(),
	row("gpu_memory_gib", strictjson.Number{Max: 1e6, MinOpen: true}, nil,
		"GiB of a GPU, of which vLLM takes gpu_memory_utilization for weights, 2 GiB of its own and the KV cache, "+
			"and SGLang 0.88 for weights "+
			"and KV cache. None is that of aic_system, or 79.2, that of an H100.").only(VLLM, SGLang).
		unless("kv_cache_memory_bytes").byKeyword(),
	row("kv_cache_memory_bytes", between(1, 1<<50), nil,
		"Bytes of the KV cache on each GPU, instead of an estimate: \"Available KV cache memory\" in vLLM's log.").
		only(VLLM, SGLang).byKeyword(),
	row("kv_cache_dtype", word("auto", "fp8"), "auto",
		"``\"fp8\"`` keeps keys and values of ``model`` in one byte instead of two.").only(VLLM, SGLang).byKeyword(),
	row("host_cache", strictjson.Nested{Fields: fieldsOf(hostCacheTable)}, nil,
		"Memory of the host below the KV blocks of the pool, as SGLang's HiCache or vLLM's offloading uses it: a "+
			"HostCacheArgs or a dict of its fields.").
		only(SGLang, VLLM).by(SGLangOwn, VLLMOwn).byKeyword(),
	row("timing_model", strictjson.Enum{Choices: timingModelNames(), Added: timingModelNames}, nil,
		"What says how long passes take. By default that follows from other fields: ``\"aic\"`` with aic_backend, "+
			"``\"interpolated\"`` "+
			"with planner_profile_data, else ``\"polynomial\"``; naming it makes sure that the field is not "+
			"forgotten. ``\"fixed\"`` takes "+
			"fixed_prefill_ms and fixed_decode_ms.").byKeyword(),
	row("fixed_prefill_ms", strictjson.Number{Max: 1e9}, nil,
		"Milliseconds that the prompts of a pass take together, with timing_model fixed, which needs it.").byKeyword(),
	row("fixed_decode_ms", strictjson.Number{Max: 1e9}, nil,
		"Milliseconds of a decode step, likewise.").byKeyword(),
	row("step_overhead_us", overhead, 0.0,
		"Host time of each pass, in microseconds.").byKeyword(),
	row("seq_overhead_us", overhead, 0.0,
		"Host time of each pass for each request in it, in microseconds.").byKeyword(),
	row("request_overhead_us", overhead, 0.0,
		"Time from the worker to the scheduler, for each request, in microseconds.").
		on(engine.Aggregated, engine.Prefill).byKeyword(),
	row("request_token_overhead_us", overhead, 0.0,
		"The same for each token of its prompt: tokenising, and sending it.").on(engine.Aggregated, engine.Prefill).
		byKeyword(),
	row("prefill_scale", factor, 1.0,
		"Factor on the predicted time of prompts.").byKeyword(),
	row("decode_scale", factor, 1.0,
		"Factor on the predicted time of decode passes.").byKeyword(),
	row("kv_pool_scale", factor, 1.0,
		"Factor on an estimated KV pool.").forPool().byKeyword(),
	row("kv_pool_estimate", word(sdkEstimate, engineEstimate), sdkEstimate,
		"Who estimates the KV pool: the AIC SDK, or ``\"engine\"``, as vLLM or SGLang divides the memory of a GPU when "+
			"it starts (weights, activations, libraries); the report says the parts.").forPool().byKeyword(),
	row("calibration", strictjson.Text{NonEmpty: true, Path: true}, nil,
		"File with a profile that dynamo.calibrate wrote, or ``\"auto\"`` for the profile that comes with this "+
			"package: it sets those "+
			"of the fields above that are left out, and may have durations of other kernels.").byKeyword(),
	row("engine_version", strictjson.Text{NonEmpty: true}, nil,
		"Release of the engine that is simulated, such as ``\"0.19.0\"``: calibration looks for measurements of it.").
		byKeyword(),
	row("has_perf_model", strictjson.Any{}, nil,
		"A mark that other tools leave; it is ignored.").as(silent).inJSONOnly(),
}

const (
	destinationMissing = "destination_missing"
	sdkEstimate        = "sdk"
	engineEstimate     = "engine"
	unlimitedLanes     = "unlimited"
	gridShapes         = "grid"
)

var (
	fraction = strictjson.Number{Max: 1}
	port     = between(0, math.MaxUint16)
	overhead = strictjson.Number{Max: 1e9} // microseconds
	factor   = strictjson.Number{MinOpen: true, Max: 1000}
	path     = strictjson.Text{NonEmpty: true, Path: true}
)

func atLeast(low uint64) strictjson.Integer { return strictjson.Integer{Min: low} }

func between(low, high uint64) strictjson.Integer { return strictjson.Integer{Min: low, Max: high} }

// word returns a choice that ignores case, as engine arguments in JSON always did.
func word(choices ...string) strictjson.Enum {
	return strictjson.Enum{Choices: choices, FoldCase: true}
}
