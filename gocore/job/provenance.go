package job

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"dynosim/gocore/aic"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/router"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/workload"
)

// provenance says in the report what was run, so that the run can be repeated. Nothing in it depends on the clock or on
// the machine.
type provenance struct {
	Function string `json:"function"` // of the Python package
	// Arguments are those of the function, after defaults. Outputs are not among them.
	Arguments map[string]any `json:"arguments"`
	// Estimated is the sizes of KV pools that were estimated, by argument.
	Estimated map[string]int `json:"estimated_gpu_blocks,omitempty"`
	// PoolMemory is how the memory of a GPU was divided for those that were estimated as the engine does.
	PoolMemory map[string]engineargs.PoolMemory `json:"kv_pool_memory,omitempty"`
	Inputs     []inputFile                      `json:"inputs"`
	// Durations is what the durations of each pool are of.
	Durations []durations `json:"durations"`
	// KVCaches is what vLLM would log of the KV caches of engines that serve a named model.
	KVCaches []kvCache `json:"kv_caches,omitempty"`
}

// kvCache is what vLLM logs of the KV cache of one engine when it starts, and what that follows from.
type kvCache struct {
	Argument    string  `json:"argument"` // that holds the engine arguments
	Model       string  `json:"model"`
	Groups      int     `json:"groups"`
	BlockSize   int     `json:"block_size"`
	Blocks      int     `json:"blocks"`
	Windows     int     `json:"window_blocks,omitempty"` // of a pool of their own
	GPUs        int     `json:"gpus"`                    // of one worker
	Tokens      int     `json:"tokens"`
	MaxModelLen int     `json:"max_model_len"`
	Concurrency float64 `json:"concurrency"`
}

// kvCachesOf lists the caches of a deployment, in the order of the names of their arguments.
func kvCachesOf(d deployment) []kvCache {
	var list []kvCache
	pools := d.pools()
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		args := pools[name]
		if log, ok := args.CacheLog(); ok {
			if args.ModelConfig != "" { // without its folders, which differ between the nodes of a sweep
				log.Model = filepath.Base(strings.TrimSuffix(log.Model, "/config.json"))
			}
			list = append(list, kvCache{
				Argument: name, Model: log.Model, Groups: args.LayerGroups().Beside + 1, BlockSize: args.BlockSize,
				Blocks:  args.NumGPUBlocks,
				Windows: args.SGLang.Window.Blocks, GPUs: args.GPUsPerWorker, Tokens: log.Tokens,
				MaxModelLen: log.Length, Concurrency: log.Concurrency,
			})
		}
	}
	return list
}

// functions are the Python functions that carry out each kind of run.
var functions = map[string]string{kindTrace: "run_trace_replay", kindSynthetic: "run_synthetic_trace_replay"}

// describe adds the input files, and what durations are of, to the provenance that follows from the description. It
// fails if they differ from those of the run that is to be repeated.
func describe(s *Spec, sized deployment, sdk *sdk, m *Monitor) (provenance, error) {
	p := s.origin
	p.Estimated, p.PoolMemory = map[string]int{}, map[string]engineargs.PoolMemory{}
	for name, args := range sized.pools() {
		if s.deployment.pools()[name].Capacity != (aic.Capacity{}) {
			p.Estimated[name] = args.NumGPUBlocks
		}
		if args.PoolMemory != (engineargs.PoolMemory{}) {
			p.PoolMemory[name] = args.PoolMemory
		}
	}
	p.KVCaches = kvCachesOf(sized)
	var err error
	if p.Durations, err = durationsOf(s.deployment, sized, sdk); err != nil {
		return p, err
	}
	if p.Inputs, err = inputFiles(s, m); err != nil || s.repeats == nil {
		return p, err
	}
	return p, checkInputs(s.repeats, p.Inputs)
}

// parseOrigin returns the part of the provenance that follows from config.
func parseOrigin(config string, o *strictjson.Object, d deployment) (provenance, error) {
	p := provenance{Function: functions[o.Text("kind")], Arguments: map[string]any{}}
	var given map[string]json.RawMessage
	if err := json.Unmarshal([]byte(config), &given); err != nil {
		return p, err
	}
	for _, known := range options {
		if !known.aside && !known.shell && known.feature == "" && (known.kind == "" || known.kind == o.Text("kind")) &&
			(o.Given(known.Name) || defaultApplies(o, d, known)) {
			p.Arguments[known.Name] = o.Value(known.Name)
		}
	}
	for _, name := range []string{"input_tokens", "output_tokens", "aic_perf_config", "planner_config"} {
		if o.Given(name) {
			p.Arguments[name] = plain(given[name])
		}
	}
	if o.Given("max_sim_time_seconds") { // an option of the command line only
		delete(p.Arguments, "max_sim_time_seconds")
		p.Arguments["max_sim_time_ms"] = maxSimTimeMs(o)
	}
	return p, p.describeDeployment(o, d)
}

// plain returns a JSON value, or the value inside a JSON text that a string holds.
func plain(raw json.RawMessage) any {
	var text string
	if json.Unmarshal(raw, &text) == nil && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return raw
}

// defaultApplies reports whether a run without the option uses its default. It does not where another option or the
// trace gives the value.
func defaultApplies(o *strictjson.Object, d deployment, known option) bool {
	if known.group == faultGroup && known.Default != nil {
		return slices.ContainsFunc(faultOptions, o.Given)
	}
	switch known.Name {
	case "kv_event_lag_ms": // reports are as they were before there was such a thing
		return false
	case "num_workers":
		return !d.disaggregated
	case "num_prefill_workers", "num_decode_workers":
		return d.disaggregated
	case "arrival_interval_ms":
		return !o.Given("request_rate") && !o.Given("request_rate_curve")
	case "trace_block_size":
		return traceFormat(o) != workload.Dynamo
	case "benchmark_granularity":
		return o.Given("planner_config")
	case "router_decisions_mode":
		return o.Given("router_decisions")
	}
	return known.Default != nil
}

// describeDeployment adds the engine arguments of each pool and the configuration of the router, with their defaults.
func (p *provenance) describeDeployment(o *strictjson.Object, d deployment) error {
	for name := range d.pools() {
		filled, err := engineargs.Filled(textOr(o, name, "{}"))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		p.Arguments[name] = filled
	}
	delete(p.Arguments, "router_config")
	mode := routerMode(o)
	if o.Given("router") {
		delete(p.Arguments, "router_mode")
	}
	if mode.Asks {
		if o.Given("router_config") {
			p.Arguments["router_config"] = json.RawMessage(o.Text("router_config"))
		}
		return nil
	}
	if mode.Settings != nil {
		settings, err := mode.ParseSettings(textOr(o, "router_config", "{}"))
		if err != nil {
			return fmt.Errorf("router_config: %w", err)
		}
		p.Arguments["router_config"] = router.FilledSettings(settings)
		return nil
	}
	if !mode.Configured {
		return nil
	}
	filled, err := router.Filled(textOr(o, "router_config", "{}"))
	if err != nil {
		return fmt.Errorf("router_config: %w", err)
	}
	p.Arguments["router_config"] = filled
	return nil
}

// pools returns the engine arguments of a run, by the name of the argument that holds them.
func (d deployment) pools() map[string]engineargs.Args {
	if d.disaggregated {
		return map[string]engineargs.Args{"prefill_engine_args": d.prefill, "decode_engine_args": d.args}
	}
	return map[string]engineargs.Args{"extra_engine_args": d.args}
}

func textOr(o *strictjson.Object, name, byDefault string) string {
	if o.Given(name) {
		return o.Text(name)
	}
	return byDefault
}
