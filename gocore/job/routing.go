package job

import (
	"cmp"
	"fmt"

	"dynosim/gocore/aic"
	"dynosim/gocore/deploy"
	"dynosim/gocore/replay"
	"dynosim/gocore/router"
	"dynosim/gocore/spelling"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/workload"
)

// routing describes how requests are given to workers.
type routing struct {
	deploy.Routing
	session   aic.Config // predicts how long prompts take; without a Backend nothing is predicted
	decisions string     // path of a file with decisions to repeat, "" for none
	asked     string     // the router in Python, "" for none
	force     bool       // repeat them even where another worker is cheaper
}

// parseRouting reads the options of the router. Decisions to repeat need the workload: see pin.
func parseRouting(o *strictjson.Object, d deployment) (routing, []string, error) {
	text := "{}"
	if o.Given("router_config") {
		text = o.Text("router_config")
	}
	if err := checkAsked(o); err != nil {
		return routing{}, nil, err
	}
	mode := routerMode(o)
	if !mode.Configured && !mode.Asks && !mode.UsesEvents && o.Float("kv_event_lag_ms") > 0 {
		return routing{}, nil, &strictjson.FieldError{
			Field: "kv_event_lag_ms", Got: o.Shown("kv_event_lag_ms"),
			Want: "router_mode " + router.KVMode + " with it: a router of mode " + mode.Name +
				" gets no cache events",
		}
	}
	if mode.Asks {
		r := routing{Routing: deploy.Routing{Mode: mode, Config: router.DefaultConfig()}, asked: o.Text("router")}
		return r, nil, cmp.Or(d.checkChoice(o, "router "+r.asked), refuseWithoutRouter(o))
	}
	read, warnings, err := deploy.ParseRouting(mode, text, o.Uint("seed"))
	if err != nil {
		return routing{}, nil, err
	}
	r := routing{Routing: read, decisions: o.Text("router_decisions"),
		force: o.Text("router_decisions_mode") == "force"}
	if !mode.Configured {
		return r, nil, refuseWithoutRouter(o)
	}
	var more []string
	if r.session, more, err = parseEstimator(o, r.Config); err != nil {
		return routing{}, nil, err
	}
	if o.Text("replay_mode") == offlineMode {
		if err := d.checkChoice(o, "router_mode "+mode.Name); err != nil {
			return routing{}, nil, err
		}
	}
	if r.decisions == "" && o.Given("router_decisions_mode") {
		return routing{}, nil, &strictjson.FieldError{Field: "router_decisions_mode",
			Got: o.Shown("router_decisions_mode"), Want: "router_decisions with it"}
	}
	return r, append(warnings, more...), nil
}

// checkChoice refuses a router that has nothing to choose: one worker, and no other to come.
func (d deployment) checkChoice(o *strictjson.Object, router string) error {
	if d.disaggregated || d.targets() >= 2 || isPlanned(o) {
		return nil
	}
	return &strictjson.FieldError{Field: "num_workers", Got: fmt.Sprint(d.workers), Want: "at least 2 with " + router}
}

// routerMode returns the mode that a checked description asks for.
func routerMode(o *strictjson.Object) router.Mode {
	if o.Given("router") {
		if mode, builtIn := router.FindMode(o.Text("router")); builtIn {
			return mode
		}
		return router.AskedMode
	}
	mode, _ := router.FindMode(o.Text("router_mode"))
	return mode
}

// parseEstimator reads which session tells the router how long prompts take. router_prefill_load_model and
// aic_perf_config are given together or not at all.
func parseEstimator(o *strictjson.Object, config router.Config) (aic.Config, []string, error) {
	const name = "aic_perf_config"
	switch given := o.Given(name); {
	case given && !config.EstimatePrefill:
		return aic.Config{}, nil, &strictjson.FieldError{Field: name, Got: o.Shown(name),
			Want: `router_prefill_load_model "aic" in router_config with it`}
	case !given && config.EstimatePrefill:
		return aic.Config{}, nil, &strictjson.FieldError{
			Field: "router_config: router_prefill_load_model", Got: `"aic"`,
			Want: name + " (aic_backend, aic_system, aic_model_path) with it",
		}
	case !given:
		return aic.Config{}, nil, nil
	}
	session, warnings, err := aic.Parse(o.Text(name))
	if err != nil {
		return aic.Config{}, nil, fmt.Errorf("%s: %w", name, err)
	}
	for i, text := range warnings {
		warnings[i] = name + ": " + text
	}
	return session, warnings, nil
}

// open describes the routers of all stages: of one pool, or of prefill and decode workers. The first
// router learns from the AIC SDK how long prompts take, if that is asked for.
func (r routing) open(d deployment, s *sdk) ([]*router.Options, error) {
	pools := d.inOrder()
	stages := r.Stages(pools, deploy.Stream(len(pools)))
	if r.session.Backend == "" {
		return stages, nil
	}
	e, err := s.routerEstimator("aic_perf_config", r.session)
	if err == nil {
		stages[0].Estimate = e.estimate
	}
	return stages, err
}

// refuseWithoutRouter refuses options that the routers of this mode would ignore although results depend on them.
func refuseWithoutRouter(o *strictjson.Object) error {
	for _, name := range []string{"router_log", "router_decisions", "router_decisions_mode", "aic_perf_config"} {
		if o.Given(name) {
			return &strictjson.FieldError{Field: name, Got: o.Shown(name),
				Want: "router_mode " + router.KVMode + " with it"}
		}
	}
	return nil
}

// pin makes the routers repeat the decisions of a file, and warns if the file lacks some. Workers may come and go in a
// run with faults.
func (r routing) pin(stages []*router.Options, w *workload.Workload, comeAndGo bool) ([]string, error) {
	if r.decisions == "" {
		return nil, nil
	}
	pins, free, err := loadDecisions(r.decisions, w, stages, comeAndGo)
	if err != nil {
		return nil, fmt.Errorf("router_decisions: %w", err)
	}
	for i, stage := range stages {
		stage.Pin = func(turn int32) (int, bool) {
			worker, pinned := pins[i].of[turn]
			return worker, pinned
		}
		if r.force {
			stage.PinMode = router.Forced
		}
	}
	if free > 0 {
		return []string{fmt.Sprintf("router_decisions: %s: rows that name no worker: %d; the router decides for "+
			"these requests", spelling.Path(r.decisions), free)}, nil
	}
	return nil, nil
}

// withWorkers adds the workers of a run and their routers to its configuration.
func withWorkers(cfg replay.Config, d deployment, mode router.Mode, stages []*router.Options) replay.Config {
	if !d.disaggregated {
		cfg.Args, cfg.Workers = d.args, d.workers
		cfg.Router = mode.Factory(stages[0])
		return cfg
	}
	cfg.Disagg = &replay.DisaggConfig{
		Prefill: d.prefill, Decode: d.args,
		PrefillWorkers: d.prefillWorkers, DecodeWorkers: d.workers,
		Transfer:      d.prefill.Transfer.Handoff(),
		PrefillRouter: mode.Factory(stages[0]),
		DecodeRouter:  mode.Factory(stages[1]),
	}
	return cfg
}
