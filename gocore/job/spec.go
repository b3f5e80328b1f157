package job

import (
	"math"

	"dynosim/gocore/replay"
	"dynosim/gocore/report"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/workload"
)

// Spec describes one run: every option with its type and its default. [Parse] has checked it as far as that is possible
// without opening a file or asking the AIC SDK. No later stage of a run looks at the JSON text again.
type Spec struct {
	synthetic bool // the workload is generated, not read
	online    bool // on the clock, not in virtual time

	deployment deployment
	routing    routing
	policy     string // the scheduler policy in Python, "" for none

	seed        uint64                 // of what a trace leaves to chance
	trace       traceSpec              // what to read, if the workload is not synthetic
	generated   workload.SyntheticSpec // what to generate, if it is
	lanes       int                    // graphs of requests in flight at the same time; 0 follows the arrival times
	concurrency int                    // requests in flight at the same time; 0 follows the arrival times
	speedup     float64                // divides the gaps between arrivals

	maxSimTimeMs float64 // +Inf for no limit
	late         []report.LateLimit
	rows         bool    // whether it keeps one row per request
	attribution  bool    // whether it divides latencies among their parts
	kvEventLagMs float64 // how late the router learns of caches
	sla          report.SLA
	scaling      scaling // what decides how many workers there are
	gpuHourPrice float64 // 0 for none
	outputs      outputs
	faults       *replay.FaultConfig // what goes wrong; nil for nothing
	journal      journalSpec

	// origin is the part of the provenance that does not depend on input files.
	origin provenance
	// repeats are the input files of the report that this run repeats, nil if it repeats none.
	repeats []inputFile
	// warnings are those of the engine arguments and of the router's configuration.
	warnings []string
	// unused are warnings of options that have no effect in this run whatever its workload is.
	unused []string
	// unusedSeed is the warning that nothing is drawn from the seed, "" if something is or no seed was given.
	unusedSeed string
}

// traceSpec says which files hold a trace, and how to read them.
type traceSpec struct {
	files             []string
	format            workload.Format
	blockSize         int // 0 if it was not given: some traces have it themselves
	sharedPrefixRatio float64
	numPrefixGroups   int
}

// outputs are the files that a run writes besides its report, each "" if it is not wanted.
type outputs struct{ trace, rows, routerLog string }

// Parse reads the description of a run: a JSON object with the key "kind" ("trace" or "synthetic") and the parameters
// of the Python function of that kind.
func Parse(config string) (*Spec, error) {
	o, lengths, err := decode(config)
	if err != nil {
		return nil, err
	}
	if o.Given("sla_tpot_ms") && o.Given("sla_itl_ms") {
		return nil, &strictjson.FieldError{
			Field: "sla_itl_ms", Got: o.Shown("sla_itl_ms"),
			Want: "it left out: it is the other name of sla_tpot_ms, which is given",
		}
	}
	s := specOf(o)
	var more []string
	if s.deployment, s.warnings, err = parseDeployment(o); err != nil {
		return nil, err
	}
	if err := checkPolicy(o, s.deployment); err != nil {
		return nil, err
	}
	s.policy = o.Text("scheduler_policy")
	if err := checkLanes(o); err != nil {
		return nil, err
	}
	if err := checkRows(o); err != nil {
		return nil, err
	}
	if s.scaling, err = parseScaling(o, s.deployment); err != nil {
		return nil, err
	}
	if s.routing, more, err = parseRouting(o, s.deployment); err != nil {
		return nil, err
	}
	if s.faults, err = parseFaults(o, s.deployment); err != nil {
		return nil, err
	}
	if s.late, err = parseLate(o); err != nil {
		return nil, err
	}
	if s.journal, err = parseJournal(o); err != nil {
		return nil, err
	}
	if s.generated, err = parseWorkload(o, lengths); err != nil {
		return nil, err
	}
	s.generated.Passing = s.passes()
	if s.origin, err = parseOrigin(config, o, s.deployment); err != nil {
		return nil, err
	}
	if s.repeats, err = parseRepeats(config); err != nil {
		return nil, err
	}
	s.warnings = append(s.warnings, more...)
	s.unused, s.unusedSeed = unusedOptions(o, s), unusedSeed(o, s)
	return s, nil
}

// checkLanes refuses two bounds on what is in flight.
func checkLanes(o *strictjson.Object) error {
	if o.Given("agentic_lanes") && o.Given("replay_concurrency") {
		return &strictjson.FieldError{Field: "agentic_lanes", Got: o.Shown("agentic_lanes"),
			Want: "it left out beside replay_concurrency: one of them bounds what is in flight"}
	}
	return nil
}

// specOf copies the options that need no further parsing.
func specOf(o *strictjson.Object) *Spec {
	s := &Spec{
		synthetic:    o.Text("kind") == kindSynthetic,
		online:       o.Text("replay_mode") == onlineMode,
		concurrency:  o.Int("replay_concurrency"),
		lanes:        o.Int("agentic_lanes"),
		speedup:      o.Float("arrival_speedup_ratio"),
		maxSimTimeMs: maxSimTimeMs(o),
		rows:         keepsRows(o),
		kvEventLagMs: o.Float("kv_event_lag_ms"),
		attribution:  o.Bool("attribution") || o.Given("html"),
		sla:          sla(o),
		gpuHourPrice: o.Float("gpu_hour_price"),
		outputs: outputs{trace: o.Text("save_trace"), rows: o.Text("report_jsonl_path"),
			routerLog: o.Text("router_log")},
	}
	if !s.synthetic {
		s.seed = o.Uint("seed")
		s.trace = parseTrace(o)
		s.trace.sharedPrefixRatio = o.Float("trace_shared_prefix_ratio")
		s.trace.numPrefixGroups = o.Int("trace_num_prefix_groups")
	}
	return s
}

// parseTrace reads which files hold a trace, in which format.
func parseTrace(o *strictjson.Object) traceSpec {
	t := traceSpec{files: o.List("trace_files"), format: traceFormat(o)}
	if o.Given("trace_block_size") {
		t.blockSize = o.Int("trace_block_size")
	}
	return t
}

// traceFormat returns the format that was asked for. It is one of those known.
func traceFormat(o *strictjson.Object) workload.Format {
	format, _ := workload.ParseFormat(o.Text("trace_format"))
	return format
}

// sla returns the service level that requests are measured against.
func sla(o *strictjson.Object) report.SLA {
	bound := func(name string) float64 {
		if !o.Given(name) {
			return math.NaN()
		}
		return o.Float(name)
	}
	perToken := bound("sla_tpot_ms")
	if math.IsNaN(perToken) {
		perToken = bound("sla_itl_ms")
	}
	return report.SLA{TTFTMs: bound("sla_ttft_ms"), ITLMs: perToken, E2EMs: bound("sla_e2e_ms")}
}

// maxSimTimeMs returns when a run stops. The command line gives it in seconds.
func maxSimTimeMs(o *strictjson.Object) float64 {
	switch {
	case o.Given("max_sim_time_seconds"):
		return o.Float("max_sim_time_seconds") * 1000
	case o.Given("max_sim_time_ms"):
		return o.Float("max_sim_time_ms")
	}
	return math.Inf(1)
}
