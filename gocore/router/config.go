package router

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"dynosim/gocore/strictjson"
)

// Config is the part of a router configuration that has an effect. ParseConfig has checked every value; copies may be
// changed within the same ranges.
type Config struct {
	// OverlapCredit is how much of a cached block is taken off the prefill cost, from 0 to 1. With a decay above 0 a
	// worker gets less credit the more prefill load it has beyond the least loaded one.
	OverlapCredit, OverlapCreditDecay float64
	// HostCredit and SharedCredit are how much a block counts, compared with a cached one, that only the host of a
	// worker has, or only a store that all workers share.
	HostCredit, SharedCredit float64
	// PrefillLoadScale weighs prefill cost against decode cost.
	PrefillLoadScale float64
	// Temperature 0 takes the cheapest worker. Above that, cheaper workers are only more probable.
	Temperature float64

	TrackActiveBlocks  bool // decode cost counts the blocks of active requests
	AssumeKVReuse      bool // requests of one worker share the blocks they have in common
	TrackPrefillTokens bool // prefill cost and queue count prompt tokens
	// EstimatePrefill wants Options.Estimate, so that prefill cost shrinks while a prompt is computed.
	EstimatePrefill bool

	// Queueing holds requests back while all workers have more prefill load than QueueThreshold times the tokens that
	// one pass can compute.
	Queueing       bool
	QueueThreshold float64
	QueuePolicy    QueuePolicy
	// TenantWeights says how much tenants get against each other in a WFQ queue, such as "gold=3,free=1"; others have
	// weight 1.
	TenantWeights string

	// With MetricsIntervalMs above 0, decisions go by the loads of the last poll; Replicas is the number of routers.
	MetricsIntervalMs float64
	Replicas          int

	// Seed decides ties and draws, if Seeded; otherwise the seed of the run does.
	Seed   uint64
	Seeded bool
}

// QueuePolicy orders the requests that wait in the router.
type QueuePolicy uint8

// FCFS admits the request that came first, LCFS the one that came last, and WSPT the one with the shortest prompt left
// to compute. In the first two a priority counts as that many seconds of waiting, in the last it divides the length of
// the prompt.
//
// The others are not in Dynamo. ByPriority admits the request with the highest priority, EDF the one with the earliest
// deadline, and WFQ gives tenants prompt tokens in the ratio of their weights (start-time fair queueing). Requests that
// are equal go in the order of arrival, and those without a deadline last.
const (
	FCFS QueuePolicy = iota
	LCFS
	WSPT
	ByPriority
	EDF
	WFQ
)

var queuePolicyNames = []string{FCFS: "fcfs", LCFS: "lcfs", WSPT: "wspt", ByPriority: "priority", EDF: "edf",
	WFQ: "wfq"}

// String returns the name users write.
func (p QueuePolicy) String() string { return queuePolicyNames[p] }

// ParseQueuePolicy returns the policy of that name, in lower case. Names come from configurations that were checked, so
// an unknown one just reports false.
func ParseQueuePolicy(name string) (QueuePolicy, bool) {
	i := slices.Index(queuePolicyNames, name)
	return QueuePolicy(max(i, 0)), i >= 0
}

// DefaultConfig returns what an empty object describes.
func DefaultConfig() Config {
	c, _, err := ParseConfig("{}")
	if err != nil {
		panic("router: the defaults are refused: " + err.Error())
	}
	return c
}

// PrefillStage returns the configuration of the router before a pool of prefill workers, which leaves no blocks active.
func (c Config) PrefillStage() Config {
	c.TrackActiveBlocks = false
	return c
}

// DecodeStage returns the configuration of the router before a pool of decode workers. They compute no prompts, and
// what they have cached counts for nothing, because prompts are moved to them as a whole.
func (c Config) DecodeStage() Config {
	c.OverlapCredit = 0
	c.AssumeKVReuse = false
	c.TrackPrefillTokens = false
	c.EstimatePrefill = false
	return c
}

// ParseConfig reads one object. The warnings are for the user, one line each. Errors are those of package strictjson,
// joined when there are several; none of them says which argument held the object.
func ParseConfig(text string) (c Config, warnings []string, err error) {
	o, err := strictjson.Decode(text, schema())
	if err != nil {
		return Config{}, nil, err
	}
	if err := check(o); err != nil {
		return Config{}, nil, err
	}
	return build(o), warn(o), nil
}

// build copies a checked object.
func build(o *strictjson.Object) Config {
	policy, _ := ParseQueuePolicy(o.Text("router_queue_policy"))
	c := Config{
		OverlapCredit:      o.Float("overlap_score_credit"),
		OverlapCreditDecay: o.Float("overlap_score_credit_decay"),
		HostCredit:         o.Float("host_cache_hit_weight"),
		SharedCredit:       o.Float("shared_cache_multiplier"),
		PrefillLoadScale:   o.Float("prefill_load_scale"),
		Temperature:        o.Float("router_temperature"),
		TrackActiveBlocks:  o.Bool("router_track_active_blocks"),
		AssumeKVReuse:      o.Bool("router_assume_kv_reuse"),
		TrackPrefillTokens: o.Bool("router_track_prefill_tokens"),
		EstimatePrefill:    o.Text("router_prefill_load_model") != "none",
		Queueing:           !o.Null("router_queue_threshold"),
		QueueThreshold:     o.Float("router_queue_threshold"),
		QueuePolicy:        policy,
		TenantWeights:      o.Text("router_tenant_weights"),
		MetricsIntervalMs:  o.Float("metrics_interval_ms"),
		Replicas:           o.Int("router_replicas"),
	}
	if !c.Queueing {
		c.QueueThreshold = 0
	}
	if o.Given("overlap_score_weight") { // the old name for both
		c.PrefillLoadScale = o.Float("overlap_score_weight")
		if c.PrefillLoadScale == 0 {
			c.OverlapCredit = 0
		}
	}
	if o.Given("router_seed") {
		c.Seed = o.Uint("router_seed")
		c.Seeded = true
	}
	return c
}

// warn returns what is set without effect or should be spelled otherwise.
func warn(o *strictjson.Object) []string {
	var lines, idle, gone []string
	for _, f := range table {
		switch {
		case f.Name == "durable_kv_events" && o.Bool(f.Name):
			lines = append(lines, f.Name+" is deprecated and has no effect on offline replay")
		case f.use == inert && !o.AtDefault(f.Name):
			idle = append(idle, f.Name)
		case f.use == retired && o.Given(f.Name):
			gone = append(gone, f.Name)
		case f.Name == "overlap_score_weight" && o.Given(f.Name):
			lines = append(lines, f.Name+" is deprecated, use prefill_load_scale")
		}
	}
	if len(idle) > 0 {
		lines = append(lines, strings.Join(idle, ", ")+plural(idle, " has", " have")+" no effect on offline replay")
	}
	if len(gone) > 0 {
		lines = append(lines, strings.Join(gone, ", ")+plural(gone, " is", " are")+" deprecated and without effect")
	}
	for i, line := range lines {
		lines[i] = "router_config: " + line
	}
	return lines
}

func plural(names []string, one, many string) string {
	if len(names) == 1 {
		return one
	}
	return many
}

// check goes through ranges, contradictions and features that are not built, and returns the complaints of the first
// group that has any. Of contradictions it names the first one only.
func check(o *strictjson.Object) error {
	if err := strictjson.Join(rangeErrors(o)); err != nil {
		return err
	}
	for _, rule := range crossRules {
		if o.Shown(rule.field) != "" && rule.broken(o) {
			return &strictjson.FieldError{Field: rule.field, Got: o.Shown(rule.field), Want: rule.want}
		}
	}
	if text := o.Text("router_tenant_weights"); text != "" {
		if _, ok := parseWeights(text); !ok {
			return &strictjson.FieldError{Field: "router_tenant_weights", Got: o.Shown("router_tenant_weights"),
				Want: "tenants with weights above 0, such as gold=3,free=1"}
		}
	}
	return strictjson.Join(notBuiltErrors(o))
}

// parseWeights reads weights of tenants, such as "gold=3,free=1". The empty text has none.
func parseWeights(text string) (map[string]float64, bool) {
	if text == "" {
		return nil, true
	}
	weights := map[string]float64{}
	for _, part := range strings.Split(text, ",") {
		i := strings.LastIndexByte(part, '=')
		if i < 0 {
			return nil, false
		}
		name := strings.TrimSpace(part[:i])
		weight, err := strconv.ParseFloat(strings.TrimSpace(part[i+1:]), 64)
		if _, twice := weights[name]; twice || err != nil || !(weight > 0) || math.IsInf(weight, 1) {
			return nil, false
		}
		weights[name] = weight
	}
	return weights, true
}

const moreWeight = " (use prefill_load_scale for more weight)"

// rangeErrors points a user who wants more than the whole credit to the option that does it.
func rangeErrors(o *strictjson.Object) []error {
	errs := o.RangeErrors()
	for _, err := range errs {
		var e *strictjson.FieldError
		if errors.As(err, &e) && e.Field == "overlap_score_credit" && o.Float(e.Field) > 1 {
			e.Want += moreWeight
		}
	}
	return errs
}

// crossRules are tried in this order, each only if its field is given.
var crossRules = []struct {
	field  string
	want   string
	broken func(*strictjson.Object) bool
}{
	{"durable_kv_events", "use_kv_events true as well", func(o *strictjson.Object) bool {
		return o.Bool("durable_kv_events") && !o.Bool("use_kv_events")
	}},
	{"router_track_output_blocks", "router_track_active_blocks true as well", func(o *strictjson.Object) bool {
		return o.Bool("router_track_output_blocks") && !o.Bool("router_track_active_blocks")
	}},
	{"router_predicted_ttl_secs", "use_kv_events true as well", func(o *strictjson.Object) bool {
		return o.Given("router_predicted_ttl_secs") && !o.Bool("use_kv_events")
	}},
	{"serve_indexer", "use_remote_indexer false", func(o *strictjson.Object) bool {
		return o.Bool("serve_indexer") && o.Bool("use_remote_indexer")
	}},
	{"serve_indexer", "an overlap_score_credit above 0", func(o *strictjson.Object) bool {
		return o.Bool("serve_indexer") && build(o).OverlapCredit == 0
	}},
	{"router_tenant_weights", `router_queue_policy "wfq" as well`, func(o *strictjson.Object) bool {
		return o.Given("router_tenant_weights") && o.Text("router_queue_policy") != "wfq"
	}},
	{"router_prefill_load_model", "router_track_prefill_tokens true as well", func(o *strictjson.Object) bool {
		return o.Text("router_prefill_load_model") != "none" && !o.Bool("router_track_prefill_tokens")
	}},
}

// notBuiltErrors refuses every feature of which the user would get a simulation without it.
func notBuiltErrors(o *strictjson.Object) []error {
	var errs []error
	for _, f := range table {
		if f.use == notBuilt && !o.AtDefault(f.Name) {
			errs = append(errs, &strictjson.NotBuiltError{Field: f.Name, Value: o.Shown(f.Name), Feature: f.feature})
		}
	}
	return errs
}

// WithQueuePolicy returns the configuration for a pool whose engine arguments name a queue policy, which replaces that
// of the router. The empty name is none.
func (c Config) WithQueuePolicy(name string) Config {
	if policy, ok := ParseQueuePolicy(name); ok {
		c.QueuePolicy = policy
	}
	return c
}
