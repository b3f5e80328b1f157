package online

import (
	"errors"
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/replay"
	"dynosim/gocore/router"
	"dynosim/gocore/workload"
)

func config(t *testing.T, kv bool) replay.Config {
	t.Helper()
	args := engineargs.Default()
	args.BlockSize, args.NumGPUBlocks, args.SpeedupRatio = 16, 60, 20
	w, err := workload.Synthetic(workload.SyntheticSpec{
		EngineBlockSize: args.BlockSize, InputTokens: 200, OutputTokens: 10, RequestCount: 60, TurnsPerSession: 2,
		SharedPrefixRatio: 0.5, NumPrefixGroups: 2, ArrivalIntervalMs: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Schedule(false, 1); err != nil {
		t.Fatal(err)
	}
	cfg := replay.Config{Args: args, Workers: 3, Workload: w}
	if kv {
		c, _, err := router.ParseConfig("{}")
		if err != nil {
			t.Fatal(err)
		}
		options := router.Options{Config: c, BlockSize: args.BlockSize, MaxNumBatchedTokens: 8192, Rand: rand.New(rand.NewPCG(1, 1))}
		mode, _ := router.FindMode(router.KVMode)
		cfg.Router = mode.Factory(&options)
	}
	return cfg
}

func TestRun(t *testing.T) {
	for _, kv := range []bool{false, true} {
		cfg := config(t, kv)
		collector, err := Run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := collector.Finished(); got != len(cfg.Workload.Turns) || len(collector.Rejected()) != 0 {
			t.Errorf("got %d of %d, %v", got, len(cfg.Workload.Turns), collector.Rejected())
		}
	}
}

// lateRouter notes what it has heard of caches when it is asked for a worker, beside a KV router that decides.
type lateRouter struct {
	router.Router
	heard   *int   // blocks so far
	atAsked *[]int // of them when each request came
}

func (r lateRouter) Apply(worker int, events []kvcache.Event) {
	for _, e := range events {
		*r.heard += len(e.Blocks)
	}
	r.Router.Apply(worker, events)
}

func (r lateRouter) Submit(q router.Request, nowMs float64) ([]router.Admission, error) {
	*r.atAsked = append(*r.atAsked, *r.heard)
	return r.Router.Submit(q, nowMs)
}

// TestKVEventLag: a session's second turn comes 20 ms after the end of its first, whose blocks the router has heard of by then, or has not.
func TestKVEventLag(t *testing.T) {
	for _, c := range []struct {
		lagMs float64
		hears bool
	}{{0, true}, {5, true}, {1e9, false}} {
		cfg := config(t, true)
		w, err := workload.Synthetic(workload.SyntheticSpec{
			EngineBlockSize: cfg.Args.BlockSize, InputTokens: 200, OutputTokens: 2, RequestCount: 1, TurnsPerSession: 2, InterTurnDelayMs: 20, ArrivalIntervalMs: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Schedule(false, 1); err != nil {
			t.Fatal(err)
		}
		heard, atAsked := 0, []int(nil)
		factory := cfg.Router
		cfg.Workload, cfg.KVEventLagMs = w, c.lagMs
		cfg.Router = func(workers int) router.Router { return lateRouter{factory(workers), &heard, &atAsked} }
		if _, err := Run(cfg); err != nil {
			t.Fatal(err)
		}
		if len(atAsked) != 2 || atAsked[0] != 0 || (atAsked[1] >= 200/cfg.Args.BlockSize) != c.hears {
			t.Errorf("lag %v ms: the router had heard of %v blocks", c.lagMs, atAsked)
		}
	}
}

func TestPollEndsARun(t *testing.T) {
	cfg := config(t, true)
	cfg.Args.SpeedupRatio = 0.001
	enough := errors.New("enough")
	cfg.Poll = func(float64, int) error { return enough }
	if _, err := Run(cfg); !errors.Is(err, enough) {
		t.Errorf("got %v, want %v", err, enough)
	}
}
