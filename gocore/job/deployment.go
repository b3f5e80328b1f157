package job

import (
	"fmt"

	"dynosim/gocore/deploy"
	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/worker"
)

// deployment describes the workers of a run: one pool, or one pool for prompts and one for outputs.
type deployment struct {
	disaggregated           bool
	args                    engineargs.Args // of the one pool, or of decode workers
	prefill                 engineargs.Args
	workers, prefillWorkers int    // in the pool that emits tokens, in the other
	timing                  string // the timing model in Python, "" for none
}

// inOrder lists the pools in the order in which a request meets them.
func (d deployment) inOrder() []deploy.Pool {
	last := deploy.Pool{Args: d.args, Workers: d.workers}
	if !d.disaggregated {
		return []deploy.Pool{last}
	}
	return []deploy.Pool{{Args: d.prefill, Workers: d.prefillWorkers}, last}
}

// anyPool reports whether the engine arguments of a pool have a property.
func (d deployment) anyPool(has func(engineargs.Args) bool) bool {
	return has(d.args) || has(d.prefill)
}

// ranked reports whether workers of a pool have several data-parallel ranks that run their passes together.
func (d deployment) ranked() bool {
	return d.anyPool(func(args engineargs.Args) bool { return args.Ranks > 1 })
}

// targets returns how many workers, or ranks of workers, the router of the pool chooses from that emits tokens.
func (d deployment) targets() int { return d.workers * d.args.Targets() }

// ownScheduler returns the scheduler with its release, if it is not that of Dynamo's mocker; else "".
func (d deployment) ownScheduler() string {
	if d.args.Scheduler == engineargs.Dynamo {
		return ""
	}
	return d.args.SchedulerName()
}

// parseDeployment reads the engine arguments, how many workers they are for, and the timing model in Python.
func parseDeployment(o *strictjson.Object) (deployment, []string, error) {
	d, warnings, err := parseAllPools(o)
	if err != nil || !o.Given("timing_model") {
		return d, warnings, err
	}
	d.timing = o.Text("timing_model")
	for _, name := range []string{"extra_engine_args", "prefill_engine_args", "decode_engine_args"} {
		args, used := d.pools()[name]
		if used && args.TimingModel != engineargs.Default().TimingModel {
			return d, nil, &strictjson.FieldError{
				Field: "timing_model", Got: o.Shown("timing_model"),
				Want: "it left out, as " + name + " choose the timing model " + args.TimingModel,
			}
		}
	}
	d.args.TimingModel, d.prefill.TimingModel = d.timing, d.timing
	return d, warnings, nil
}

func parseAllPools(o *strictjson.Object) (deployment, []string, error) {
	if !o.Given("decode_engine_args") { // see withPools
		return parseAggregated(o)
	}
	if err := checkPools(o); err != nil {
		return deployment{}, nil, err
	}
	prefill, warnings, err := parseEngineArgs(o, "prefill_engine_args")
	if err != nil {
		return deployment{}, nil, err
	}
	decode, more, err := parseEngineArgs(o, "decode_engine_args")
	if err != nil {
		return deployment{}, nil, err
	}
	d := deployment{
		disaggregated: true, args: decode, prefill: prefill,
		workers: o.Int("num_decode_workers"), prefillWorkers: o.Int("num_prefill_workers"),
	}
	for i, text := range warnings {
		warnings[i] = "prefill_engine_args: " + text
	}
	for _, text := range more {
		warnings = append(warnings, "decode_engine_args: "+text)
	}
	return d, warnings, checkPair(prefill, decode)
}

func parseAggregated(o *strictjson.Object) (deployment, []string, error) {
	args, warnings, err := parseEngineArgs(o, "extra_engine_args")
	if err == nil && args.Role != engine.Aggregated {
		err = &strictjson.FieldError{
			Field: "extra_engine_args: worker_type", Got: args.Role.String(),
			Want: "aggregated; prefill and decode workers have prefill_engine_args and decode_engine_args",
		}
	}
	return deployment{args: args, workers: o.Int("num_workers")}, warnings, err
}

// parseEngineArgs reads the engine arguments of one pool; without any, an engine has its defaults.
func parseEngineArgs(o *strictjson.Object, name string) (engineargs.Args, []string, error) {
	text := "{}"
	if o.Given(name) {
		text = o.Text(name)
	}
	parse := engineargs.Parse
	if isPlanned(o) || o.Given("faults") {
		parse = engineargs.ParsePlanned
	}
	args, warnings, err := parse(text)
	if err != nil {
		return args, warnings, fmt.Errorf("%s: %w", name, err)
	}
	if err := worker.Check(args); err != nil {
		return args, warnings, fmt.Errorf("%s: %w", name, err)
	}
	return args, warnings, nil
}

// checkPools refuses a description that mixes options of one pool with options of two.
func checkPools(o *strictjson.Object) error {
	if !o.AtDefault("num_workers") {
		return &strictjson.FieldError{
			Field: "num_workers", Got: o.Shown("num_workers"),
			Want: "num_prefill_workers and num_decode_workers instead, with prefill_engine_args and decode_engine_args",
		}
	}
	return nil
}

// checkPair makes sure that decode workers can continue the requests that prefill workers have begun.
func checkPair(prefill, decode engineargs.Args) error {
	wrong := func(field string, got any, want string) error {
		return &strictjson.FieldError{Field: field, Got: fmt.Sprint(got), Want: want}
	}
	switch {
	case prefill.Role != engine.Prefill:
		return wrong("prefill_engine_args: worker_type", prefill.Role, "prefill")
	case decode.Role != engine.Decode:
		return wrong("decode_engine_args: worker_type", decode.Role, "decode")
	}
	if differ := deploy.Mismatch(prefill, decode); differ != nil {
		return wrong("decode_engine_args: "+differ.Argument, differ.Decode,
			"the same as in prefill_engine_args, "+differ.Prefill)
	}
	return nil
}

// drawsStartUps reports whether start-up times of some pool are drawn.
func (d deployment) drawsStartUps() bool {
	return d.anyPool(func(a engineargs.Args) bool { return a.StartupSeconds > 0 && a.StartupCV > 0 })
}
