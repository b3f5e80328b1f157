package replay

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/faults"
	"dynosim/gocore/journal"
)

// timelineOf runs a configuration and returns its timeline.
func timelineOf(t testing.TB, cfg Config) ([]byte, error) {
	t.Helper()
	cfg.Journal = journal.New(journal.Config{
		Requests: cfg.Workload.Len(), Timeline: true, Name: func(id engine.RequestID) string { return fmt.Sprint(id) },
		Good: func(ttftMs, e2eMs float64, _ int) bool { return ttftMs < 1000 && e2eMs < 5000 },
	})
	if _, err := Run(cfg); err != nil {
		return nil, err
	}
	cfg.Journal.Close()
	var out bytes.Buffer
	if err := cfg.Journal.WriteTimeline(&out, nil, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), nil
}

// TestFaultyTimelines: random runs with faults have the same timeline with and without shortcuts, and a script of which
// nothing happens leaves the one of a run without faults.
func TestFaultyTimelines(t *testing.T) {
	differ := 0
	for n := range *faultyRuns + 1 {
		seed := uint64(*faultyFrom + n)
		if n == *faultyRuns {
			seed = 625 // a decode worker displaces requests in a pass that makes no progress
		}
		fastCfg, slowCfg := faulty{seed: seed}.config(t), faulty{seed: seed, stepwise: true}.config(t)
		fast, err := timelineOf(t, fastCfg)
		slow, _ := timelineOf(t, slowCfg)
		if err == nil && !bytes.Equal(fast, slow) {
			differ++
			t.Logf("seed %d: timelines differ without shortcuts: %d and %d bytes", seed, len(fast), len(slow))
		}
		plain, armed := faulty{seed: seed}.config(t), faulty{seed: seed}.config(t)
		plain.Planner, plain.Faults = noPlanner{}, nil
		late := faults.Fault{Kind: faults.Crash, AtMs: 1e12, DurationMs: math.Inf(1)}
		armed.Planner, armed.Faults = noPlanner{},
			&FaultConfig{Script: []faults.Fault{late}, ClientTimeoutMs: 1e12, HedgeAfterMs: math.Inf(1)}
		a, errA := timelineOf(t, plain)
		b, errB := timelineOf(t, armed)
		if fmt.Sprint(errA) != fmt.Sprint(errB) || !bytes.Equal(a, b) {
			differ++
			t.Logf("seed %d: timelines differ without faults: %d and %d bytes", seed, len(a), len(b))
		}
	}
	if differ > 0 {
		t.Errorf("%d timelines differ", differ)
	}
}
