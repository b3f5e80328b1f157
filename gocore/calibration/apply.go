package calibration

import (
	"fmt"
	"strings"

	"dynosim/gocore/engineargs"
)

// knobs are where a knob stands in an entry and in engine arguments.
var knobs = []struct {
	name   string
	most   float64
	factor bool
	arg    func(*engineargs.Knobs) *float64
}{
	{"prefill_scale", 1000, true, func(k *engineargs.Knobs) *float64 { return &k.PrefillScale }},
	{"decode_scale", 1000, true, func(k *engineargs.Knobs) *float64 { return &k.DecodeScale }},
	{"step_overhead_us", 1e9, false, func(k *engineargs.Knobs) *float64 { return &k.StepOverheadUs }},
	{"seq_overhead_us", 1e9, false, func(k *engineargs.Knobs) *float64 { return &k.SeqOverheadUs }},
	{"request_overhead_us", 1e9, false, func(k *engineargs.Knobs) *float64 { return &k.RequestOverheadUs }},
	{"request_token_overhead_us", 1e9, false, func(k *engineargs.Knobs) *float64 { return &k.RequestTokenOverheadUs }},
	{"kv_pool_scale", 1000, true, func(k *engineargs.Knobs) *float64 { return &k.KVPoolScale }},
}

// Apply sets the knobs of engine arguments to those of the entry that fits, but for those that the arguments give.
// words says which entry that is and what it set: never is anything calibrated in silence.
func (p Profile) Apply(args engineargs.Args) (calibrated engineargs.Args, words string, err error) {
	k := KeyOf(args)
	place := p.Choose(k)
	if place < 0 {
		return args, "", fmt.Errorf("want a profile for %s with %s durations; it has %s", k.Engine, k.Timing, p.has())
	}
	e := &p.Entries[place]
	factors := p.factorsFor(e, k)
	var set []string
	for _, knob := range knobs {
		value, fitted := e.Knobs[knob.name]
		if !fitted || args.Given.Has(knob.name) {
			continue
		}
		value = times(value, factors, knob.name)
		*knob.arg(&args.Knobs) = value
		set = append(set, fmt.Sprintf("%s %v", knob.name, value))
	}
	if words := e.Kernels.instead(&args); words != "" {
		set = append(set, words)
	}
	if e.Fused && args.Scheduler == engineargs.VLLMOwn && !args.Given.Has("pass_time") {
		args.VLLM.Fused = true
		set = append(set, "pass_time fused")
	}
	if e.KVTokens >= args.BlockSize && !args.Given.Has("num_gpu_blocks") {
		if args, err = args.WithPool(e.KVTokens / args.BlockSize); err != nil {
			return args, "", err
		}
		set = append(set, fmt.Sprintf("num_gpu_blocks %d", args.NumGPUBlocks))
	}
	return args, e.words(k, set) + wordsOf(factors), nil
}

// words returns a description of the use of an entry.
func (e *Entry) words(k Key, set []string) string {
	text := e.name()
	if (e.Level == "gpu" || e.Level == "engine") && k.Model != "" {
		text += fmt.Sprintf(", as nothing was measured for %s",
			strings.Join(nonEmpty(k.Model, k.System, k.Precision), ", "))
	}
	text += ": " + strings.Join(set, ", ")
	if e.Scheduler != "" && e.Scheduler != k.Scheduler {
		text += fmt.Sprintf("; fitted with scheduler %s, not %s", e.Scheduler, k.Scheduler)
	}
	if e.Note != "" {
		text += "; " + e.Note
	}
	return text
}

func nonEmpty(parts ...string) (kept []string) {
	for _, part := range parts {
		if part != "" {
			kept = append(kept, part)
		}
	}
	return kept
}
