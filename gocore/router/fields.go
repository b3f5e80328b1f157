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
}

// table holds every accepted key, in the order of the Python constructor. Null is allowed where it is the default.
var table = []field{
	row("overlap_score_weight", strictjson.Number{}, nil),
	row("host_cache_hit_weight", fraction, 0.75).as(inert),
	row("disk_cache_hit_weight", fraction, 0.25).as(inert),
	row("router_temperature", strictjson.Number{}, 0.0),
	row("use_kv_events", strictjson.Bool{}, true).as(inert),
	row("durable_kv_events", strictjson.Bool{}, false).as(inert),
	row("router_replica_sync", strictjson.Bool{}, false).as(inert),
	row("router_track_active_blocks", strictjson.Bool{}, true),
	row("router_track_output_blocks", strictjson.Bool{}, false).as(inert),
	row("router_assume_kv_reuse", strictjson.Bool{}, true),
	row("router_track_prefill_tokens", strictjson.Bool{}, true),
	row("router_prefill_load_model", strictjson.Enum{Choices: []string{"none", "aic"}}, "none"),
	row("router_snapshot_threshold", atLeastOne, 1_000_000).orNull().as(inert),
	row("router_reset_states", strictjson.Bool{}, false).as(inert),
	row("router_ttl_secs", strictjson.Number{}, 120.0).as(inert),
	row("router_queue_threshold", strictjson.Number{}, 16.0).orNull(),
	row("router_event_threads", atLeastOne, 4).as(inert),
	row("router_queue_policy", strictjson.Enum{Choices: queuePolicyNames}, "fcfs"),
	row("use_remote_indexer", strictjson.Bool{}, false).as(inert),
	row("serve_indexer", strictjson.Bool{}, false).as(inert),
	row("shared_cache_multiplier", fraction, 0.0).as(inert),
	row("shared_cache_type", strictjson.Enum{Choices: []string{"none", "hicache"}}, "none").as(inert),
	row("router_predicted_ttl_secs", strictjson.Number{}, nil).as(inert),

	row("overlap_score_credit", fraction, 1.0),
	row("overlap_score_credit_decay", strictjson.Number{}, 0.0),
	row("prefill_load_scale", strictjson.Number{}, 1.0),
	row("router_policy_config", strictjson.Text{}, nil).later("router policy files"),
	row("skip_initial_worker_wait", strictjson.Bool{}, false).as(inert),

	row("router_seed", strictjson.Integer{Max: math.MaxUint64}, nil),
	row("router_max_tree_size", strictjson.Integer{}, nil).as(retired),
	row("router_prune_target_ratio", strictjson.Number{}, nil).as(retired),
	row("router_enable_cache_control", strictjson.Bool{}, nil).as(retired),
}

var (
	fraction   = strictjson.Number{Max: 1}
	atLeastOne = strictjson.Integer{Min: 1, Max: math.MaxUint32}
)

// row starts an applied field.
func row(name string, t strictjson.Type, byDefault any) field {
	return field{Field: strictjson.Field{Name: name, Type: t, Default: byDefault, NotNull: byDefault != nil}}
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

// schema is the table as package strictjson wants it.
func schema() strictjson.Schema {
	fields := make([]strictjson.Field, len(table))
	for i, f := range table {
		fields[i] = f.Field
	}
	return strictjson.Schema{Fields: fields}
}
