package replay

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/handoff"
)

// disaggregated returns the random run with two pools, whose engines have the arguments of the run. At a bandwidth of
// 0.2 a transfer takes 5 ms for each token: with the coarse model, passes and transfers then end and begin at the same
// instants.
func (d drawnRun) disaggregated(t testing.TB) Config {
	t.Helper()
	cfg := d.config(t)
	rng := rand.New(rand.NewPCG(d.seed, 4))
	cfg.Router = nil
	cfg.Disagg = &DisaggConfig{
		Prefill: cfg.Args, Decode: cfg.Args, PrefillWorkers: 1 + rng.IntN(3), DecodeWorkers: 1 + rng.IntN(4),
		Transfer: handoff.Transfer{
			BytesPerToken: 1_000_000,
			BandwidthGBs:  []float64{0, 0.2, 0.2, 3}[rng.IntN(4)],
			Mode:          handoff.Mode(rng.IntN(2)),
		},
	}
	if d.own != "" {
		d.handsOffByItself(cfg.Disagg)
	}
	if rng.IntN(3) == 0 {
		c := cfg.Disagg
		c.PrefillRouter = d.router(t, rng, c.Prefill)
		c.DecodeRouter = d.router(t, rng, c.Decode)
	}
	return cfg
}

// handsOffByItself has the pools hand off by the rules of vLLM's own scheduler. The pool of prefill workers is of
// another size, and transfers may take a time for each block, one after the other or side by side.
func (d drawnRun) handsOffByItself(c *DisaggConfig) {
	rng := rand.New(rand.NewPCG(d.seed, 8))
	c.Prefill.Role, c.Decode.Role = engine.Prefill, engine.Decode
	c.Prefill.VLLM.Async, c.Decode.VLLM.Async = false, false
	if rng.IntN(2) == 0 {
		c.Prefill.NumGPUBlocks = 8 + rng.IntN(60)
	}
	if rng.IntN(2) == 0 {
		c.Transfer = handoff.Transfer{MsPerBlock: []float64{0.5, 5, 10, 40}[rng.IntN(4)], Unlimited: rng.IntN(2) == 0}
	}
}

// TestStepwiseDecodeWorkers runs random workloads with and without coasting decode workers. The results must agree to
// the last bit, the seconds of workers included.
func TestStepwiseDecodeWorkers(t *testing.T) {
	seeds := uint64(1200)
	if testing.Short() {
		seeds = 300
	}
	polls := map[bool]int{}
	for seed := range seeds {
		run := func(stepwise bool) string {
			d := drawnRun{seed: seed, stepwise: stepwise, log: &strings.Builder{}}
			cfg := d.disaggregated(t)
			cfg.Poll = func(float64, int) error { polls[stepwise]++; return nil }
			outcome, err := Run(cfg)
			if err != nil {
				return fmt.Sprint(d.log, err)
			}
			return fmt.Sprint(d.log, outcome.WorkerSeconds, outcome.PrefillWorkerSeconds, "\n", text(t, cfg, outcome))
		}
		if fast, slow := run(false), run(true); fast != slow {
			t.Fatalf("seed %d: %s", seed, firstDifference(fast, slow))
		}
	}
	if 4*polls[false] > 3*polls[true] {
		t.Errorf("polled %d times, stepwise %d times", polls[false], polls[true])
	}
}

// TestCoastingPools: many decode workers coast, with the same results as when they step.
func TestCoastingPools(t *testing.T) {
	cfg := func(stepwise bool) Config {
		d := drawnRun{seed: 3, stepwise: stepwise, log: &strings.Builder{}}
		cfg := d.disaggregated(t)
		cfg.Disagg.DecodeWorkers, cfg.Disagg.DecodeRouter = 65, nil
		cfg.Setup = func(engine.Role, int) engine.Setup { return engine.Setup{Stepwise: stepwise} }
		return cfg
	}
	fast, slow := cfg(false), cfg(true)
	if got, want := text(t, fast, mustRun(t, fast)), text(t, slow, mustRun(t, slow)); got != want {
		t.Error(firstDifference(got, want))
	}
}
