package job

import (
	"fmt"
	"math/rand/v2"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/router"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/workload"
)

const (
	roundRobin = "round_robin"
	kvRouter   = "kv_router"
)

// Streams of random numbers drawn from the seed of a run, one for each consumer.
const routerStream = 1

// routing is how a run gives requests to workers.
type routing struct {
	options *router.Options // nil for round robin
}

// parseRouting reads what concerns the router. Pinned decisions need the workload: see pin.
func parseRouting(o *strictjson.Object, args engineargs.Args) (routing, []string, error) {
	text := "{}"
	if o.Given("router_config") {
		text = o.Text("router_config")
	}
	config, warnings, err := router.ParseConfig(text)
	if err != nil {
		return routing{}, nil, fmt.Errorf("router_config: %w", err)
	}
	if o.Text("router_mode") == roundRobin {
		return routing{}, nil, refuseWithoutRouter(o)
	}
	if workers := o.Int("num_workers"); workers < 2 {
		return routing{}, nil, &strictjson.FieldError{
			Field: "num_workers", Got: fmt.Sprint(workers), Want: "at least 2 with router_mode kv_router",
		}
	}
	if policy, ok := router.ParseQueuePolicy(args.RouterQueuePolicy); ok {
		config.QueuePolicy = policy
	}
	seed := o.Uint("seed")
	if config.Seeded {
		seed = config.Seed
	}
	options := &router.Options{
		Config:              config,
		Workers:             o.Int("num_workers"),
		BlockSize:           args.BlockSize,
		MaxNumBatchedTokens: args.MaxNumBatchedTokens,
		Rand:                rand.New(rand.NewPCG(seed, routerStream)),
	}
	return routing{options: options}, warnings, nil
}

// refuseWithoutRouter refuses what only a KV-aware router could do and nobody would want to go missing.
func refuseWithoutRouter(o *strictjson.Object) error {
	for _, name := range []string{"router_log", "router_decisions", "router_decisions_mode"} {
		if o.Given(name) {
			return &strictjson.FieldError{Field: name, Got: o.Shown(name), Want: "router_mode kv_router with it"}
		}
	}
	return nil
}

// pin takes over the decisions that the run must repeat.
func (r routing) pin(o *strictjson.Object, w *workload.Workload) error {
	if !o.Given("router_decisions") {
		if o.Given("router_decisions_mode") {
			return &strictjson.FieldError{Field: "router_decisions_mode", Got: o.Shown("router_decisions_mode"), Want: "router_decisions with it"}
		}
		return nil
	}
	pins, err := loadDecisions(o.Text("router_decisions"), w, r.options.Workers)
	if err != nil {
		return fmt.Errorf("router_decisions: %w", err)
	}
	r.options.Pin = func(turn int32) (int, bool) {
		worker, pinned := pins[turn]
		return worker, pinned
	}
	if o.Text("router_decisions_mode") == "force" {
		r.options.PinMode = router.Forced
	}
	return nil
}
