package router

import (
	"math"

	"dynosim/gocore/strictjson"
)

// use is what this build does with a field; see doc.go.
type use uint8

const (
	applied use = iota
	inert
	notBuilt
	retired
)

// field is one row of the table.
type field struct {
	strictjson.Field
	use     use
	feature string // of a notBuilt field, in words
	// The Python class takes a keywordOnly field by name only, and a mutable one can be set in an existing object.
	keywordOnly, mutable bool
}

// table holds every accepted key, in the order of the Python constructor. Null is allowed where it is the default. The
// types and the docstring of the Python class and docs/reference/router.md are generated from it: go generate
// ./gocore/router.
var table = []field{
	row("overlap_score_weight", strictjson.Number{}, nil,
		"Deprecated name of prefill_load_scale; 0 also sets overlap_score_credit to 0.").settable(),
	row("host_cache_hit_weight", fraction, 0.75,
		"Credit of blocks that a worker has in host memory only, 0 to 1, as far as its engine tells of them "+
			"(host_cache)."),
	row("disk_cache_hit_weight", fraction, 0.25,
		"Credit of blocks on disk, 0 to 1.").as(inert),
	row("router_temperature", strictjson.Number{}, 0.0,
		"0 takes the cheapest worker. Above 0 the worker is drawn, and a cheaper one is more probable."),
	row("use_kv_events", strictjson.Bool{}, true,
		"Whether the router knows caches from the KV events of workers.").as(inert),
	row("durable_kv_events", strictjson.Bool{}, false,
		"Whether KV events are kept by NATS JetStream; deprecated.").as(inert),
	row("router_replica_sync", strictjson.Bool{}, false,
		"Whether routers tell each other of their decisions.").as(inert),
	row("router_track_active_blocks", strictjson.Bool{}, true,
		"Whether the cost of a worker counts the blocks that its requests use."),
	row("router_track_output_blocks", strictjson.Bool{}, false,
		"Whether that cost counts blocks of outputs, too.").as(inert),
	row("router_assume_kv_reuse", strictjson.Bool{}, true,
		"Whether a block that several requests of a worker share counts once."),
	row("router_track_prefill_tokens", strictjson.Bool{}, true,
		"Whether the cost of a worker counts the prompt tokens that it has yet to compute."),
	row("router_prefill_load_model", strictjson.Enum{Choices: []string{"none", "aic", "ais"}}, "none",
		"``\"aic\"`` lets the prompt tokens that a worker computes shrink while it computes them, see AicPerfConfig; "+
			"``\"none\"`` takes them away at the first token."),
	row("router_snapshot_threshold", atLeastOne, 1_000_000,
		"Events after which the state of the router is saved.").orNull().as(inert),
	row("router_reset_states", strictjson.Bool{}, false,
		"Whether a router starts without its saved state.").as(inert),
	row("router_ttl_secs", strictjson.Number{}, 120.0,
		"Seconds for which blocks count as cached without events.").as(inert),
	row("router_queue_threshold", strictjson.Number{}, 16.0,
		"Requests wait while every worker has more prompt tokens than this times its max_num_batched_tokens; None "+
			"never waits.").orNull(),
	row("router_event_threads", atLeastOne, 4,
		"Threads that read KV events.").as(inert),
	row("router_queue_policy", strictjson.Enum{Choices: queuePolicyNames}, "fcfs",
		"Order of the requests that wait in the router: ``\"fcfs\"``, ``\"lcfs\"`` or ``\"wspt\"``, short prompts "+
			"first; not in Dynamo: ``\"priority\"``, ``\"edf\"``, earliest deadline first, or ``\"wfq\"``, tenants "+
			"in turn by their weights."),
	row("use_remote_indexer", strictjson.Bool{}, false,
		"Whether another process keeps the index of caches.").as(inert),
	row("serve_indexer", strictjson.Bool{}, false,
		"Whether this process keeps the index of caches for other routers.").as(inert),
	row("shared_cache_multiplier", fraction, 0.0,
		"Credit of blocks that only a store has which workers share (host_cache with shared), 0 to 1."),
	row("shared_cache_type", strictjson.Enum{Choices: []string{"none", "hicache"}}, "none",
		"Kind of a cache that workers share: ``\"none\"`` or ``\"hicache\"``.").as(inert),
	row("router_predicted_ttl_secs", strictjson.Number{}, nil,
		"Seconds for which blocks that a decision makes likely count as cached, beside events.").as(inert),

	row("overlap_score_credit", fraction, 1.0,
		"How much of a cached block is taken off the cost of a prompt, 0 to 1.").byKeyword().settable(),
	row("overlap_score_credit_decay", strictjson.Number{}, 0.0,
		"Above 0, workers with more prompt tokens to compute get less credit; 0 gives all the same.").byKeyword().
		settable(),
	row("prefill_load_scale", strictjson.Number{}, 1.0,
		"Weight of prompt tokens to compute, against the blocks in use.").byKeyword().settable(),
	row("router_policy_config", strictjson.Text{Path: true}, nil,
		"A router policy file. Not built yet: refused.").later("router policy files").byKeyword(),
	row("skip_initial_worker_wait", strictjson.Bool{}, false,
		"Whether a router starts before there are workers.").as(inert).byKeyword(),

	row("router_seed", strictjson.Integer{Max: math.MaxUint64}, nil,
		"Decides ties between workers; the seed of the run if None.").byKeyword(),
	row("router_tenant_weights", strictjson.Text{}, nil,
		"Weights of tenants with router_queue_policy ``\"wfq\"``, such as ``\"gold=3,free=1\"``; 1 for others.").
		byKeyword(),
	row("metrics_interval_ms", strictjson.Number{MinOpen: true}, nil,
		"Milliseconds between two looks at the loads of workers, by which it decides; None counts each request at "+
			"once. Not in Dynamo.").byKeyword(),
	row("router_replicas", strictjson.Integer{Min: 1, Max: 4096}, 1,
		"Routers that get requests in turn, each of which knows only its own; all learn of the same caches. "+
			"Not in Dynamo.").byKeyword(),
	row("router_max_tree_size", strictjson.Integer{}, nil,
		"Retired: nothing uses it.").as(retired).byKeyword(),
	row("router_prune_target_ratio", strictjson.Number{}, nil,
		"Retired: nothing uses it.").as(retired).byKeyword(),
	row("router_enable_cache_control", strictjson.Bool{}, nil,
		"Retired: nothing uses it.").as(retired).byKeyword(),
}

var (
	fraction   = strictjson.Number{Max: 1}
	atLeastOne = strictjson.Integer{Min: 1, Max: math.MaxUint32}
)

// row starts an applied field.
func row(name string, t strictjson.Type, byDefault any, doc string) field {
	return field{Field: strictjson.Field{Name: name, Type: t, Default: byDefault, NotNull: byDefault != nil, Doc: doc}}
}

func (f field) orNull() field {
	f.NotNull = false
	return f
}

func (f field) as(u use) field {
	f.use = u
	return f
}

func (f field) later(feature string) field {
	f.use, f.feature = notBuilt, feature
	return f
}

func (f field) byKeyword() field {
	f.keywordOnly = true
	return f
}

func (f field) settable() field {
	f.mutable = true
	return f
}

// schema returns the table as package strictjson wants it.
func schema() strictjson.Schema {
	fields := make([]strictjson.Field, len(table))
	for i, f := range table {
		fields[i] = f.Field
	}
	return strictjson.Schema{Fields: fields}
}
