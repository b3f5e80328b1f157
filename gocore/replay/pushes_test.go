package replay

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engineargs"
)

// pushed returns a random run whose hand-offs follow SGLang's own rules.
func (d drawnRun) pushed(t testing.TB) Config {
	t.Helper()
	d.own = "sglang"
	cfg := d.disaggregated(t)
	rng := rand.New(rand.NewPCG(d.seed, 11))
	reserved := []int{0, 1, 20, 512}[rng.IntN(4)]
	for _, args := range []*engineargs.Args{&cfg.Disagg.Prefill, &cfg.Disagg.Decode} {
		args.SGLang.RecvInterval, args.SGLang.MixedChunk = 1, false
		args.SGLang.Overlap, args.SGLang.Reserved = d.seed%2 == 1, reserved
		args.HostCache, args.SGLang.Window = engineargs.HostCacheArgs{}, engineargs.WindowArgs{}
	}
	if rng.IntN(3) == 0 {
		cfg.Disagg.Prefill.NumGPUBlocks = 12 + rng.IntN(12)
	}
	cfg.Disagg.Decode.NumGPUBlocks += rng.IntN(3) * reserved / cfg.Disagg.Decode.BlockSize
	return cfg
}

// TestPushes runs random workloads whose hand-offs follow SGLang's own rules: whatever the pools and routers, every
// request ends, no worker takes more blocks than it has or keeps any, nothing happens before what it needs, and decode
// workers that run ahead change nothing, to the last bit.
func TestPushes(t *testing.T) {
	seen := compareHandoffs(t, func(d drawnRun) Config { return d.pushed(t) })
	for _, what := range []string{"completed", "rejected", "preempted"} {
		if seen[what] == 0 {
			t.Errorf("no run has this: %s", what)
		}
	}
}
