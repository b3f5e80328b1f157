package deploy

import (
	"fmt"
	"math/rand/v2"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/router"
	"dynosim/gocore/strictjson"
)

// Routing describes how requests are given to workers.
type Routing struct {
	Mode     router.Mode
	Config   router.Config      // the default one for a mode that does not look at it
	Settings *strictjson.Object // of a mode that has settings of its own, nil for others
	// Given is the configuration as it was read, also where the mode does not look at it.
	Given router.Config
}

// ParseRouting reads text, the router_config for a mode. Routers draw with seed if that has none.
func ParseRouting(mode router.Mode, text string, seed uint64) (r Routing, warnings []string, err error) {
	r = Routing{Mode: mode, Config: router.DefaultConfig(), Given: router.DefaultConfig()}
	r.Config.Seed = seed
	if mode.Settings != nil {
		if r.Settings, err = mode.ParseSettings(text); err == nil && r.Settings.Given("router_seed") {
			r.Config.Seed = r.Settings.Uint("router_seed")
		}
	} else {
		r.Given, warnings, err = router.ParseConfig(text)
		if mode.Configured {
			r.Config = r.Given
		}
		if !r.Config.Seeded {
			r.Config.Seed = seed
		}
	}
	if err != nil {
		return Routing{}, nil, fmt.Errorf("router_config: %w", err)
	}
	return r, warnings, nil
}

// Pool is workers that are alike.
type Pool struct {
	Args    engineargs.Args
	Workers int
}

// routerStream is the stream of random numbers of the router of a single pool; below are those of the workload.
const routerStream = 100

// Stream returns the first stream of random numbers of the routers of one or two pools. A replay and a server that draw
// from the same ones send equal requests to equal workers.
func Stream(pools int) uint64 { return routerStream + uint64(pools-1) }

// Stages describes the routers of a pool, or of prefill and decode workers. A queue policy among engine arguments
// replaces that of the router. The router of a pool draws from the stream first, that of the second one from the next.
func (r Routing) Stages(pools []Pool, first uint64) []*router.Options {
	stages := make([]*router.Options, len(pools))
	for i, p := range pools {
		config, stage, groups := r.Config, "", p.Args.LayerGroups()
		switch {
		case len(pools) == 2 && i == 0:
			config, stage = config.PrefillStage(), engine.Prefill.String()
		case len(pools) == 2:
			config, stage = config.DecodeStage(), engine.Decode.String()
		}
		stages[i] = &router.Options{
			Config:  config.WithQueuePolicy(p.Args.RouterQueuePolicy),
			Workers: p.Workers * p.Args.Targets(), Ranks: p.Args.Targets(),
			BlockSize: p.Args.BlockSize, MaxNumBatchedTokens: p.Args.MaxNumBatchedTokens,
			Groups: router.Groups{Beside: groups.Beside, Run: groups.Run},
			Rand:   rand.New(rand.NewPCG(config.Seed, first+uint64(i))), Stage: stage, Settings: r.Settings,
			LowerTiers: p.Args.HostCache.Asked(), NodeWorkers: p.Args.HostCache.SharedWorkers,
		}
	}
	return stages
}
