package online

import (
	"errors"
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engineargs"
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

func TestPollEndsARun(t *testing.T) {
	cfg := config(t, true)
	cfg.Args.SpeedupRatio = 0.001
	enough := errors.New("enough")
	cfg.Poll = func(float64, int) error { return enough }
	if _, err := Run(cfg); !errors.Is(err, enough) {
		t.Errorf("got %v, want %v", err, enough)
	}
}
