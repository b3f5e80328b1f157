package serve

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"dynosim/gocore/strictjson"
)

const maxWorkers = 4096

// option is a key of the description.
type option struct {
	strictjson.Field
	// engineArg is the engine argument that the option sets, "" if it is none of the engine's.
	engineArg string
	// aic marks what describes the GPUs that AIC predicts for.
	aic bool
}

var options = []option{
	own("model_path", strictjson.Text{NonEmpty: true}, nil),
	own("model_name", strictjson.Text{NonEmpty: true}, nil),
	own("endpoint", strictjson.Text{}, nil),
	own("num_workers", strictjson.Integer{Min: 1, Max: maxWorkers}, 1),
	own("stagger_delay", strictjson.Any{}, chosenDelay), // see pauses
	own("extra_engine_args", strictjson.Text{NonEmpty: true}, nil),
	own("default_max_tokens", strictjson.Integer{Min: 1, Max: math.MaxInt32}, 16),
	own("seed", strictjson.Integer{Max: math.MaxUint64}, 0),
	own("discovery_backend", strictjson.Enum{Choices: []string{"kubernetes", "etcd", "file", "mem"}}, "etcd"),
	own("request_plane", strictjson.Enum{Choices: []string{"nats", "tcp", "http"}}, "tcp"),
	own("event_plane", strictjson.Enum{Choices: []string{"nats", "zmq"}}, "zmq"),
	own("max_worker_histograms", strictjson.Integer{Max: math.MaxInt32}, 100),
	own("listen_host", strictjson.Text{NonEmpty: true}, nil),
	own("disaggregation_mode", strictjson.Enum{Choices: []string{"agg", "prefill", "decode"}}, nil),
	own("is_prefill_worker", strictjson.Bool{}, false),
	own("is_decode_worker", strictjson.Bool{}, false),
	own("durable_kv_events", strictjson.Bool{}, false),
	own("zmq_kv_events_ports", strictjson.Text{}, ""),
	own("zmq_replay_ports", strictjson.Text{}, ""),
	own("bootstrap_ports", strictjson.Text{}, ""),
	own("kv_cache_dtype", strictjson.Enum{Choices: []string{"auto", "bfloat16", "fp8", "fp8_ds_mla", "fp8_e4m3", "fp8_e5m2", "fp8_inc"}}, "auto"),

	arg("num_gpu_blocks_override", strictjson.Integer{Min: 1}, "num_gpu_blocks_override"),
	arg("block_size", strictjson.Integer{}, "block_size"),
	arg("max_num_seqs", strictjson.Integer{Min: 1}, "max_num_seqs"),
	arg("max_num_batched_tokens", strictjson.Integer{Min: 1}, "max_num_batched_tokens"),
	arg("enable_prefix_caching", strictjson.Bool{}, "enable_prefix_caching"),
	arg("enable_chunked_prefill", strictjson.Bool{}, "enable_chunked_prefill"),
	arg("preemption_mode", strictjson.Enum{Choices: []string{"lifo", "fifo"}}, "preemption_mode"),
	arg("speedup_ratio", strictjson.Number{}, "speedup_ratio"),
	arg("decode_speedup_ratio", strictjson.Number{}, "decode_speedup_ratio"),
	arg("data_parallel_size", strictjson.Integer{Min: 1, Max: 1024}, "dp_size"),
	arg("startup_time", strictjson.Number{}, "startup_time"),
	arg("planner_profile_data", strictjson.Text{NonEmpty: true}, "planner_profile_data"),
	arg("reasoning", strictjson.Text{}, "reasoning"), // JSON text, see engineText
	arg("response_replay_trace_path", strictjson.Text{NonEmpty: true}, "response_replay_trace_path"),
	arg("engine_type", strictjson.Enum{Choices: []string{"vllm", "sglang", "trtllm"}}, "engine_type"),
	arg("watermark", strictjson.Number{Max: 1, MaxOpen: true}, "watermark"),
	arg("sglang_schedule_policy", strictjson.Enum{Choices: []string{"fifo", "fcfs", "lpm"}}, "sglang.schedule_policy"),
	arg("sglang_page_size", strictjson.Integer{Min: 1}, "sglang.page_size"),
	arg("sglang_max_prefill_tokens", strictjson.Integer{Min: 1}, "sglang.max_prefill_tokens"),
	arg("sglang_chunked_prefill_size", strictjson.Integer{Min: 1}, "sglang.chunked_prefill_size"),
	arg("sglang_clip_max_new_tokens", strictjson.Integer{Min: 1}, "sglang.clip_max_new_tokens"),
	arg("sglang_schedule_conservativeness", strictjson.Number{}, "sglang.schedule_conservativeness"),
	arg("trtllm_capacity_scheduler_policy", strictjson.Text{}, "trtllm.capacity_scheduler_policy"),
	arg("kv_bytes_per_token", strictjson.Integer{}, "kv_bytes_per_token"),
	arg("kv_transfer_bandwidth", strictjson.Number{}, "kv_transfer_bandwidth"),
	arg("kv_transfer_timing_mode", strictjson.Enum{Choices: []string{"full_prompt", "destination_missing"}}, "kv_transfer_timing_mode"),
	arg("num_g2_blocks", strictjson.Integer{}, "num_g2_blocks"),
	arg("num_g3_blocks", strictjson.Integer{}, "num_g3_blocks"),
	arg("offload_batch_size", strictjson.Integer{}, "offload_batch_size"),
	arg("enable_g4_storage", strictjson.Bool{}, "enable_g4_storage"),
	arg("bandwidth_g1_to_g2_gbps", strictjson.Number{}, "bandwidth_g1_to_g2_gbps"),
	arg("bandwidth_g2_to_g1_gbps", strictjson.Number{}, "bandwidth_g2_to_g1_gbps"),
	arg("bandwidth_g2_to_g3_gbps", strictjson.Number{}, "bandwidth_g2_to_g3_gbps"),
	arg("bandwidth_g3_to_g2_gbps", strictjson.Number{}, "bandwidth_g3_to_g2_gbps"),
	arg("bandwidth_g2_to_g4_gbps", strictjson.Number{}, "bandwidth_g2_to_g4_gbps"),
	arg("bandwidth_g4_to_g2_gbps", strictjson.Number{}, "bandwidth_g4_to_g2_gbps"),
	arg("aic_nextn", strictjson.Integer{Min: 1}, "aic_nextn"),
	arg("aic_nextn_accept_rates", strictjson.Text{}, "aic_nextn_accept_rates"),
	arg("aic_mtp_seed", strictjson.Integer{Max: math.MaxUint64}, "aic_mtp_seed"),
	arg("gpu_memory_utilization", strictjson.Number{Max: 1}, "gpu_memory_utilization"),
	arg("mem_fraction_static", strictjson.Number{Max: 1}, "mem_fraction_static"),
	arg("free_gpu_memory_fraction", strictjson.Number{Max: 1}, "free_gpu_memory_fraction"),

	own("aic_perf_model", strictjson.Bool{}, false),
	own("aic_system", strictjson.Text{}, nil).forAIC(),
	own("aic_backend", strictjson.Enum{Choices: []string{"vllm", "sglang", "trtllm"}}, nil).forAIC(),
	own("aic_backend_version", strictjson.Text{}, nil).forAIC(),
	own("aic_tp_size", strictjson.Integer{}, nil).forAIC(),
	own("aic_moe_tp_size", strictjson.Integer{}, nil).forAIC(),
	own("aic_moe_ep_size", strictjson.Integer{}, nil).forAIC(),
	own("aic_attention_dp_size", strictjson.Integer{}, nil).forAIC(),
}

func own(name string, t strictjson.Type, standard any) option {
	return option{Field: strictjson.Field{Name: name, Type: t, Default: standard}}
}

// arg is an option whose default is that of the engine argument.
func arg(name string, t strictjson.Type, engineArg string) option {
	return option{Field: strictjson.Field{Name: name, Type: t}, engineArg: engineArg}
}

func (o option) forAIC() option {
	o.aic = true
	return o
}

// decode reads a description and checks every key by itself.
func decode(text string) (*strictjson.Object, error) {
	var fields []strictjson.Field
	for _, o := range options {
		fields = append(fields, o.Field)
	}
	fields = append(fields, strictjson.Field{Name: "environment", Type: strictjson.List{}})
	o, err := strictjson.Decode(text, strictjson.Schema{Fields: fields, NonFinite: true})
	if err != nil {
		return nil, err
	}
	if err := strictjson.Join(o.RangeErrors()); err != nil {
		return nil, err
	}
	if o.Bool("is_prefill_worker") || o.Bool("is_decode_worker") {
		err = checkLegacyMode(o)
	}
	return o, err
}

// checkLegacyMode says what is wrong with the flags that --disaggregation-mode has replaced.
func checkLegacyMode(o *strictjson.Object) error {
	switch {
	case !o.Bool("is_prefill_worker") && !o.Bool("is_decode_worker"):
		return nil
	case o.Given("disaggregation_mode"):
		return fmt.Errorf("is_prefill_worker, is_decode_worker: cannot be combined with disaggregation_mode %s; use only that", o.Shown("disaggregation_mode"))
	case o.Bool("is_prefill_worker") && o.Bool("is_decode_worker"):
		return fmt.Errorf("is_prefill_worker, is_decode_worker: a worker is one of prefill, decode and aggregated, not both")
	default:
		return nil
	}
}

// workerTypes are what engine arguments call the modes.
var workerTypes = map[string]string{"agg": "aggregated", "prefill": "prefill", "decode": "decode"}

// mode is the part of a request's life that the options want the workers to serve, "" if they do not say.
func mode(o *strictjson.Object) (workerType, warning string) {
	switch {
	case o.Bool("is_prefill_worker"):
		return "prefill", "is_prefill_worker is deprecated: use disaggregation_mode prefill"
	case o.Bool("is_decode_worker"):
		return "decode", "is_decode_worker is deprecated: use disaggregation_mode decode"
	default:
		return workerTypes[o.Text("disaggregation_mode")], ""
	}
}

// ports reads a list of one port for each worker; nil for none. ranks is how many ports each of them stands for.
func ports(o *strictjson.Object, name string, ranks int) ([]int, error) {
	text := o.Text(name)
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var list []int
	for item := range strings.SplitSeq(text, ",") {
		port, err := strconv.Atoi(strings.TrimSpace(item))
		if err != nil || port < 1 || port+ranks-1 > math.MaxUint16 {
			return nil, &strictjson.FieldError{
				Field: name, Got: strconv.Quote(item), Want: fmt.Sprintf("ports from 1 to %d, with commas in between", math.MaxUint16-ranks+1),
			}
		}
		list = append(list, port)
	}
	if n := o.Int("num_workers"); len(list) != n {
		return nil, fmt.Errorf("%s: must have exactly num_workers (%d) ports, got %d: %v", name, n, len(list), list)
	}
	return list, nil
}

// chosenDelay has the delay between launches chosen by the number of workers.
const chosenDelay = -1.0

// batch is the number of workers after which a launch with delays takes a break.
const batch = 32

// pauses returns how long to wait after the launch of each worker but the last.
func pauses(o *strictjson.Object) (func(i int) time.Duration, error) {
	delay := chosenDelay
	if o.Given("stagger_delay") {
		var err error
		if delay, err = strconv.ParseFloat(strings.Trim(o.Shown("stagger_delay"), `"`), 64); err != nil || math.IsNaN(delay) || math.IsInf(delay, 0) || delay < 0 && delay != chosenDelay {
			return nil, &strictjson.FieldError{Field: "stagger_delay", Got: o.Shown("stagger_delay"), Want: "seconds >= 0, or -1 to choose by the number of workers"}
		}
	}
	if delay == chosenDelay {
		switch n := o.Int("num_workers"); {
		case n <= batch:
			delay = 0
		case n <= 128:
			delay = 0.1
		default:
			delay = 0.2
		}
	}
	return func(i int) time.Duration {
		pause := time.Duration(delay * float64(time.Second))
		if delay > 0 && (i+1)%batch == 0 {
			pause += 2 * time.Second
		}
		return pause
	}, nil
}
