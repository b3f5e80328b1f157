package job

import (
	"math"
	"slices"
	"strings"

	"dynosim/gocore/aic"
	"dynosim/gocore/router"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/workload"
)

// The values of replay_mode.
const (
	offlineMode = "offline"
	onlineMode  = "online"
)

// option is one option of a run. This table is the only place that lists them: descriptions are checked against it, and
// the Python functions, the command line, the keys of --config and docs/reference/replay.md are generated from it.
type option struct {
	strictjson.Field
	kind     string // the only kind of run that knows it, "" for both
	required bool
	instead  string // an option that may be given instead of a required one, "" if there is none
	// feature names what the option needs and this build lacks; then only the default is accepted. It is "" for an
	// option that works.
	feature string
	// aside marks options that are not among the arguments in a report: outputs, and options that repeat a run.
	aside bool
	// shell marks an option that only the command line knows. It is no key of the description.
	shell bool

	// doc describes a parameter of the Python functions, "" if they have none of this name. It may be positional.
	doc        string
	positional bool
	takes      taken // what values Python accepts, if that does not follow from the type

	// help is the line of --help, "" if the command line has no such option. flag is its spelling and metavar stands
	// for its value, both "" if they follow from the name and the type.
	help, group, flag, metavar string
	// strict refuses the option on the command line with the other kind of workload even if it has its default.
	strict bool
	// idle says why the option has no effect in some runs, each for another reason.
	idle []idleWhen
	// The value is the path of a file that the run reads or writes.
	reads, writes bool
}

// taken is what values a parameter of the Python functions accepts.
type taken string

const (
	takesPath         taken = "path"
	takesPaths        taken = "paths"
	takesLengths      taken = "lengths" // a number, or a distribution as text
	takesEngineArgs   taken = "engine_args"
	takesRouterConfig taken = "router_config"
	takesAICConfig    taken = "aic_config"
	takesObjectOrPath taken = "object_or_path"
	takesPlanner      taken = "planner"
	takesAutoscaler   taken = "autoscaler"
	takesFaults       taken = "faults"
	takesTelemetry    taken = "telemetry"
	takesRouter       taken = "router"
	takesTimingModel  taken = "timing_model"
	takesPolicy       taken = "scheduler_policy"
)

// Groups of --help.
const (
	workloadGroup   = "workload"
	deploymentGroup = "deployment"
	runGroup        = "run"
	faultGroup      = "faults"
	loadModelGroup  = "prefill load model of the KV router"
	outputGroup     = "output"
)

// options is in the order of --help and of the parameters of the Python functions.
var options = slices.Concat([]option{
	{Field: strictjson.Field{Name: "kind", Type: strictjson.Enum{Choices: []string{kindTrace, kindSynthetic}},
		Required: true}, aside: true},
	{
		Field: strictjson.Field{Name: "trace_files", Type: strictjson.List{}},
		kind:  kindTrace, required: true, positional: true, takes: takesPaths,
		flag: "trace_file",
		help: "trace, Mooncake-style JSONL unless --trace-format says otherwise, plain or compressed (.gz, .zst); - " +
			"reads standard input",
		doc: "A trace, plain, ``.gz`` or ``.zst``; ``\"-\"`` reads standard input. A sequence of several for " +
			"``trace_format=\"dynamo\"``, ``\"servegen\"`` and ``\"weka\"``. Or a ``Workload`` from ``load_trace``, " +
			"which already includes the options of the trace.",
	},
	{
		Field: strictjson.Field{Name: "config", Type: strictjson.Text{}}, shell: true, metavar: "FILE",
		help: "JSON or YAML file with the run: its keys are trace and the parameters of the Python functions",
	},
	{
		Field: strictjson.Field{Name: "trace_format", Type: strictjson.Enum{Choices: workload.FormatSpellings()},
			Default: workload.Mooncake.String()},
		kind:  kindTrace,
		group: workloadGroup,
		help:  "format of the trace: " + strings.Join(workload.FormatNames(), ", ") + " (default: mooncake)",
		doc: "``\"mooncake\"`` (default), ``\"mooncake-delta\"``, ``\"agentic_mooncake\"``, " +
			"``\"applied_compute_agentic\"``, ``\"dynamo\"``, or the format of a public trace or of a load generator; " +
			"docs/workloads.md has an example of each.",
	},
	{
		Field: strictjson.Field{Name: "trace_block_size", Type: strictjson.Integer{Min: 1, Max: 1 << 20}, Default: 512},
		idle:  []idleWhen{withSizedBlocks},
		kind:  kindTrace, strict: true,
		group: workloadGroup,
		help:  "tokens that one hash_ids entry of the trace stands for (default: 512)",
		doc:   "Tokens that one ``hash_ids`` entry of the trace stands for; 512 if not given.",
	},
	{
		Field: strictjson.Field{Name: "trace_shared_prefix_ratio", Type: strictjson.Number{Max: 1}, Default: 0.0},
		idle:  []idleWhen{withOwnPrefixes},
		kind:  kindTrace,
		group: workloadGroup,
		help:  "fraction of each trace prompt replaced by a shared prefix, for traces without block ids (default: 0)",
		doc: "Fraction of each prompt that is replaced by a prefix shared between sessions, 0 (default) to 1, for " +
			"traces without block ids.",
	},
	{
		Field: strictjson.Field{Name: "trace_num_prefix_groups", Type: strictjson.Integer{Max: math.MaxInt32},
			Default: 0},
		idle:  []idleWhen{withOwnPrefixes},
		kind:  kindTrace,
		group: workloadGroup,
		help:  "number of different shared prefixes among trace prompts (default: 0, off)",
		doc:   "Number of different shared prefixes; 0 (default) is none.",
	},
	{
		Field: strictjson.Field{Name: "input_tokens", Type: strictjson.Any{}},
		kind:  kindSynthetic, positional: true, takes: takesLengths,
		group: workloadGroup,
		help:  "synthetic: prompt tokens of each request: a number, or a distribution, see below",
		doc: "Prompt tokens of each request: a number, or a distribution from which each turn draws: " +
			"``\"uniform(100,4000)\"``, ``\"normal(mean=2000,std=500)\"``, " +
			"``\"lognormal(mean=2000,cv=0.8,max=32000)\"``, or ``\"empirical(FILE)\"`` for a file with one number " +
			"per line. The middle two take ``min`` and ``max``.",
	},
	{
		Field: strictjson.Field{Name: "output_tokens", Type: strictjson.Any{}},
		kind:  kindSynthetic, positional: true, takes: takesLengths,
		group: workloadGroup,
		help:  "synthetic: output tokens of each request: a number, or a distribution, see below",
		doc:   "Output tokens of each request: a number, or a distribution as for input_tokens.",
	},
	{
		Field: strictjson.Field{Name: "request_count", Type: strictjson.Integer{Min: 1, Max: math.MaxInt32}},
		kind:  kindSynthetic, required: true, instead: "request_rate_curve", positional: true,
		group: workloadGroup,
		help:  "synthetic: number of requests, or of sessions if they have several turns",
		doc: "Number of requests, or of sessions if they have several turns. With request_rate_curve it may be left " +
			"out: the run then has the requests of one pass through the curve.",
	},
	{
		Field: strictjson.Field{Name: "arrival_interval_ms", Type: strictjson.Number{}, Default: 1.0},
		idle:  []idleWhen{withConcurrency},
		kind:  kindSynthetic, strict: true,
		group: workloadGroup,
		help:  "synthetic: time between arrivals (default: 1)",
		doc:   "Time between arrivals, in milliseconds; 1.0 if not given.",
	},
	{
		Field: strictjson.Field{Name: "arrival_process", Type: strictjson.Enum{Choices: arrivalProcesses},
			Default: "constant"},
		idle:  []idleWhen{withConcurrency},
		kind:  kindSynthetic,
		group: workloadGroup,
		help:  "synthetic: constant (default), poisson, gamma or weibull gaps between arrivals",
		doc: "How the gaps between arrivals vary: ``\"constant\"`` (default), ``\"poisson\"``, ``\"gamma\"`` or " +
			"``\"weibull\"``. All but the first need request_rate or request_rate_curve.",
	},
	{
		Field: strictjson.Field{Name: "request_rate", Type: strictjson.Number{MinOpen: true}},
		idle:  []idleWhen{withConcurrency},
		kind:  kindSynthetic,
		group: workloadGroup,
		help:  "synthetic: mean arrivals per second, instead of --arrival-interval-ms",
		doc:   "Mean arrivals per second, instead of arrival_interval_ms.",
	},
	{
		Field: strictjson.Field{Name: "request_rate_curve", Type: strictjson.Text{NonEmpty: true}},
		idle:  []idleWhen{withConcurrency},
		kind:  kindSynthetic, takes: takesPath, reads: true,
		metavar: "FILE", group: workloadGroup,
		help: "synthetic: CSV file with the columns time_s and rate_rps: a rate of arrivals that changes with time, " +
			"interpolated between rows",
		doc: "Arrivals per second that change with time, instead of request_rate: a CSV file with the columns " +
			"``time_s`` (seconds, from 0) and ``rate_rps``, interpolated linearly. It repeats after the last row.",
	},
	{
		Field: strictjson.Field{Name: "arrival_seed", Type: strictjson.Integer{Max: math.MaxUint64}},
		idle:  []idleWhen{withConcurrency, withEvenArrivals},
		kind:  kindSynthetic,
		group: workloadGroup,
		help:  "synthetic: seed of random arrivals (default: --seed)",
		doc:   "Seed of random arrivals, in place of seed, which still applies to everything else.",
	},
	{
		Field: strictjson.Field{Name: "arrival_cv", Type: strictjson.Number{Min: workload.MinCV, Max: workload.MaxCV}},
		idle:  []idleWhen{withConcurrency},
		kind:  kindSynthetic,
		group: workloadGroup,
		help:  "synthetic: standard deviation of gamma or weibull gaps, divided by their mean",
		doc:   "Standard deviation of gamma or weibull gaps divided by their mean; above 1 requests come in bursts.",
	},
	{
		Field: strictjson.Field{Name: "turns_per_session", Type: strictjson.Integer{Min: 1, Max: math.MaxInt32},
			Default: 1},
		kind:  kindSynthetic,
		group: workloadGroup,
		help:  "synthetic: number of turns in a session (default: 1)",
		doc:   "Number of turns in a session; 1 if not given.",
	},
	{
		Field: strictjson.Field{Name: "shared_prefix_ratio", Type: strictjson.Number{Max: 1}, Default: 0.0},
		idle:  []idleWhen{withoutGroups},
		kind:  kindSynthetic,
		group: workloadGroup,
		help:  "synthetic: fraction of prompt blocks shared in a prefix group (default: 0)",
		doc:   "Fraction of the prompt blocks shared within a prefix group, 0 (default) to 1.",
	},
	{
		Field: strictjson.Field{Name: "num_prefix_groups", Type: strictjson.Integer{Max: math.MaxInt32}, Default: 0},
		idle:  []idleWhen{withNothingShared},
		kind:  kindSynthetic,
		group: workloadGroup,
		help:  "synthetic: number of different shared prefixes (default: 0, off)",
		doc:   "Number of different shared prefixes; 0 (default) is none.",
	},
	{
		Field: strictjson.Field{Name: "inter_turn_delay_ms", Type: strictjson.Number{}, Default: 0.0},
		idle:  []idleWhen{withOneTurn},
		kind:  kindSynthetic,
		group: workloadGroup,
		help:  "synthetic: pause between a turn's end and the next (default: 0)",
		doc:   "Pause between the end of a turn and the start of the next, in milliseconds; 0 if not given.",
	},
	{
		Field: strictjson.Field{Name: "num_workers", Type: strictjson.Integer{Max: maxWorkers}, Default: 1},
		group: deploymentGroup,
		help:  "number of simulated workers (default: 1)",
		doc:   "Number of simulated workers in one pool; 1 if not given.",
	},
	{
		Field: strictjson.Field{Name: "num_prefill_workers", Type: strictjson.Integer{Max: maxWorkers}, Default: 1},
		group: deploymentGroup,
		help:  "prefill workers of a disaggregated deployment (default: 1)",
		doc:   "Prefill workers of two pools; 1 if not given.",
	},
	{
		Field: strictjson.Field{Name: "num_decode_workers", Type: strictjson.Integer{Max: maxWorkers}, Default: 1},
		group: deploymentGroup,
		help:  "decode workers of a disaggregated deployment (default: 1)",
		doc:   "Decode workers of two pools; 1 if not given.",
	},
	{
		Field: strictjson.Field{Name: "extra_engine_args", Type: strictjson.Text{}},
		takes: takesEngineArgs,
		group: deploymentGroup,
		help:  "engine arguments, a JSON object or @FILE",
		doc:   "The engine that every worker simulates: a MockEngineArgs or a dict of its fields.",
	},
	{
		Field: strictjson.Field{Name: "prefill_engine_args", Type: strictjson.Text{}},
		takes: takesEngineArgs,
		group: deploymentGroup,
		help:  "engine arguments of prefill workers, a JSON object or @FILE; they override --extra-engine-args",
		doc: "The engine of prefill workers, which compute prompts: overrides of extra_engine_args. This argument, " +
			"decode_engine_args and both numbers of workers make two pools instead of one.",
	},
	{
		Field: strictjson.Field{Name: "decode_engine_args", Type: strictjson.Text{}},
		takes: takesEngineArgs,
		group: deploymentGroup,
		help:  "engine arguments of decode workers, a JSON object or @FILE; they override --extra-engine-args",
		doc: "The engine of decode workers, which receive the KV of prompts and generate: overrides of " +
			"extra_engine_args.",
	},
	{
		Field: strictjson.Field{Name: "router_mode", Type: strictjson.Enum{Choices: router.ModeNames(),
			Added: router.ModeNames, Aliases: map[string]string{"kv": router.KVMode}}, Default: router.RoundRobinMode},
		group: deploymentGroup,
		help:  strictjson.Listed(router.ModeNames(), "%s") + "; also kv, and dashes for underscores; see docs/routers.md",
		doc:   strictjson.Listed(router.ModeNames(), "``%q``") + ", for two workers or more.",
	},
	{
		Field: strictjson.Field{Name: "router_config", Type: strictjson.Text{}},
		idle:  []idleWhen{withPlainRouter},
		takes: takesRouterConfig,
		group: deploymentGroup,
		help:  "router settings, a JSON object or @FILE",
		doc: "Settings of the router: a KvRouterConfig for ``\"kv_router\"``, or a dict of the settings of that " +
			"``router_mode`` (docs/reference/routing-modes.md).",
	},
	{
		Field:   strictjson.Field{Name: "router", Type: strictjson.Text{NonEmpty: true}},
		takes:   takesRouter,
		metavar: "MODULE:NAME", group: deploymentGroup,
		help: "router in Python: MODULE:CLASS, FILE.py:CLASS or the name of an installed one; or a router mode; " +
			"see docs/routers.md",
		doc: "A router in Python instead of ``router_mode``: an object with ``choose(request, workers)``, or a pair " +
			"of objects for two pools; or the string ``\"module:Class\"``, ``\"file.py:Class\"`` or the name of an " +
			"installed one, which is instantiated for each pool with ``router_config``. See docs/routers.md. An " +
			"exception that it raises ends the run.",
	},
	{
		Field: strictjson.Field{Name: "kv_event_lag_ms", Type: strictjson.Number{Max: 1e15}, Default: 0.0},
		group: deploymentGroup,
		help:  "delay until the KV router learns that blocks were stored or removed (default: 0)",
		doc: "Delay until the router learns that a worker has stored or removed blocks, in milliseconds of simulated " +
			"time; 0 if not given. Computed prompts and completed requests have no delay. For " +
			"``router_mode=\"kv_router\"`` and routers in Python.",
	},
	{
		Field:   strictjson.Field{Name: "timing_model", Type: strictjson.Text{NonEmpty: true}},
		takes:   takesTimingModel,
		metavar: "MODULE:NAME", group: deploymentGroup,
		help: "timing model in Python, for the duration of passes: MODULE:NAME, FILE.py:NAME or the name of an " +
			"installed one; see docs/timing.md",
		doc: "A timing model in Python, in place of the one in the engine arguments: a function of a batch of parts " +
			"of passes that returns their milliseconds, or the string ``\"module:name\"``, ``\"file.py:name\"`` or " +
			"the name of an installed one. See docs/timing.md. An exception that it raises ends the run.",
	},
	{
		Field:   strictjson.Field{Name: "scheduler_policy", Type: strictjson.Text{NonEmpty: true}},
		takes:   takesPolicy,
		metavar: "MODULE:NAME", group: deploymentGroup,
		help: "scheduler policy in Python, for which request an engine admits or preempts next: MODULE:CLASS, " +
			"FILE.py:CLASS or the name of an installed one; see docs/schedulers.md",
		doc: "A policy in Python for which waiting request an engine admits next, and which running one it preempts: " +
			"an object with ``next(waiting, engine)`` or ``victim(running, engine)``, or the string " +
			"``\"module:Class\"``, ``\"file.py:Class\"`` or the name of an installed one. For the engines of " +
			"Dynamo's mocker of type vllm and trtllm. See docs/schedulers.md. An exception that it raises ends the run.",
	},
	{
		Field: strictjson.Field{Name: "router_log", Type: strictjson.Text{NonEmpty: true}},
		aside: true, takes: takesPath, writes: true,
		group: deploymentGroup,
		help:  "write every decision of the router to this JSONL file",
		doc:   "Write every decision of the router, with all workers and their costs, to this JSONL file.",
	},
	{
		Field: strictjson.Field{Name: "router_decisions", Type: strictjson.Text{NonEmpty: true}},
		takes: takesPath, reads: true,
		group: deploymentGroup,
		help:  "JSONL file with decisions to repeat: trace_row, decode_worker_idx",
		doc: "Repeat the decisions in this JSONL file (``trace_row`` and ``decode_worker_idx``, with ``dp_rank`` if the " +
			"router chooses ranks), which may be a per-request file of another run.",
	},
	{
		Field: strictjson.Field{Name: "router_decisions_mode",
			Type: strictjson.Enum{Choices: []string{"check", "force"}}, Default: "check"},
		group: deploymentGroup,
		help:  "check (default): a repeated decision must be among the cheapest; force: repeat it anyway",
		doc: "With ``\"check\"`` (default) a repeated decision that is not among the cheapest is an error, with " +
			"``\"force\"`` it is carried out.",
	},
	{
		Field: strictjson.Field{Name: "router_policy_config", Type: strictjson.Text{}},
		takes: takesPath, feature: "router policy files",
		group: deploymentGroup,
		help:  "not built yet: file with router policy settings",
		doc:   "A router policy file. Not built yet: refused.",
	},
	{
		Field: strictjson.Field{Name: "model", Type: strictjson.Text{NonEmpty: true}},
		group: deploymentGroup,
		help: "model that vLLM serves, which determines KV cache groups, block size, blocks and GPUs; \"python -m " +
			"dynamo.replay models\" lists the models",
		doc: "A model that vLLM serves, which determines KV cache groups, block size, blocks and GPUs: the engine " +
			"argument of this name, for all pools. See docs/hybrid.md.",
	},
	{
		Field: strictjson.Field{Name: "model_name", Type: strictjson.Text{NonEmpty: true}},
		idle:  []idleWhen{withoutPolicyFile},
		group: deploymentGroup,
		help:  "name of the served model; no effect without --router-policy-config",
		doc:   "Name of the model, which selects a profile of a router policy file; without one it has no effect.",
	},
	{
		Field: strictjson.Field{Name: "planner", Type: strictjson.Bool{}},
		takes: takesPlanner,
		doc: "A planner that changes the number of workers of each pool during the run: an object with " +
			"``initial_tick_ms()`` and ``on_tick(metrics)``, see docs/planner.md. An exception that it raises ends " +
			"the run.",
	},
	{
		Field: strictjson.Field{Name: "autoscaler", Type: strictjson.Text{NonEmpty: true}},
		takes: takesAutoscaler,
		group: deploymentGroup,
		help:  "policy that changes the number of workers: hpa, keda, queue or schedule, a JSON object or @FILE",
		doc: "A policy that changes the number of workers during the run: a dict with the key ``policy`` " +
			"(``\"hpa\"``, ``\"keda\"``, ``\"queue\"`` or ``\"schedule\"``), or a list of dicts for two pools. See " +
			"docs/planner.md.",
	},
	{
		Field: strictjson.Field{Name: "planner_log", Type: strictjson.Text{NonEmpty: true}},
		aside: true, takes: takesPath, writes: true,
		metavar: "FILE", group: deploymentGroup,
		help: "write one JSON object for each tick of the planner or autoscaler",
		doc:  "Write what the planner or autoscaler saw and decided, one JSON object for each tick, to this file.",
	},
	{
		Field: strictjson.Field{Name: "planner_config", Type: strictjson.Text{NonEmpty: true}},
		takes: takesObjectOrPath,
		group: deploymentGroup,
		help:  "settings of ai-dynamo's planner, which then changes the number of workers: a JSON object, @FILE or a path",
		doc: "Settings of ai-dynamo's planner, which then changes the number of workers: a dict or the path of a " +
			"JSON or YAML file. It needs ``planner_python``. See docs/planner.md.",
	},
	{
		Field: strictjson.Field{Name: "planner_python", Type: strictjson.Text{NonEmpty: true}},
		aside: true, takes: takesPath,
		metavar: "PYTHON", group: deploymentGroup,
		help: "interpreter of an environment with ai-dynamo, for --planner-config (default: DYNOSIM_PLANNER_PYTHON)",
		doc: "The interpreter of an environment with ai-dynamo, which ``planner_config`` needs; if not given, the " +
			"environment variable ``DYNOSIM_PLANNER_PYTHON``.",
	},
	{
		Field: strictjson.Field{Name: "benchmark_granularity", Type: strictjson.Integer{Min: 1, Max: 1 << 20},
			Default: 8},
		group: deploymentGroup,
		help:  "with --planner-config and target sla: steps per axis of its initial predictions (default: 8)",
		doc: "Steps per axis of the initial AIC predictions for ``planner_config`` with the optimization target " +
			"``sla``; 8 if not given.",
	},
	{
		Field: strictjson.Field{Name: "gpu_hour_price", Type: strictjson.Number{MinOpen: true}},
		group: deploymentGroup,
		help:  "price of a GPU for an hour; adds gpu_cost to the report",
		doc:   "The price of a GPU for an hour, in any currency. It adds ``gpu_cost`` to the report: GPU hours times price.",
	},
	{
		Field: strictjson.Field{Name: "faults", Type: strictjson.Text{}},
		takes: takesFaults,
		group: faultGroup, metavar: "FILE",
		help: "script of faults (crash, slow, pause, partition and others), one JSON object per line, or YAML; see " +
			"docs/faults.md",
		doc: "Faults: a list of dicts with the keys ``kind``, ``at_ms`` or ``mtbf_s``, ``target`` and " +
			"others, or the path of a JSONL or YAML file with them. See docs/faults.md.",
	},
	faultOption("fault_rate", strictjson.Number{Max: 1e6}, 1.0,
		"factor on the frequency of faults with mtbf_s (default: 1; 0: never)",
		"Factor on the frequency of faults with ``mtbf_s``; 1.0 if not given, 0 for never.",
		withoutScript, withoutRates),
	faultOption("migration_limit", strictjson.Integer{Max: 1000}, 0,
		"how often a request whose worker is lost may continue on another one, with its tokens (default: 0)",
		"How often a request whose worker is lost may continue on another one, with its tokens as part of the "+
			"prompt, as with Dynamo's frontend; 0 if not given.",
		withoutFaults, withoutWorkerFaults),
	faultOption("detection_ms", strictjson.Number{Max: 1e15}, 0.0,
		"time until the loss of a worker is noticed; until then it is sent requests (default: 0; live: 10000)",
		"Time until the loss of a worker is noticed, in milliseconds. Until then requests are sent to it. 0 if "+
			"not given; the records of live workers expire after 10,000.",
		withoutFaults, withoutLosses),
	faultOption("avoid_ms", strictjson.Number{Max: 1e15}, 0.0,
		"how long a worker gets no requests after its streams have broken (default: 0; Dynamo's frontend: up to 5000)",
		"How long a worker gets no requests after its streams have broken, in milliseconds; 0 if not given. "+
			"Dynamo's frontend avoids it for up to 5,000.",
		withoutFaults, withoutCrashes),
	faultOption("retry_refused_ms", strictjson.Number{Max: 1e15}, 0.0,
		"how long after a worker's streams have broken requests sent to it return to the router (default: 0)",
		"How long after the streams of a lost worker have broken requests sent to it return to the router, at most "+
			"``migration_limit`` times, in milliseconds; 0 if not given. Later ones fail immediately. Dynamo's "+
			"frontend does this with its KV-aware router.",
		withoutFaults, withoutCrashes, withoutRetries),
	faultOption("router_rules", strictjson.Enum{Choices: []string{"1.3", "1.6"}}, "1.3",
		"release of Dynamo whose rules apply to a lost worker until its loss is noticed (default: 1.3)",
		"The release of Dynamo whose rules apply to a lost worker until its loss is noticed: ``1.3`` if not "+
			"given. With ``1.6``, a worker that breaks a stream or refuses a request is avoided until the frontend "+
			"lists its workers again, ``avoid_ms`` after the loss and every 5,000 ms from then on, and a refused "+
			"request returns to the router.",
		withoutFaults, withoutCrashes),
	faultOption("client_timeout_ms", strictjson.Number{MinOpen: true, Max: 1e15}, nil,
		"time after which clients give up a request (default: never)",
		"Time after which a client gives up a request, in milliseconds; never if not given."),
	faultOption("client_retries", strictjson.Integer{Max: 1000}, 0,
		"how often a client restarts a request that has failed or timed out (default: 0)",
		"How often a client restarts a request that has failed or timed out; 0 if not given.",
		withoutFaults),
	faultOption("client_backoff_ms", strictjson.Number{Max: 1e15}, 1000.0,
		"pause before the first retry of a client, doubled each time (default: 1000)",
		"Pause before the first retry of a client, in milliseconds, which doubles each time; 1000.0 if not given.",
		withoutFaults, withoutClientRetries),
	faultOption("hedge_after_ms", strictjson.Number{Max: 1e15}, nil,
		"time without a token after which a request is sent a second time; the first answer counts (default: never)",
		"Time without a token, in milliseconds, after which a request is sent a second time. The attempt with the "+
			"first token counts; the other one is cancelled. Never if not given."),
	{
		Field: strictjson.Field{Name: "replay_mode", Type: strictjson.Enum{Choices: []string{offlineMode, onlineMode}},
			Default: offlineMode},
		group: runGroup,
		help:  "offline (default, virtual time) or online",
		doc:   "``\"offline\"`` (default) runs in virtual time, ``\"online\"`` in real time.",
	},
	{
		Field: strictjson.Field{Name: "replay_concurrency", Type: strictjson.Integer{Min: 1}},
		group: runGroup,
		help:  "ignore arrival times and keep this many requests in flight",
		doc:   "Ignore arrival times and keep this many requests in flight instead.",
	},
	{
		Field: strictjson.Field{Name: "agentic_lanes", Type: strictjson.Integer{Min: 1, Max: math.MaxInt32}},
		kind:  kindTrace,
		group: runGroup,
		help:  "traces of agents: ignore the recorded starts of whole agent runs and keep this many in flight",
		doc: "For traces of agents (``agentic_mooncake``, ``weka``, ``dynamo`` with agents): ignore the recorded " +
			"start of each graph of dependent requests, and keep this many graphs in flight. When all requests of " +
			"a graph have ended, the next one begins.",
	},
	{
		Field: strictjson.Field{Name: "arrival_speedup_ratio", Type: strictjson.Number{MinOpen: true}, Default: 1.0},
		idle:  []idleWhen{withConcurrency},
		group: runGroup,
		help:  "divide the gaps between arrivals by this (default: 1)",
		doc:   "Divides all gaps between arrivals; 2.0 makes them half as long. 1.0 if not given.",
	},
	{
		Field: strictjson.Field{Name: "seed", Type: strictjson.Integer{Max: math.MaxUint64}, Default: 0},
		group: runGroup,
		help:  "seed of everything random: ties between workers, lengths, arrivals, prefixes (default: 0)",
		doc: "Seed of everything random: ties between workers, and the draws of a synthetic workload. Equal " +
			"seeds give equal runs; 0 if not given.",
	},
	{
		Field: strictjson.Field{Name: "max_sim_time_ms", Type: strictjson.Number{}},
		doc:   "Stop at this simulated time, in milliseconds.",
	},
	{
		Field: strictjson.Field{Name: "max_sim_time_seconds", Type: strictjson.Number{}},
		group: runGroup,
		help:  "stop at this simulated time",
	},
	{
		Field:   strictjson.Field{Name: stopWhenLate, Type: strictjson.Text{NonEmpty: true}},
		group:   runGroup,
		metavar: "LIMITS",
		help:    "stop once more than N values are over a limit: ttft_ms>2000:N,itl_ms>50:N; also tpot_ms, e2e_ms",
		doc: "Stop once more values than a number are over a limit: ``\"ttft_ms>2000:24,itl_ms>50:900\"`` ends at " +
			"the 25th TTFT over 2,000 ms, or the 901st gap over 50 ms; also ``tpot_ms`` and ``e2e_ms``. The report has " +
			"lower bounds of their numbers: ``late_ttft_ms`` and similar keys count requests that have ended. So a " +
			"run that cannot meet a service level ends early.",
	},
	{
		Field: strictjson.Field{Name: "sla_ttft_ms", Type: strictjson.Number{}},
		group: runGroup,
		help:  "goodput: bound on the time to the first token",
		doc: "Bound on the time to first token, in milliseconds. Bounds add the goodput keys to the report: " +
			"requests that meet all of them.",
	},
	{
		Field: strictjson.Field{Name: "sla_tpot_ms", Type: strictjson.Number{}},
		group: runGroup,
		help:  "goodput: bound on the time per output token, the mean gap between a request's tokens",
		doc:   "Bound on the time per output token, the mean gap between a request's tokens, in milliseconds.",
	},
	{
		Field: strictjson.Field{Name: "sla_itl_ms", Type: strictjson.Number{}},
		group: runGroup,
		help:  "the other name of --sla-tpot-ms",
		doc:   "The other name of sla_tpot_ms.",
	},
	{
		Field: strictjson.Field{Name: "sla_e2e_ms", Type: strictjson.Number{}},
		group: runGroup,
		help:  "goodput: bound on the whole request",
		doc:   "Bound on the time from arrival to the last token, in milliseconds.",
	},
	{
		Field: strictjson.Field{Name: "aic_perf_config", Type: strictjson.Text{}},
		takes: takesAICConfig,
		doc: "The GPUs for which a router with ``router_prefill_load_model=\"aic\"`` predicts the duration of " +
			"prompts: an AicPerfConfig or a dict of its fields.",
	},
	{
		Field: strictjson.Field{Name: "from_report", Type: strictjson.Text{}}, shell: true, reads: true,
		group: runGroup,
		help:  "repeat the run that wrote this JSON report; only output options can be added",
	},
}, aicOptions(), []option{
	{
		Field: strictjson.Field{Name: "report_json", Type: strictjson.Text{}}, shell: true, group: outputGroup,
		metavar: "PATH",
		help:    "report file, or a folder for it (default: the current folder)",
	},
	{
		Field: strictjson.Field{Name: "rows", Type: strictjson.Bool{}}, // see keepsRows
		aside: true,
		doc: "With False, the run keeps no per-request columns: ``report.requests`` is empty, and a run of many " +
			"requests takes much less memory. True if not given.",
	},
	{
		Field: strictjson.Field{Name: "capture_per_request", Type: strictjson.Bool{}, Default: false},
		aside: true,
		doc: "With True, ``report.per_request`` is a list with a dict for each request, as files of " +
			"``report_jsonl_path`` have it. None if not given.",
	},
	{
		Field: strictjson.Field{Name: "attribution", Type: strictjson.Bool{}, Default: false},
		aside: true,
		flag:  "--explain", group: outputGroup,
		help: "print the parts of latencies, and add them to the report and its rows",
		doc: "Divide the time to first token and the latency of every request exactly into parts, such as " +
			"waiting for a worker, its own prompt, or others' prompts: ``report[\"attribution\"]``, and columns of " +
			"the rows. See docs/why.md. False if not given.",
	},
	{
		Field: strictjson.Field{Name: "report_jsonl_path", Type: strictjson.Text{NonEmpty: true}},
		aside: true, takes: takesPath, writes: true,
		flag: "--report-jsonl", metavar: "PATH", group: outputGroup,
		help: "also write one JSON object per request",
		doc:  "Also write one JSON object per request to this file.",
	},
	{
		Field: strictjson.Field{Name: "timeline", Type: strictjson.Text{NonEmpty: true}},
		aside: true, takes: takesPath, writes: true,
		metavar: "PATH", group: outputGroup,
		help: "also write a timeline of cluster, workers and requests for ui.perfetto.dev, FILE.pftrace",
		doc: "Also write a timeline to this file, which ui.perfetto.dev shows: passes and counters of each worker, " +
			"what each request waited for, and arrows from the router to its workers. See docs/timeline.md.",
	},
	{
		Field:   strictjson.Field{Name: "timeline_window", Type: strictjson.Text{NonEmpty: true}},
		aside:   true,
		metavar: "FROM:TO", group: outputGroup,
		help: "only this part of the timeline, such as 10s:40s",
		doc:  "Only this part of simulated time in the timeline, such as ``\"10s:40s\"``; either side may be missing.",
	},
	{
		Field: strictjson.Field{Name: "timeseries", Type: strictjson.Text{NonEmpty: true}},
		aside: true, takes: takesPath, writes: true,
		metavar: "PATH", group: outputGroup,
		help: "also write queues, KV use, hit rate, tokens/s and latencies over time: FILE.csv, .jsonl or .parquet",
		doc:  "Also write ``report.timeseries`` to this file, which ends with ``.csv``, ``.jsonl`` or ``.parquet``.",
	},
	{
		Field:   strictjson.Field{Name: "timeseries_step", Type: strictjson.Text{NonEmpty: true}},
		aside:   true,
		metavar: "TIME", group: outputGroup,
		help: "length of the windows of --timeseries, such as 500ms (default: 1s)",
		doc: "Keep ``report.timeseries``, with windows of this length, such as ``\"1s\"`` or ``\"500ms\"``. 1s if " +
			"only the file is given.",
	},
	{
		Field: strictjson.Field{Name: "telemetry_options", Type: strictjson.Number{Min: 1, Max: 1e15}},
		aside: true, takes: takesTelemetry,
		doc: "Takes samples of queues, KV use and traffic **during** the run: a " +
			"``TelemetryOptions(sample_interval_ms=1000.0, capture_in_memory=None, callback=None, " +
			"jsonl_path=None)``. A callback is called with each sample, in the calling thread, and an exception that " +
			"it raises ends the run. A file gets a line for each sample. ``report.telemetry.samples`` has all, " +
			"unless only a callback or a file is given.",
	},
	{
		Field: strictjson.Field{Name: "html", Type: strictjson.Text{NonEmpty: true}},
		aside: true, takes: takesPath, writes: true,
		metavar: "PATH", group: outputGroup,
		help: "also write a self-contained HTML page about the run",
		doc: "Also write a self-contained HTML page about the run to this file: summary, distributions, queues and " +
			"KV use over time, slowest requests. The report also gets the attribution of latencies.",
	},
	{
		Field: strictjson.Field{Name: "save_trace", Type: strictjson.Text{NonEmpty: true}},
		aside: true, takes: takesPath, writes: true,
		metavar: "PATH", group: outputGroup,
		help: "also write the workload as a Mooncake trace",
		doc: "Also write the workload to this file, as a Mooncake trace that replays to the same report. A warning " +
			"gives the ``trace_format`` and ``trace_block_size`` for it.",
	},
	{Field: strictjson.Field{Name: "expected_inputs", Type: strictjson.Any{}}, aside: true}, // see parseRepeats
})

// aicHelp describes the fields of aic_perf_config, which are options of their own on the command line.
var aicHelp = [][2]string{
	{"aic_backend", "engine whose prefill time is predicted: vllm, sglang, trtllm"},
	{"aic_system", "GPU system, such as h200_sxm"},
	{"aic_backend_version", "engine version"},
	{"aic_tp_size", "tensor parallelism (default: 1)"},
	{"aic_model_path", "model that the AIC SDK knows, or folder with its config.json"},
	{"aic_moe_tp_size", "tensor parallelism of experts"},
	{"aic_moe_ep_size", "expert parallelism"},
	{"aic_attention_dp_size", "data parallelism of attention (default: 1)"},
	{"aic_nextn", "draft tokens of speculative decoding"},
	{"aic_nextn_accept_rates", "their acceptance rates, separated by commas"},
	{"aic_gemm_dtype", "data type of matrix products"},
	{"aic_moe_dtype", "data type of experts"},
	{"aic_fmha_dtype", "data type of attention"},
	{"aic_kv_cache_dtype", "data type of the KV cache"},
	{"aic_comm_dtype", "data type of communication"},
}

// faultOption returns a row about what goes wrong, or what is done about it.
func faultOption(name string, t strictjson.Type, preset any, help, doc string, idle ...idleWhen) option {
	return option{Field: strictjson.Field{Name: name, Type: t, Default: preset}, group: faultGroup, help: help,
		doc: doc, idle: idle}
}

func aicOptions() []option {
	made := make([]option, len(aicHelp))
	for i, h := range aicHelp {
		at := slices.IndexFunc(aic.Fields, func(f strictjson.Field) bool { return f.Name == h[0] })
		made[i] = option{Field: aic.Fields[at], shell: true, group: loadModelGroup, help: h[1]}
	}
	return made
}

var arrivalProcesses = []string{"constant", "poisson", "gamma", "weibull"}
