package engineargs

import (
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/timing"
)

// Knobs are physical constants that bring simulated times close to measured ones. By default none of them changes
// anything.
type Knobs struct {
	// StepOverheadUs is host time of each pass, SeqOverheadUs of each request that has a share of it, in microseconds.
	StepOverheadUs, SeqOverheadUs float64
	// RequestOverheadUs is how long a request is on its way, from the worker that it reaches to the engine's scheduler,
	// and RequestTokenOverheadUs is added to that for each token of its prompt.
	RequestOverheadUs, RequestTokenOverheadUs float64
	// PrefillScale and DecodeScale multiply what the timing model predicts, KVPoolScale an estimated KV pool.
	PrefillScale, DecodeScale, KVPoolScale float64
}

// Host returns the host time of passes.
func (a *Args) Host() timing.Host {
	return timing.Host{StepMs: a.Knobs.StepOverheadUs / 1000, SeqMs: a.Knobs.SeqOverheadUs / 1000,
		Ranks: a.SharingRanks()}
}

// SharingRanks returns the number of attention data-parallel ranks that one scheduler stands for, and whose requests,
// blocks and passes it has. In offline replay it stands for all of them, unless ranks in lockstep (dp_size) have a
// scheduler each, as those of a live worker have.
func (a *Args) SharingRanks() int {
	if a.Live.Ranks > 0 || a.Ranks > 1 {
		return 1
	}
	return a.AIC.AttentionDP
}

// Scaled returns a timing model with the factors applied.
func (k Knobs) Scaled(m timing.Model) timing.Model {
	return timing.Scale(m, k.PrefillScale, k.DecodeScale)
}

// Pool returns the size of a KV pool of which blocks is the estimate.
func (k Knobs) Pool(blocks int) int {
	if k.KVPoolScale == 1 {
		return blocks
	}
	return int(k.KVPoolScale * float64(blocks))
}

// Given is which of the arguments are given that a calibration profile could set.
type Given uint16

// calibrated are the arguments that a profile sets; their places are the bits of Given.
var calibrated = []string{
	"num_gpu_blocks", "kv_pool_scale", "prefill_scale", "decode_scale", "step_overhead_us", "seq_overhead_us",
	"request_overhead_us",
	"request_token_overhead_us", "pass_time",
}

// Has reports whether an argument is given.
func (g Given) Has(name string) bool {
	i := slices.Index(calibrated, name)
	return i >= 0 && g>>i&1 == 1
}

// leftToProfile reports whether a calibration profile may set an argument.
func leftToProfile(o *strictjson.Object, name string) bool {
	return o.Given("calibration") && slices.Contains(calibrated, name) && !givenKnobs(o).Has(name)
}

// givenKnobs looks only at objects that ask for calibration.
func givenKnobs(o *strictjson.Object) (g Given) {
	if !o.Given("calibration") {
		return 0
	}
	for i, name := range calibrated {
		if o.Given(name) || name == "num_gpu_blocks" && o.Given("num_gpu_blocks_override") {
			g |= 1 << i
		}
	}
	return g
}

// knobs returns those of a checked object. Decode workers get their requests from prefill workers, for which the time
// of a request to the scheduler was counted.
func knobs(o *strictjson.Object) Knobs {
	k := Knobs{
		StepOverheadUs: o.Float("step_overhead_us"),
		SeqOverheadUs:  o.Float("seq_overhead_us"),
		PrefillScale:   o.Float("prefill_scale"),
		DecodeScale:    o.Float("decode_scale"),
		KVPoolScale:    o.Float("kv_pool_scale"),
	}
	if workerType(o) != engine.Decode {
		k.RequestOverheadUs = o.Float("request_overhead_us")
		k.RequestTokenOverheadUs = o.Float("request_token_overhead_us")
	}
	return k
}
