package serve

import (
	"fmt"
	"math"
	"slices"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/strictjson"
)

// option is one option of live workers. This table is the only place that lists them: descriptions are checked against
// it, and the command line and docs/reference/mocker.md are generated from it.
type option struct {
	strictjson.Field
	// engineArg is the engine argument that the option sets, "" if it is none of the engine's.
	engineArg string
	// aic marks what describes the GPUs that AIC predicts for.
	aic bool

	text, group string // of --help
	// standIn is what --help names as the default of an option that has none of its own: it is decided when workers
	// start.
	standIn string
	// by says which kinds of processes look at it; a process warns of others.
	by readers
	// prefill marks what only prefill workers look at, process what concerns a server as a whole, not one of its
	// models.
	prefill, process bool
	// off marks a switch that is on by default and has a --no- form.
	off bool
}

// readers are the kinds of processes that look at an option.
type readers uint8

const (
	byWorkers  readers = 1 << iota // live ones
	byServer                       // with standalone
	byFrontend                     // with frontend
)

// Groups of --help.
const (
	workersGroup        = "workers"
	engineGroup         = "engine"
	durationsGroup      = "durations"
	planesGroup         = "planes"
	disaggregationGroup = "disaggregation"
	switchesGroup       = "switches"
	serverGroup         = "server"
)

// options is in the order of --help.
var options = []option{
	own("model_path", strictjson.Text{NonEmpty: true}, nil).also(byFrontend).
		help(workersGroup, "folder of the model: config.json, tokenizer.json; or its name on the Hugging Face hub"),
	own("model_name", strictjson.Text{NonEmpty: true}, nil).
		help(workersGroup, "name under which it is served (default: the model path)"),
	own("endpoint", strictjson.Text{}, nil).only(byWorkers).
		help(workersGroup, "dyn://namespace.component.endpoint (default: dyn://dynamo.backend.generate)"),
	own("num_workers", strictjson.Integer{Min: 1, Max: maxWorkers}, 1).
		help(workersGroup, "workers in this process (default: 1)"),
	own("stagger_delay", strictjson.Any{}, chosenDelay).only(byWorkers).
		help(workersGroup, "seconds between their launches (default: -1, chosen by their number)"), // see pauses
	arg("startup_time", "startup_time").
		help(workersGroup, "seconds before a worker serves what it is sent"),
	own("default_max_tokens", strictjson.Integer{Min: 1, Max: math.MaxInt32}, 16).also(byFrontend).
		help(workersGroup, "tokens of an answer if a request asks for no number (default: 16)"),
	own("seed", strictjson.Integer{Max: math.MaxUint64}, 0).also(byFrontend).
		help(workersGroup, "decides which tokens are drawn (default: 0)"),
	own("timeline", strictjson.Text{NonEmpty: true}, nil).only(byWorkers).
		help(workersGroup, "when the process ends, write what its engines did to this file for ui.perfetto.dev, "+
			"FILE.pftrace: up to 64 MB, later events are left out"),
	arg("response_replay_trace_path", "response_replay_trace_path").taking(strictjson.Text{NonEmpty: true}).
		only(byWorkers).
		help(workersGroup, "JSONL file with answers to repeat").standsFor("none"),
	arg("reasoning", "reasoning").taking(strictjson.Text{}).also(byFrontend).
		// JSON text, see engineText
		help(workersGroup, "JSON or @FILE: start_thinking_token_id, end_thinking_token_id, thinking_ratio").
		standsFor("none"),

	own("extra_engine_args", strictjson.Text{NonEmpty: true}, nil).
		help(engineGroup, "JSON or YAML file with all engine arguments, instead of the options below; or @FILE, or JSON"),
	arg("engine_type", "engine_type").
		listing(engineGroup),
	arg("num_gpu_blocks_override", "num_gpu_blocks_override").
		help(engineGroup, "KV blocks of a rank (default: 16384)"),
	arg("block_size", "block_size").
		help(engineGroup, "tokens of a KV block (default: vllm 64, sglang 1, trtllm 32)"),
	own("max_model_len", strictjson.Integer{Min: 1, Max: math.MaxInt32}, nil).
		help(engineGroup, "tokens of a prompt and its answer together").standsFor("what the KV pool holds"),
	arg("max_num_seqs", "max_num_seqs").
		help(engineGroup, "requests that run at the same time (default: 256)"),
	arg("max_num_batched_tokens", "max_num_batched_tokens").
		help(engineGroup, "tokens of one pass (default: 8192)"),
	arg("preemption_mode", "preemption_mode").
		listing(engineGroup),
	arg("watermark", "watermark").
		help(engineGroup, "fraction of the pool that new requests must leave (default: 0)"),
	arg("speedup_ratio", "speedup_ratio").
		help(engineGroup, "divides every duration (default: 1)"),
	arg("decode_speedup_ratio", "decode_speedup_ratio").
		help(engineGroup, "divides decode durations once more (default: 1)"),
	arg("data_parallel_size", "dp_size").taking(strictjson.Integer{Min: 1, Max: engineargs.MostLiveRanks}).
		help(engineGroup, "data-parallel ranks of each worker (default: 1)"),
	arg("planner_profile_data", "planner_profile_data").
		help(engineGroup, "measured durations: an NPZ file or a folder").standsFor("none"),
	arg("sglang_schedule_policy", "sglang.schedule_policy").
		help(engineGroup, "fifo, fcfs or lpm"),
	arg("sglang_page_size", "sglang.page_size").
		help(engineGroup, "tokens of a page"),
	arg("sglang_max_prefill_tokens", "sglang.max_prefill_tokens").
		help(engineGroup, "tokens of a prefill batch"),
	arg("sglang_chunked_prefill_size", "sglang.chunked_prefill_size").
		help(engineGroup, "longest prompt that is not split"),
	arg("sglang_clip_max_new_tokens", "sglang.clip_max_new_tokens").
		help(engineGroup, "most output tokens that a request reserves room for"),
	arg("sglang_schedule_conservativeness", "sglang.schedule_conservativeness").
		help(engineGroup, "factor on the output tokens that are reserved"),
	arg("trtllm_capacity_scheduler_policy", "trtllm.capacity_scheduler_policy").
		help(engineGroup, "guaranteed_no_evict"),
	arg("gpu_memory_utilization", "gpu_memory_utilization").
		help(engineGroup, "vLLM: fraction of GPU memory"),
	arg("mem_fraction_static", "mem_fraction_static").
		help(engineGroup, "SGLang: fraction of GPU memory"),
	arg("free_gpu_memory_fraction", "free_gpu_memory_fraction").
		help(engineGroup, "TensorRT-LLM: fraction of the GPU memory beside the model"),
	arg("num_g2_blocks", "num_g2_blocks").
		help(engineGroup, "KV blocks in host memory, with scheduler vllm or sglang").standsFor("none"),
	arg("num_g3_blocks", "num_g3_blocks").
		help(engineGroup, "not built yet: KV blocks on disk").standsFor("none"),
	arg("num_host_blocks", "num_host_blocks").
		help(engineGroup, "KV blocks in host memory: --num-g2-blocks by the name of Dynamo 1.6").standsFor("none"),
	arg("host_offload_d2h_bandwidth_gbps", "host_offload_d2h_bandwidth_gbps").
		help(engineGroup, "GB/s from GPU to host, with --num-host-blocks"),
	arg("host_offload_h2d_bandwidth_gbps", "host_offload_h2d_bandwidth_gbps").
		help(engineGroup, "GB/s from host to GPU, with --num-host-blocks"),
	arg("offload_batch_size", "offload_batch_size").
		help(engineGroup, "not built yet: blocks that are moved together"),
	arg("bandwidth_g1_to_g2_gbps", "bandwidth_g1_to_g2_gbps").
		help(engineGroup, "GB/s from GPU to host, with --num-g2-blocks"),
	arg("bandwidth_g2_to_g1_gbps", "bandwidth_g2_to_g1_gbps").
		help(engineGroup, "GB/s from host to GPU, with --num-g2-blocks"),
	arg("bandwidth_g2_to_g3_gbps", "bandwidth_g2_to_g3_gbps").
		help(engineGroup, "not built yet: GB/s from host to disk"),
	arg("bandwidth_g3_to_g2_gbps", "bandwidth_g3_to_g2_gbps").
		help(engineGroup, "not built yet: GB/s from disk to host"),
	arg("bandwidth_g2_to_g4_gbps", "bandwidth_g2_to_g4_gbps").
		help(engineGroup, "not built yet: GB/s from host to object storage"),
	arg("bandwidth_g4_to_g2_gbps", "bandwidth_g4_to_g2_gbps").
		help(engineGroup, "not built yet: GB/s from object storage to host"),

	own("aic_system", strictjson.Text{}, nil).forAIC().
		help(durationsGroup, "GPU system").standsFor("h200_sxm"),
	own("aic_backend", strictjson.Enum{Choices: []string{"vllm", "sglang", "trtllm"}}, nil).forAIC().
		help(durationsGroup, "engine").standsFor("--engine-type"),
	own("aic_backend_version", strictjson.Text{}, nil).forAIC().
		help(durationsGroup, "engine version").standsFor("vllm 0.19.0, sglang 0.5.10, trtllm 1.3.0rc10"),
	own("aic_tp_size", strictjson.Integer{}, nil).forAIC().
		help(durationsGroup, "tensor parallelism").standsFor("1"),
	own("aic_moe_tp_size", strictjson.Integer{}, nil).forAIC().
		help(durationsGroup, "tensor parallelism of experts"),
	own("aic_moe_ep_size", strictjson.Integer{}, nil).forAIC().
		help(durationsGroup, "expert parallelism"),
	own("aic_attention_dp_size", strictjson.Integer{}, nil).forAIC().
		help(durationsGroup, "data parallelism of attention").standsFor("1"),
	arg("aic_nextn", "aic_nextn").
		help(durationsGroup, "draft tokens of speculative decoding").standsFor("none"),
	arg("aic_nextn_accept_rates", "aic_nextn_accept_rates").
		help(durationsGroup, "their acceptance rates, separated by commas").standsFor("0.85,0.3,0,0,0"),
	arg("aic_mtp_seed", "aic_mtp_seed").
		help(durationsGroup, "decides which are accepted (default: 42)"),

	own("discovery_backend", strictjson.Enum{Choices: []string{"kubernetes", "etcd", "file", "mem"}}, "etcd").
		only(byWorkers|byFrontend).
		help(planesGroup, "etcd, kubernetes, file or mem (default: DYN_DISCOVERY_BACKEND, or etcd)"),
	own("request_plane", strictjson.Enum{Choices: []string{"nats", "tcp", "http"}}, "tcp").only(byWorkers).
		help(planesGroup, "tcp, nats or http (default: DYN_REQUEST_PLANE, or tcp)"),
	own("event_plane", strictjson.Enum{Choices: []string{"nats", "zmq"}}, "zmq").only(byWorkers).
		help(planesGroup, "zmq or nats (default: DYN_EVENT_PLANE, or zmq)"),
	own(lag, strictjson.Number{Max: 1e9}, 0.0).
		help(planesGroup, "milliseconds after which a change of a cache is told to routers (default: 0)"),
	own("dynamo_release", strictjson.Enum{Choices: []string{"1.6", "1.3"}}, "1.6").only(byWorkers).
		help(planesGroup, "whose workers these are served beside: cards of 1.6 and of 1.3 differ (default: 1.6)"),
	own("listen_host", strictjson.Text{NonEmpty: true}, nil).also(byFrontend).ofProcess().
		help(planesGroup, "address of every socket (default: DYN_LISTEN_HOST; see docs/security.md)"),
	own("max_worker_histograms", strictjson.Integer{Max: math.MaxInt32}, 100).only(byWorkers).
		help(planesGroup, "with more workers, histograms in /metrics are those of the model (default: 100)"),
	own("zmq_kv_events_ports", strictjson.Text{}, "").
		help(planesGroup, "a port for each worker, with commas: KV events in the engine's own format").standsFor("none"),
	own("zmq_replay_ports", strictjson.Text{}, "").
		help(planesGroup, "a port for each worker, with commas: to ask for missed ones").standsFor("none"),

	own("disaggregation_mode", strictjson.Enum{Choices: []string{"agg", "prefill", "decode"}}, nil).only(byWorkers).
		help(disaggregationGroup, "agg (default), prefill or decode"),
	own("bootstrap_ports", strictjson.Text{}, "").only(byWorkers).forPrefill().
		help(disaggregationGroup, "a port for each worker, with commas: hand-offs").standsFor("none"),
	arg("kv_transfer_bandwidth", "kv_transfer_bandwidth").
		help(disaggregationGroup, "GB/s between workers"),
	arg("kv_transfer_timing_mode", "kv_transfer_timing_mode").
		help(disaggregationGroup, "full_prompt or destination_missing"),
	own("kv_cache_dtype", strictjson.Enum{Choices: []string{"auto", "bfloat16", "fp8", "fp8_ds_mla", "fp8_e4m3",
		"fp8_e5m2", "fp8_inc"}}, "auto").forPrefill().
		help(disaggregationGroup, "data type of the KV cache (default: auto)"),
	arg("kv_bytes_per_token", "kv_bytes_per_token").
		help(disaggregationGroup, "size of a token's KV (default: from the model)"),

	arg("enable_prefix_caching", "enable_prefix_caching").
		help(switchesGroup, "(default: on)").alsoOff(),
	arg("enable_chunked_prefill", "enable_chunked_prefill").
		help(switchesGroup, "(default: on)").alsoOff(),
	arg("enable_g4_storage", "enable_g4_storage").
		help(switchesGroup, "not built yet: KV blocks in object storage"),
	own("aic_perf_model", strictjson.Bool{}, false).
		help(switchesGroup, "durations from AIC"),
	own("is_prefill_worker", strictjson.Bool{}, false).only(byWorkers).
		help(switchesGroup, "deprecated: use --disaggregation-mode"),
	own("is_decode_worker", strictjson.Bool{}, false).only(byWorkers).
		help(switchesGroup, "deprecated: use --disaggregation-mode"),
	own("durable_kv_events", strictjson.Bool{}, false).only(byWorkers).
		help(switchesGroup, "deprecated: KV events go to a stream of NATS JetStream"),

	own("standalone", strictjson.Bool{}, false).ofProcess().
		help(serverGroup, "be an OpenAI-compatible server with engines and a router of its own, see docs/serve.md"),
	own("frontend", strictjson.Bool{}, false).also(byFrontend).
		help(serverGroup, "be the same server before live workers, which --discovery-backend finds, see docs/serve.md"),
	own("config", strictjson.Text{NonEmpty: true}, nil).ofProcess().
		help(serverGroup, "YAML or JSON file with options by their names; the command line has the last word").
		standsFor("none"),
	own("http_host", strictjson.Text{NonEmpty: true}, nil).overHTTP().
		help(serverGroup, "address to listen at").standsFor("--listen-host, or 127.0.0.1"),
	own("http_port", strictjson.Integer{Max: math.MaxUint16}, 8000).overHTTP().
		help(serverGroup, "port to listen at, 0 for any (default: 8000)"),
	own("image_tokens", strictjson.Integer{Max: 1 << 20}, 0).serving().
		help(serverGroup, "tokens of a tile of an image in a prompt; 0 for a model that takes no images (default: 0)"),
	own("image_tile", strictjson.Integer{Min: 1, Max: 1 << 20}, 512).serving().
		help(serverGroup, "pixels of the sides of a tile (default: 512)"),
	own("data_parallel_ports", strictjson.Bool{}, false).serving().ofProcess().
		help(serverGroup, "make each rank of --data-parallel-size a server of its own, at --http-port plus its number"),
	own("models", strictjson.Text{}, nil).serving().ofProcess().
		help(serverGroup, "several models: JSON or @FILE, a list of objects with the options of each").
		standsFor("one model"),
	own("router_mode", strictjson.Enum{Choices: routerModes(), Added: routerModes,
		Aliases: map[string]string{"kv_router": "kv"}}, "round-robin").serving().also(byFrontend).
		help(serverGroup, "how requests are spread over workers: "+strictjson.Listed(routerModes(), "%s")),
	own("router", strictjson.Text{NonEmpty: true}, nil).serving().also(byFrontend).
		help(serverGroup, "router in Python instead of --router-mode: MODULE:CLASS, FILE.py:CLASS or the name of one "+
			"that is installed, see docs/routers.md").standsFor("--router-mode"),
	own("timing_model", strictjson.Text{NonEmpty: true}, nil).serving().ofProcess().
		help(serverGroup, "how long passes take, in Python: MODULE:NAME, FILE.py:NAME or the name of one that is "+
			"installed, see docs/timing.md").standsFor("the engine arguments"),
	own("scheduler_policy", strictjson.Text{NonEmpty: true}, nil).serving().ofProcess().
		help(serverGroup, "what engines admit and preempt next, in Python: MODULE:CLASS, FILE.py:CLASS or the name "+
			"of one that is installed, see docs/schedulers.md").standsFor("the engine's own rule"),
	own("migration_limit", strictjson.Integer{Max: 1000}, 0).only(byFrontend).
		help(serverGroup, "with --frontend: how often an answer that breaks off goes on at another worker (default: 0)"),
	own("router_rules", strictjson.Enum{Choices: []string{"own", "1.3", "1.6"}}, "own").only(byFrontend).
		help(serverGroup, "with --frontend: what is done about a worker that does not answer, as Dynamo's frontend "+
			"of a release does it (default: own)"),
	own("router_config", strictjson.Text{}, "{}").serving().also(byFrontend).
		help(serverGroup, "JSON or @FILE: settings of the router, see docs/reference/routing-modes.md").standsFor("{}"),
	own("num_prefill_workers", strictjson.Integer{Max: maxWorkers}, 0).serving().
		help(serverGroup, "workers that compute prompts and hand them over, instead of --num-workers").standsFor("none"),
	own("num_decode_workers", strictjson.Integer{Max: maxWorkers}, 0).serving().
		help(serverGroup, "workers that make the answers to those prompts").standsFor("none"),
	own("prefill_engine_args", strictjson.Text{}, "{}").serving().
		help(serverGroup, "JSON or @FILE: what is different in the engine arguments of prefill workers").standsFor("{}"),
	own("decode_engine_args", strictjson.Text{}, "{}").serving().
		help(serverGroup, "JSON or @FILE: the same of decode workers").standsFor("{}"),
	own("max_loras", strictjson.Integer{Min: 1, Max: 4096}, 1).serving().
		help(serverGroup, "LoRA adapters that an engine is said to hold at once, in vllm:lora_requests_info "+
			"(default: 1)"),
	own("lora_modules", strictjson.Text{}, "").serving().
		help(serverGroup, "names of LoRA adapters that are loaded, with commas").standsFor("none"),
	own("response_mode", strictjson.Enum{Choices: []string{"random", "echo", "recorded"}}, "random").serving().
		help(serverGroup, "what answers say: random, echo or recorded (default: random)"),
	own("response_file", strictjson.Text{NonEmpty: true}, nil).serving().
		help(serverGroup, "JSONL file with prompt and response or tool_calls, for --response-mode recorded").
		standsFor("none"),
	own("tool_call_probability", strictjson.Number{Max: 1}, 0.0).serving().
		help(serverGroup, "how likely an answer calls tools where tool_choice leaves it to the model (default: 0)"),
	own("max_parallel_tool_calls", strictjson.Integer{Min: 1, Max: 64}, 1).serving().
		help(serverGroup, "calls in an answer, at most, unless parallel_tool_calls is false (default: 1)"),
	own("tokenizer_processes", strictjson.Integer{Min: 1, Max: 64}, 2).serving().also(byFrontend).
		help(serverGroup, "processes that tokenize for a model folder (default: 2)"),
	own("tokenizer_python", strictjson.Text{NonEmpty: true}, "python3").serving().also(byFrontend).
		help(serverGroup, "the Python that they run, with tokenizers and jinja2").
		standsFor("the one that runs this command, or python3"),
	own("record", strictjson.Text{NonEmpty: true}, nil).serving().
		help(serverGroup, "write what comes in to this file, as a trace that python -m dynamo.replay reads").
		standsFor("nothing"),
	own("inject_errors", strictjson.Text{}, "").overHTTP().
		help(serverGroup, "JSON or @FILE: faults for tests of clients: share, status, delay_ms, break_after_tokens").
		standsFor("none"),
	own("api_key", strictjson.Text{NonEmpty: true}, nil).overHTTP().
		help(serverGroup, "keys of clients, with commas").standsFor("none is needed"),
	own("api_key_file", strictjson.Text{NonEmpty: true}, nil).overHTTP().
		help(serverGroup, "file with a key in each line").standsFor("none"),
	own("tls_cert", strictjson.Text{NonEmpty: true}, nil).overHTTP().
		help(serverGroup, "file with the certificate chain, for HTTPS").standsFor("none"),
	own("tls_key", strictjson.Text{NonEmpty: true}, nil).overHTTP().
		help(serverGroup, "file with its private key").standsFor("none"),
	own("tls_self_signed", strictjson.Bool{}, false).overHTTP().
		help(serverGroup, "HTTPS with a certificate that the server makes at the start; clients have to be told to trust it"),
	own("allowed_origins", strictjson.Text{NonEmpty: true}, "*").overHTTP().
		help(serverGroup, "origins of pages that browsers let call the server, with commas or as a JSON list "+
			"(default: *)"),
	own("allowed_methods", strictjson.Text{NonEmpty: true}, "*").overHTTP().
		help(serverGroup, "methods that they may use, likewise (default: *)"),
	own("allowed_headers", strictjson.Text{NonEmpty: true}, "*").overHTTP().
		help(serverGroup, "headers that they may send, likewise (default: *)"),
	own("allow_credentials", strictjson.Bool{}, false).overHTTP().
		help(serverGroup, "they may send cookies and the like"),
	own("page", strictjson.Bool{}, true).overHTTP().alsoOff().
		help(serverGroup, "a page at / that shows browsers what runs (default: on)"),
	own("enable_tokenizer_info_endpoint", strictjson.Bool{}, false).overHTTP().
		help(serverGroup, "let clients ask for the tokenizer's configuration and chat template at /tokenizer_info"),
	own("max_queue", strictjson.Integer{Max: math.MaxInt32}, 0).overHTTP().
		help(serverGroup, "requests of a model that may wait; more get 429, 0 for no limit (default: 0)"),
	own("max_body_bytes", strictjson.Integer{Min: 1024, Max: math.MaxInt32}, 32<<20).overHTTP().
		help(serverGroup, "largest body of a request (default: 33554432)"),
	own("max_connections", strictjson.Integer{Min: 1, Max: 1 << 20}, 8192).overHTTP().
		help(serverGroup, "connections at the same time (default: 8192)"),
	own("request_timeout", strictjson.Number{Max: 86400}, 0.0).overHTTP().
		help(serverGroup, "seconds that an answer may take, 0 for no limit (default: 0)"),
}

func own(name string, t strictjson.Type, standard any) option {
	return option{Field: strictjson.Field{Name: name, Type: t, Default: standard}, by: byWorkers | byServer}
}

// arg returns an option that sets an engine argument, whose type, range and default it has. Unlike JSON, the command
// line wants words in lower case.
func arg(name, engineArg string) option {
	f, instead := engineargs.Described(engineArg)
	if enum, ok := f.Type.(strictjson.Enum); ok {
		enum.FoldCase = false
		f.Type = enum
	}
	o := option{Field: strictjson.Field{Name: name, Type: f.Type}, engineArg: engineArg, by: byWorkers | byServer}
	if instead != nil {
		o.standIn = fmt.Sprint(instead)
	}
	return o
}

// taking gives an option another type than its engine argument has.
func (o option) taking(t strictjson.Type) option {
	o.Type = t
	return o
}

func (o option) forAIC() option {
	o.aic = true
	return o
}

// only limits who looks at an option, also adds to it.
func (o option) only(by readers) option {
	o.by = by
	return o
}

func (o option) also(by readers) option {
	o.by |= by
	return o
}

func (o option) serving() option { return o.only(byServer) }

// overHTTP marks options of the HTTP server itself, whatever is behind it.
func (o option) overHTTP() option { return o.only(byServer | byFrontend).ofProcess() }

func (o option) ofProcess() option {
	o.process = true
	return o
}

func (o option) forPrefill() option {
	o.prefill = true
	return o
}

func optionNamed(name string) (opt option, known bool) {
	i := slices.IndexFunc(options, func(o option) bool { return o.Name == name })
	if i < 0 {
		return option{}, false
	}
	return options[i], true
}

// unread warns of options that are given although processes of a kind do not look at them; where says of which kind.
func unread(o *strictjson.Object, by readers, where string) (warnings []string) {
	for _, opt := range options {
		if opt.by&by == 0 && o.Given(opt.Name) {
			warnings = append(warnings, opt.Name+" has no effect "+where)
		}
	}
	return warnings
}

// help returns what --help says, and where.
func (o option) help(group, text string) option {
	o.group, o.text = group, text
	return o
}

// listing does what help does, for an option whose help is the list of its choices, the first of them the default.
func (o option) listing(group string) option {
	return o.help(group, strictjson.Listed(o.Type.(strictjson.Enum).Choices, "%s"))
}

func (o option) standsFor(standIn string) option {
	o.standIn = standIn
	return o
}

func (o option) alsoOff() option {
	o.off = true
	return o
}
