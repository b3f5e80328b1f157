package replay

import (
	"fmt"
	"slices"
	"testing"

	"dynosim/gocore/report"
)

// TestFaultyAttribution: in random runs with faults parts of latencies are never negative and add up to them, do not
// depend on shortcuts, and change nothing else.
func TestFaultyAttribution(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(3 * *faultyRuns) {
		if checkFaultyParts(t, seed, seen); t.Failed() {
			return
		}
	}
	for _, name := range append(report.PartNames(), "lost") {
		if seen["e2e_"+name+"_ms"] == 0 {
			t.Errorf("no run has any %s", name)
		}
	}
}

func checkFaultyParts(t *testing.T, seed uint64, seen map[string]int) {
	t.Helper()
	plain := faulty{seed: seed}.config(t)
	before, err := Run(plain)
	cfg := faulty{seed: seed}.config(t)
	cfg.Attribution = true
	outcome, errDivided := Run(cfg)
	if fmt.Sprint(err) != fmt.Sprint(errDivided) {
		t.Fatalf("seed %d: %v, without attribution %v", seed, errDivided, err)
	}
	if err != nil {
		return
	}
	if off := outcome.Collector.Undivided(); !(off < 1e-9) {
		t.Fatalf("seed %d: parts are off by %g", seed, off)
	}
	outcome.Collector.Summarise(report.Resources{}, report.NoSLA())
	before.Collector.Summarise(report.Resources{}, report.NoSLA())
	rows, others := outcome.Collector.Rows(cfg.Workload), before.Collector.Rows(plain.Workload)
	floats, _, _ := others.ColumnNames()
	for _, name := range floats {
		a, _ := rows.Floats(name)
		b, _ := others.Floats(name)
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("seed %d: %s is %v, without attribution %v", seed, name, a, b)
		}
	}
	checkParts(t, seed, rows, seen, append(slices.Clone(report.PartNames()), "lost"))
	slowCfg := faulty{seed: seed, stepwise: true}.config(t)
	slowCfg.Attribution = true
	slow, err := Run(slowCfg)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	slow.Collector.Summarise(report.Resources{}, report.NoSLA())
	compareRows(t, seed, rows, slow.Collector.Rows(slowCfg.Workload))
}
