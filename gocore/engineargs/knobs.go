package engineargs

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/strictjson"
	"dynosim/gocore/timing"
)

// Knobs are physical constants that bring simulated times close to measured ones. By default none of them changes anything.
type Knobs struct {
	// StepOverheadUs is host time of each pass, SeqOverheadUs of each request that has a share of it, in microseconds.
	StepOverheadUs, SeqOverheadUs float64
	// RequestOverheadUs is how long a request is on its way, from the worker that it reaches to the engine's scheduler.
	RequestOverheadUs float64
	// PrefillScale and DecodeScale multiply what the timing model predicts, KVPoolScale an estimated KV pool.
	PrefillScale, DecodeScale, KVPoolScale float64
}

// Host is the host time of passes. The engine of an offline replay stands for all attention data-parallel ranks, that of a
// live worker for one.
func (a *Args) Host() timing.Host {
	host := timing.Host{StepMs: a.Knobs.StepOverheadUs / 1000, SeqMs: a.Knobs.SeqOverheadUs / 1000, Ranks: a.AIC.AttentionDP}
	if a.Live.Ranks > 0 {
		host.Ranks = 1
	}
	return host
}

// Scaled is a timing model with the factors applied.
func (k Knobs) Scaled(m timing.Model) timing.Model {
	return timing.Scale(m, k.PrefillScale, k.DecodeScale)
}

// Pool is the size of a KV pool of which blocks is the estimate.
func (k Knobs) Pool(blocks int) int {
	if k.KVPoolScale == 1 {
		return blocks
	}
	return int(k.KVPoolScale * float64(blocks))
}

// knobs are those of a checked object. Decode workers get their requests from prefill workers, for which the time of a
// request to the scheduler was counted.
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
	}
	return k
}
