package engineargs

import (
	"fmt"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/strictjson"
)

// Scheduler is the rules by which an engine schedules: those of Dynamo's mocker, or the engine's own.
type Scheduler uint8

// The schedulers. VLLMOwn follows vLLM 0.28, SGLangOwn SGLang 0.5.23.
const (
	Dynamo Scheduler = iota
	VLLMOwn
	SGLangOwn
)

// schedulers are the names that users write, the newest release of an engine first. The engine's name alone stands for it.
var schedulers = []namedScheduler{
	{name: "dynamo", rules: Dynamo},
	{name: "vllm", rules: VLLMOwn, engine: VLLM},
	{name: "vllm-0.28", rules: VLLMOwn, engine: VLLM},
	{name: "sglang", rules: SGLangOwn, engine: SGLang},
	{name: "sglang-0.5", rules: SGLangOwn, engine: SGLang},
}

type namedScheduler struct {
	name   string
	rules  Scheduler
	engine EngineType
}

// String is the name of the rules, without a release.
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
	// ReserveFullISL admits a request only if the blocks of its whole prompt are free, not just those of its first chunk.
	ReserveFullISL bool
	// LongPrefillTokenThreshold bounds what a request computes in one pass, in tokens; 0 does not.
	LongPrefillTokenThreshold int
}

// named is the scheduler that the arguments name.
func named(o *strictjson.Object) namedScheduler {
	return schedulers[slices.IndexFunc(schedulers, func(s namedScheduler) bool { return s.name == o.Text("scheduler") })]
}

func vllmArgs(o *strictjson.Object) VLLMArgs {
	return VLLMArgs{
		Async:                     o.Bool("async_scheduling"),
		ReserveFullISL:            o.Bool("scheduler_reserve_full_isl"),
		LongPrefillTokenThreshold: o.Int("long_prefill_token_threshold"),
	}
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
		return mismatch(o, "scheduler", fmt.Sprintf("engine_type %s with it, or dynamo with engine_type %s", s.engine, engineType(o)))
	}
	if t := workerType(o); t != engine.Aggregated {
		return mismatch(o, "scheduler", fmt.Sprintf("dynamo on %s workers: hand-offs by the engine's own rules are not proven", t))
	}
	for _, name := range []string{"aic_nextn", "preemption_mode", "eviction_backend"} {
		if !o.AtDefault(name) {
			return mismatch(o, name, "it left out with scheduler "+o.Text("scheduler"))
		}
	}
	if seqs, budget := intOrUnlimited(o, "max_num_seqs"), intOrUnlimited(o, "max_num_batched_tokens"); s.rules == VLLMOwn && budget < seqs {
		want := fmt.Sprintf("at least max_num_seqs, %s, as vLLM wants it", shownOr(o, "max_num_seqs", seqs))
		return &strictjson.FieldError{Field: "max_num_batched_tokens", Got: fmt.Sprint(budget), Want: want}
	}
	if nested := o.Object("sglang"); s.rules == SGLangOwn && nested != nil && nested.Given("enable_mixed_chunk") && nested.Bool("enable_mixed_chunk") {
		want := "false, as in a stock server: batches that mix prompts with decoding requests are not simulated"
		return &strictjson.FieldError{Field: "sglang.enable_mixed_chunk", Got: "true", Want: want}
	}
	return nil
}

// shownOr is a value as the text has it or, without one, the default.
func shownOr(o *strictjson.Object, name string, byDefault any) string {
	if shown := o.Shown(name); shown != "" {
		return shown
	}
	return fmt.Sprint(byDefault)
}
