package policies

import (
	"math"
	"slices"

	"dynosim/gocore/router"
	"dynosim/gocore/strictjson"
)

// policy is one row of the table: a mode and the rule behind it.
type policy struct {
	name  string
	doc   string
	draws bool // the rule draws random numbers, if only to break ties
	own   []strictjson.Field
	rule  func(o router.Options) rule
	// whole makes the router of a policy that is no rule.
	whole func(o router.Options) router.Router
}

// settings lists the keys of the policy.
func (p *policy) settings() []strictjson.Field { return append(slices.Clone(p.own), common...) }

func (p *policy) make(o router.Options) router.Router {
	if p.whole != nil {
		return p.whole(o)
	}
	return newPool(p.rule, o)
}

// table lists the policies in the order in which reference pages show them.
var table = []policy{
	{"random", "any worker, all being equally probable", true, nil, newRandom, nil},
	{"least_requests", "the worker with the fewest requests in flight; ties are drawn", true, nil, newLeastRequests,
		nil},
	{"least_tokens", "the worker with the fewest prompt tokens in flight; ties are drawn", true, nil, newLeastTokens,
		nil},
	{"power_of_two", "of two workers that are drawn, the one with less load", true, powerOfTwoFields, newPowerOfTwo,
		nil},
	{"consistent_hash", "the worker behind the session's place on a hash ring; without a session, the prompt's", false,
		ringFields, newConsistentHash, nil},
	{"prefix_hash", "the worker behind the place of the first tokens of the prompt on a hash ring, unless it is " +
		"overloaded", false, prefixFields, newPrefixHash, nil},
	{"sticky_least_loaded", "the worker of the session; a new session goes to a worker with the fewest sessions so far",
		false, nil, newSticky, nil},
	{"manual", "the worker of the session; where a new session goes is a setting", true, manualFields, newManual, nil},
	{"bucket", "the worker whose range of prompt lengths holds this one, unless prompts are spread too unevenly", false,
		bucketFields, newBucket, nil},
	{"sglang_cache_aware", "the first worker that was sent a long enough prefix of the prompt, else the least loaded one",
		false, sglangTreeFields, newSGLangCacheAware, nil},
	{"smg_cache_aware", "the least loaded of the workers that were sent a long enough prefix, unless it has too much " +
		"to do; ties are drawn", true, smgTreeFields, newSMGCacheAware, nil},
	{"vllm_cache_aware", "the least loaded of the workers that were sent a long enough prefix of the prompt, else " +
		"the least loaded one", false, vllmTreeFields, newVLLMCacheAware, nil},
	{"endpoint_picker", "the worker with the highest weighted sum of scores: prefix, queue, KV cache in use and " +
		"more, as llm-d's; ties are drawn", true, pickerFields, nil, newEndpointPicker},
}

// common are the settings of every policy.
var common = []strictjson.Field{
	{
		Name: "metrics_interval_ms", Type: strictjson.Number{MinOpen: true},
		Doc: "Milliseconds between two looks at the loads that workers report; a router that has just looked knows " +
			"no later request. " +
			"None: the router counts its own requests.",
	},
	{
		Name: "router_replicas", Type: strictjson.Integer{Min: 1, Max: 4096}, Default: 1, NotNull: true,
		Doc: "Routers that get requests in turn. Each knows only its own requests and its own decisions.",
	},
	{
		Name: "router_seed", Type: strictjson.Integer{Max: math.MaxUint64},
		Doc: "Decides draws; the seed of the run if None.",
	},
}

func init() {
	for _, p := range table {
		router.Register(router.Mode{Name: p.name, Doc: p.doc, Draws: p.draws, UsesEvents: p.whole != nil,
			Settings: p.settings(), New: p.make})
	}
}

func integer(name string, low uint64, byDefault int, doc string) strictjson.Field {
	return strictjson.Field{Name: name, Type: strictjson.Integer{Min: low}, Default: byDefault, NotNull: true, Doc: doc}
}

func number(name string, t strictjson.Number, byDefault float64, doc string) strictjson.Field {
	return strictjson.Field{Name: name, Type: t, Default: byDefault, NotNull: true, Doc: doc}
}

func choice(name string, choices []string, doc string) strictjson.Field {
	return strictjson.Field{Name: name, Type: strictjson.Enum{Choices: choices}, Default: choices[0], NotNull: true,
		Doc: doc}
}

var (
	positive    = strictjson.Number{MinOpen: true}
	notNegative = strictjson.Number{}
	fraction    = strictjson.Number{Max: 1}
)
