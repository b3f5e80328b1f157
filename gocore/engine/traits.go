package engine

import "dynosim/gocore/handoff"

// Traits are what shells have to know of an engine besides its interface. They follow from its arguments, and shells
// ask for them instead of for the engine's name.
type Traits struct {
	// Handoff names the rule by which requests go from prefill to decode workers; "" if the engine has no such roles.
	Handoff Handoff
	// HandoffOrder says which side of a hand-off is asked first, if the rule is Coordinated.
	HandoffOrder handoff.Order
	// Undisturbed says that hand-offs cannot be interrupted: it is not known what becomes of one whose worker is lost,
	// or whose request is withdrawn. Faults are refused then.
	Undisturbed bool

	// Independent tells that passes without effect leave the engine as it was. Such an engine may be simulated apart
	// from the other workers of its pool, which changes how often it is asked for a pass that has no effect. Other
	// engines may be simulated apart only until they have such a pass.
	Independent bool

	// CachesPrefixes tells that requests find blocks of earlier ones in the cache, so their blocks need names.
	CachesPrefixes bool

	// BoundsBatches tells that max_num_batched_tokens bounds the tokens of a pass.
	BoundsBatches bool

	// Policies tells that the engine asks Setup.Policy.
	Policies bool

	// TracesCache tells that the engine calls Setup.Trace.
	TracesCache bool

	// Metrics says whose names the metrics of live workers have.
	Metrics MetricNames
}

// Handoff is the name of a rule of hand-offs. The file of package fleet that has the rule adds it by this name.
type Handoff string

// The rules that are built in.
const (
	Coordinated Handoff = "coordinated" // a Source and a Destination do what package handoff says
	Pulled      Handoff = "pulled"      // a Puller loads the KV of prompts when it chooses to
	Pushed      Handoff = "pushed"      // a Pusher sends the KV of prompts to where room has been taken before
)

// MetricNames is a set of names for metrics, that of an engine.
type MetricNames uint8

// The sets of names. The prefix of all names is the engine type in either case.
const (
	VLLMMetrics MetricNames = iota
	SGLangMetrics
)
