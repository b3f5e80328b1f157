package job

import (
	"errors"
	"fmt"
	"math"

	"dynosim/gocore/replay"
	"dynosim/gocore/report"
	"dynosim/gocore/router"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/workload"
)

// The two kinds of run. Their other keys are those of the Python functions run_trace_replay and
// run_synthetic_trace_replay.
const (
	kindTrace     = "trace"
	kindSynthetic = "synthetic"
)

const maxWorkers = 1 << 16

// option is a key of the description that this build supports.
type option struct {
	strictjson.Field
	kind     string // the only kind of run that knows it, "" for both
	required bool
	// aside marks what is not among the arguments of a run in its report: outputs, and what repeats a run.
	aside bool
}

var options = []option{
	{aside: true, Field: strictjson.Field{Name: "kind", Type: strictjson.Enum{Choices: []string{kindTrace, kindSynthetic}}, Required: true}},
	{Field: strictjson.Field{Name: "extra_engine_args", Type: strictjson.Text{}}},
	{Field: strictjson.Field{Name: "prefill_engine_args", Type: strictjson.Text{}}},
	{Field: strictjson.Field{Name: "decode_engine_args", Type: strictjson.Text{}}},
	{Field: strictjson.Field{Name: "num_workers", Type: strictjson.Integer{Min: 1, Max: maxWorkers}, Default: 1}},
	{Field: strictjson.Field{Name: "num_prefill_workers", Type: strictjson.Integer{Min: 1, Max: maxWorkers}, Default: 1}},
	{Field: strictjson.Field{Name: "num_decode_workers", Type: strictjson.Integer{Min: 1, Max: maxWorkers}, Default: 1}},
	{Field: strictjson.Field{Name: "replay_concurrency", Type: strictjson.Integer{Min: 1}}},
	{Field: strictjson.Field{Name: "replay_mode", Type: strictjson.Enum{Choices: []string{offlineMode, onlineMode}}, Default: offlineMode}},
	{Field: strictjson.Field{Name: "router_mode", Type: strictjson.Enum{Choices: router.ModeNames(), Added: router.ModeNames}, Default: router.RoundRobinMode}},
	{Field: strictjson.Field{Name: "router_config", Type: strictjson.Text{}}},
	{Field: strictjson.Field{Name: "aic_perf_config", Type: strictjson.Text{}}},
	{aside: true, Field: strictjson.Field{Name: "router_log", Type: strictjson.Text{NonEmpty: true}}},
	{Field: strictjson.Field{Name: "router_decisions", Type: strictjson.Text{NonEmpty: true}}},
	{Field: strictjson.Field{Name: "router_decisions_mode", Type: strictjson.Enum{Choices: []string{"check", "force"}}, Default: "check"}},
	{Field: strictjson.Field{Name: "seed", Type: strictjson.Integer{Max: math.MaxUint64}, Default: 0}},
	{Field: strictjson.Field{Name: "arrival_speedup_ratio", Type: strictjson.Number{MinOpen: true}, Default: 1.0}},
	{aside: true, Field: strictjson.Field{Name: "save_trace", Type: strictjson.Text{NonEmpty: true}}},
	{aside: true, Field: strictjson.Field{Name: "rows", Type: strictjson.Bool{}}}, // see keepsRows
	{aside: true, Field: strictjson.Field{Name: "report_jsonl_path", Type: strictjson.Text{NonEmpty: true}}},
	{Field: strictjson.Field{Name: "max_sim_time_ms", Type: strictjson.Number{}}},
	{Field: strictjson.Field{Name: "max_sim_time_seconds", Type: strictjson.Number{}}}, // as the command line has it
	{Field: strictjson.Field{Name: "model_name", Type: strictjson.Text{NonEmpty: true}}},
	{Field: strictjson.Field{Name: "sla_ttft_ms", Type: strictjson.Number{}}},
	{Field: strictjson.Field{Name: "sla_itl_ms", Type: strictjson.Number{}}},
	{Field: strictjson.Field{Name: "sla_e2e_ms", Type: strictjson.Number{}}},
	{aside: true, Field: strictjson.Field{Name: "expected_inputs", Type: strictjson.Any{}}}, // see checkInputs

	{kind: kindTrace, required: true, Field: strictjson.Field{Name: "trace_files", Type: strictjson.List{}}},
	{kind: kindTrace, Field: strictjson.Field{Name: "trace_block_size", Type: strictjson.Integer{Min: 1, Max: 1 << 20}, Default: 512}},
	{kind: kindTrace, Field: strictjson.Field{Name: "trace_format", Type: strictjson.Enum{Choices: traceFormats}, Default: "mooncake"}},
	{kind: kindTrace, Field: strictjson.Field{Name: "trace_shared_prefix_ratio", Type: strictjson.Number{Max: 1}, Default: 0.0}},
	{kind: kindTrace, Field: strictjson.Field{Name: "trace_num_prefix_groups", Type: strictjson.Integer{Max: math.MaxInt32}, Default: 0}},

	{kind: kindSynthetic, Field: strictjson.Field{Name: "input_tokens", Type: strictjson.Any{}}}, // see parseLengths
	{kind: kindSynthetic, Field: strictjson.Field{Name: "output_tokens", Type: strictjson.Any{}}},
	{kind: kindSynthetic, required: true, Field: strictjson.Field{Name: "request_count", Type: strictjson.Integer{Min: 1, Max: math.MaxInt32}}},
	{kind: kindSynthetic, Field: strictjson.Field{Name: "arrival_interval_ms", Type: strictjson.Number{}, Default: 1.0}},
	{kind: kindSynthetic, Field: strictjson.Field{Name: "arrival_process", Type: strictjson.Enum{Choices: arrivalProcesses}, Default: "constant"}},
	{kind: kindSynthetic, Field: strictjson.Field{Name: "request_rate", Type: strictjson.Number{MinOpen: true}}},
	{kind: kindSynthetic, Field: strictjson.Field{Name: "arrival_cv", Type: strictjson.Number{Min: workload.MinCV, Max: workload.MaxCV}}},
	{kind: kindSynthetic, Field: strictjson.Field{Name: "turns_per_session", Type: strictjson.Integer{Min: 1, Max: math.MaxInt32}, Default: 1}},
	{kind: kindSynthetic, Field: strictjson.Field{Name: "shared_prefix_ratio", Type: strictjson.Number{Max: 1}, Default: 0.0}},
	{kind: kindSynthetic, Field: strictjson.Field{Name: "num_prefix_groups", Type: strictjson.Integer{Max: math.MaxInt32}, Default: 0}},
	{kind: kindSynthetic, Field: strictjson.Field{Name: "inter_turn_delay_ms", Type: strictjson.Number{}, Default: 0.0}},
}

var traceFormats = []string{
	"mooncake", "mooncake-delta", "mooncake_delta", "agentic_mooncake", "agentic-mooncake", "applied_compute_agentic", "dynamo",
}

var arrivalProcesses = []string{"constant", "poisson", "gamma", "weibull"}

// decode reads a description and checks every key by itself, and that the kind of run knows it.
func decode(config string) (*strictjson.Object, lengths, error) {
	var fields []strictjson.Field
	for _, known := range options {
		fields = append(fields, known.Field)
	}
	for _, later := range notBuilt {
		fields = append(fields, later.Field)
	}
	o, err := strictjson.Decode(config, strictjson.Schema{Fields: fields, NonFinite: true})
	if err != nil {
		return nil, lengths{}, err
	}
	if err := checkKind(o); err != nil {
		return nil, lengths{}, err
	}
	if err := refuse(o); err != nil {
		return nil, lengths{}, err
	}
	lengths, errs := parseLengths(config, o)
	if err := strictjson.Join(append(o.RangeErrors(), errs...)); err != nil {
		return nil, lengths, err
	}
	if o.Text("kind") == kindTrace {
		err = checkTraceFiles(o)
	}
	return o, lengths, err
}

func checkKind(o *strictjson.Object) error {
	kind := o.Text("kind")
	for _, known := range options {
		switch {
		case known.kind != "" && known.kind != kind && o.Given(known.Name):
			return fmt.Errorf("%s: got %s, want it left out: it is for %s runs only", known.Name, o.Shown(known.Name), known.kind)
		case known.kind == kind && known.required && !o.Given(known.Name):
			return &strictjson.FieldError{Field: known.Name, Got: "nothing", Want: known.Type.Want()}
		}
	}
	return nil
}

func checkTraceFiles(o *strictjson.Object) error {
	files := o.List("trace_files")
	switch {
	case traceFormat(o) == workload.Dynamo:
		if len(files) == 0 {
			return errors.New("trace_files: got 0 files, want at least one")
		}
	case len(files) != 1:
		return fmt.Errorf("trace_files: got %d files, want exactly one for trace_format %s", len(files), o.Text("trace_format"))
	}
	return nil
}

// sla is the service level that requests are measured against.
func sla(o *strictjson.Object) report.SLA {
	bound := func(name string) float64 {
		if !o.Given(name) {
			return math.NaN()
		}
		return o.Float(name)
	}
	return report.SLA{TTFTMs: bound("sla_ttft_ms"), ITLMs: bound("sla_itl_ms"), E2EMs: bound("sla_e2e_ms")}
}

// runConfig takes over what the replay itself needs to know.
func runConfig(o *strictjson.Object) replay.Config {
	cfg := replay.Config{
		Concurrency:  o.Int("replay_concurrency"),
		MaxSimTimeMs: math.Inf(1),
	}
	if o.Given("max_sim_time_ms") {
		cfg.MaxSimTimeMs = o.Float("max_sim_time_ms")
	}
	if o.Given("max_sim_time_seconds") {
		cfg.MaxSimTimeMs = o.Float("max_sim_time_seconds") * 1000
	}
	return cfg
}
