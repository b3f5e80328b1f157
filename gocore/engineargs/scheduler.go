package engineargs

import (
	"fmt"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/strictjson"
)

// Scheduler is the rules by which an engine schedules: those of Dynamo's mocker, or the engine's own.
type Scheduler uint8

// The schedulers. VLLMOwn follows vLLM, in the release that VLLMArgs names, SGLangOwn SGLang 0.5.23.
const (
	Dynamo Scheduler = iota
	VLLMOwn
	SGLangOwn
)

// schedulers are the names that users write, the newest release of an engine first. The engine's name alone stands for
// it.
var schedulers = []namedScheduler{
	{name: "dynamo", rules: Dynamo},
	{name: "vllm", rules: VLLMOwn, engine: VLLM, release: VLLM033},
	{name: "vllm-0.33", rules: VLLMOwn, engine: VLLM, release: VLLM033},
	{name: "vllm-0.28", rules: VLLMOwn, engine: VLLM, release: VLLM028},
	{name: "sglang", rules: SGLangOwn, engine: SGLang},
	{name: "sglang-0.5", rules: SGLangOwn, engine: SGLang},
}

type namedScheduler struct {
	name    string
	rules   Scheduler
	engine  EngineType
	release Release
}

// Release is one of vLLM. What the releases do differently is in package engines/vllm.
type Release uint8

// The releases whose rules are known, in order; 0 is none of vLLM.
const (
	VLLM028 Release = 1 + iota
	VLLM033
)

// String returns the name of the rules, without a release.
func (s Scheduler) String() string {
	return schedulers[slices.IndexFunc(schedulers, func(n namedScheduler) bool { return n.rules == s })].name
}

func schedulerNames() []string {
	var names []string
	for _, s := range schedulers {
		names = append(names, s.name)
	}
	return names
}

// VLLMArgs are the settings that only vLLM's own scheduler has.
type VLLMArgs struct {
	// Async composes a pass while the one before it runs.
	Async bool
	// Fused counts a pass as one forward: no decode step for the token that the end of a prompt brings, and what any
	// forward takes once.
	Fused bool
	// ReserveFullISL admits a request only if the blocks of its whole prompt are free, not just those of its first
	// chunk.
	ReserveFullISL bool
	// LongPrefillTokenThreshold bounds what a request computes in one pass, in tokens; 0 does not. An adaptive one is
	// raised to an equal share of the budget.
	LongPrefillTokenThreshold int
	AdaptiveThreshold         bool
	// PrefillInterval is the number of passes from one that computes prompts to the next, while others decode; 1 is
	// each.
	PrefillInterval int
	// MaxActiveSeqs bounds the requests that run when another is admitted.
	MaxActiveSeqs int
	Release       Release
	// RoundRobin sends requests whose rank no router has chosen to the ranks in turn, not by vLLM's load balancer.
	RoundRobin bool
	Groups     Groups
}

// routerRanks is the dp_routing of workers whose ranks the router before them chooses.
const routerRanks = "router"

// named returns the scheduler that the arguments name.
func named(o *strictjson.Object) namedScheduler {
	return schedulers[slices.IndexFunc(schedulers,
		func(s namedScheduler) bool { return s.name == o.Text("scheduler") })]
}

func vllmArgs(o *strictjson.Object) VLLMArgs {
	return VLLMArgs{
		Async:                     async(o),
		Fused:                     o.Text("pass_time") == fused,
		ReserveFullISL:            o.Bool("scheduler_reserve_full_isl"),
		LongPrefillTokenThreshold: o.Int("long_prefill_token_threshold"),
		AdaptiveThreshold:         o.Bool("long_prefill_token_threshold_adaptive"),
		PrefillInterval:           o.Int("prefill_schedule_interval"),
		MaxActiveSeqs:             maxActiveSeqs(o),
		Release:                   named(o).release,
		RoundRobin:                o.Text("dp_routing") != "vllm",
		Groups:                    groups(o),
	}
}

// async tells whether passes overlap: by default as on a stock server, but not on prefill and decode workers.
func async(o *strictjson.Object) bool {
	handsOff := named(o).rules == VLLMOwn && workerType(o) != engine.Aggregated
	copies := named(o).rules == VLLMOwn && hostTier(o)
	return o.Bool("async_scheduling") && (!handsOff && !copies || o.Given("async_scheduling"))
}

func maxActiveSeqs(o *strictjson.Object) int {
	if o.Given("max_num_active_seqs") {
		return o.Int("max_num_active_seqs")
	}
	return intOrUnlimited(o, "max_num_seqs")
}

// SchedulerName returns the scheduler with its release, as users write it.
func (a Args) SchedulerName() string {
	i := slices.IndexFunc(schedulers, func(n namedScheduler) bool {
		return n.rules == a.Scheduler && n.release == a.VLLM.Release &&
			(n.rules == Dynamo || n.name != a.Scheduler.String())
	})
	return schedulers[i].name
}

// ComparesTokens tells that the engine compares prompts token by token, not just block by block.
func (a Args) ComparesTokens() bool { return a.Scheduler == SGLangOwn && a.SGLang.Policy == LPM }

// idleSettings warns of members of "sglang" that have no effect with the scheduler.
func idleSettings(o *strictjson.Object) []string {
	nested := o.Object("sglang")
	if nested == nil || engineType(o) != SGLang {
		return nil
	}
	var warnings []string
	for _, f := range sglangTable {
		if f.rules != nil && !slices.Contains(f.rules, named(o).rules) && nested.Given(f.Name) {
			warnings = append(warnings, "engine argument sglang."+f.Name+" has no effect with scheduler "+named(o).name)
		}
	}
	return warnings
}

// checkScheduler refuses what an engine's own scheduler does not do, and configurations that the engine itself refuses.
func checkScheduler(o *strictjson.Object) error {
	s := named(o)
	if s.rules == Dynamo {
		return nil
	}
	if s.engine != engineType(o) {
		return mismatch(o, "scheduler", fmt.Sprintf("engine_type %s with it, or dynamo with engine_type %s", s.engine,
			engineType(o)))
	}
	if err := checkHandoff(o, s); err != nil {
		return err
	}
	for _, name := range []string{"aic_nextn", "preemption_mode", "eviction_backend"} {
		if !o.AtDefault(name) {
			return mismatch(o, name, "it left out with scheduler "+o.Text("scheduler"))
		}
	}
	if seqs, budget := intOrUnlimited(o, "max_num_seqs"),
		intOrUnlimited(o, "max_num_batched_tokens"); s.rules == VLLMOwn && budget < seqs {
		want := fmt.Sprintf("at least max_num_seqs, %s, as vLLM wants it", shownOr(o, "max_num_seqs", seqs))
		return &strictjson.FieldError{Field: "max_num_batched_tokens", Got: fmt.Sprint(budget), Want: want}
	}
	if s.rules == VLLMOwn && maxActiveSeqs(o) > intOrUnlimited(o, "max_num_seqs") {
		want := fmt.Sprintf("at most max_num_seqs, %s, as vLLM wants it",
			shownOr(o, "max_num_seqs", o.Int("max_num_seqs")))
		return mismatch(o, "max_num_active_seqs", want)
	}
	return nil
}

// checkHandoff refuses what is not known of hand-offs by an engine's own rules: no recorded run of the engine has it.
func checkHandoff(o *strictjson.Object, s namedScheduler) error {
	t := workerType(o)
	if t == engine.Aggregated {
		return nil
	}
	where := fmt.Sprintf(" on %s workers with scheduler %s, whose hand-offs are not proven otherwise", t, s.name)
	if s.rules == SGLangOwn {
		if err := checkSGLangHandoff(o, where); err != nil {
			return err
		}
	}
	switch {
	case o.Int("prefill_schedule_interval") > 1:
		return mismatch(o, "prefill_schedule_interval", "1"+where)
	case len(o.Objects("kv_cache_groups")) > 1:
		return &strictjson.FieldError{
			Field: "kv_cache_groups", Got: fmt.Sprintf("%d groups", len(o.Objects("kv_cache_groups"))),
			Want: "one" + where,
		}
	case o.Given("kv_transfer_ms_per_block") && o.Float("kv_transfer_bandwidth") > 0:
		return mismatch(o, "kv_transfer_ms_per_block", "it left out with kv_transfer_bandwidth, which says the same")
	}
	return nil
}

// checkSGLangHandoff refuses what the driver of SGLang's prefill and decode workers does not run.
func checkSGLangHandoff(o *strictjson.Object, where string) error {
	set := sglang(o)
	nested := func(name, got, want string) error {
		return &strictjson.FieldError{Field: "sglang." + name, Got: got, Want: want + where}
	}
	switch {
	case set.MixedChunk:
		return nested("enable_mixed_chunk", "true", "false")
	case set.RecvInterval > 1:
		return nested("scheduler_recv_interval", fmt.Sprint(set.RecvInterval), "1")
	case o.Int("dp_size") > 1:
		return mismatch(o, "dp_size", "1"+where)
	case hostTier(o):
		return &strictjson.FieldError{Field: "host_cache", Got: "a tier", Want: "it left out" + where}
	}
	return nil
}

// fused is the pass_time of passes that are one forward.
const fused = "fused"

// shownOr returns a value as the text has it or, without one, the default.
func shownOr(o *strictjson.Object, name string, byDefault any) string {
	if shown := o.Shown(name); shown != "" {
		return shown
	}
	return fmt.Sprint(byDefault)
}
