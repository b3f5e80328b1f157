package replay

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"

	"dynosim/gocore/faults"
	"dynosim/gocore/journal"
	"dynosim/gocore/report"
)

var seriesLevel = report.SLA{TTFTMs: 1000, ITLMs: math.NaN(), E2EMs: 5000}

// seriesOf runs a configuration and returns its series.
func seriesOf(t testing.TB, cfg Config, stepMs float64) (Outcome, *journal.Table, error) {
	t.Helper()
	cfg.Journal = journal.New(journal.Config{
		Requests: cfg.Workload.Len(), Series: true, StepMs: stepMs,
		Name: func(id engine.RequestID) string { return fmt.Sprint(id) },
		Good: seriesLevel.Met,
	})
	outcome, err := Run(cfg)
	if err != nil {
		return outcome, nil, err
	}
	cfg.Journal.Close()
	return outcome, cfg.Journal.Table(), nil
}

// TestFaultySeries: the series of random runs with faults do not depend on shortcuts, and add up to what the report
// says.
func TestFaultySeries(t *testing.T) {
	seen := map[string]bool{}
	for n := range *faultyRuns {
		seed, stepMs := uint64(*faultyFrom+n), []float64{0, 0, 5000}[n%3]
		cfg := faulty{seed: seed}.config(t)
		fast, table, err := seriesOf(t, cfg, stepMs)
		_, slow, errSlow := seriesOf(t, faulty{seed: seed, stepwise: true}.config(t), stepMs)
		if err != nil || errSlow != nil {
			continue
		}
		if a, b := tableText(t, table), tableText(t, slow); a != b {
			t.Fatalf("seed %d: %s", seed, firstDifference(a, b))
		}
		// the report counts all tokens of requests that were cut; no time passes
		if !math.IsInf(cfg.MaxSimTimeMs, 1) || table.EndMs == 0 {
			continue
		}
		checkSums(t, seed, cfg, fast, table, seen)
	}
	for _, name := range []string{"completions", "goodput", "output_tokens", "failures", "migrations", "retries",
		"recomputed_tokens", "lost_tokens"} {
		if !seen[name] {
			t.Errorf("no run has any %s", name)
		}
	}
}

// clusterSum returns what a rate of the cluster adds up to.
func clusterSum(t *testing.T, table *journal.Table, name string) float64 {
	t.Helper()
	rates, ok := table.Floats(name + "_per_s")
	starts, _ := table.Floats("start_ms")
	pools, _ := table.Strings("pool")
	if !ok {
		t.Fatalf("no column %s_per_s", name)
	}
	sum := 0.0
	for i, rate := range rates {
		if pools[i] == "cluster" {
			sum += rate * min(table.StepMs, table.EndMs-starts[i]) / 1000
		}
	}
	return sum
}

// checkSums compares the series with the report.
func checkSums(t *testing.T, seed uint64, cfg Config, outcome Outcome, table *journal.Table, seen map[string]bool) {
	t.Helper()
	want := map[string]float64{"failures": float64(len(outcome.Collector.Lost()))}
	for _, trials := range outcome.Collector.AllTrials() {
		want["migrations"] += float64(trials.Migrations)
		want["retries"] += float64(trials.Retries)
		want["recomputed_tokens"] += float64(trials.RecomputedTokens)
		want["lost_tokens"] += float64(trials.LostTokens)
	}
	for _, v := range outcome.Collector.Summarise(report.Resources{}, seriesLevel) {
		switch v.Key {
		case "total_output_tokens":
			want["output_tokens"] = float64(v.Int)
		case "goodput_completed_requests":
			want["goodput"] = float64(v.Int)
		}
	}
	if cfg.Args.EngineType == engineargs.TRTLLM { // it ends requests early if its pool is too small for them
		delete(want, "output_tokens")
	}
	rows := outcome.Collector.Rows(cfg.Workload)
	status, _ := rows.Strings("terminal_status")
	for _, s := range status {
		if s == "completed" {
			want["completions"]++
		}
	}
	for name, total := range want {
		seen[name] = seen[name] || total > 0
		if got := clusterSum(t, table, name); math.Abs(got-total) > 1e-6*max(1, total) {
			t.Errorf("seed %d: %s add up to %v, the report has %v", seed, name, got, total)
		}
	}
}

// TestSeriesWithoutFaults: a script of which nothing happens leaves the series of a run without faults.
func TestSeriesWithoutFaults(t *testing.T) {
	for n := range *faultyRuns {
		seed, stepMs := uint64(*faultyFrom+n), []float64{0, 0, 5000}[n%3]
		plain, armed := faulty{seed: seed}.config(t), faulty{seed: seed}.config(t)
		plain.Planner, plain.Faults = noPlanner{}, nil
		late := faults.Fault{Kind: faults.Crash, AtMs: 1e12, DurationMs: math.Inf(1)}
		armed.Planner, armed.Faults = noPlanner{},
			&FaultConfig{Script: []faults.Fault{late}, ClientTimeoutMs: 1e12, HedgeAfterMs: math.Inf(1)}
		_, a, errA := seriesOf(t, plain, stepMs)
		_, b, errB := seriesOf(t, armed, stepMs)
		if errA != nil || errB != nil {
			continue
		}
		if without, with := usual(tableText(t, a)), usual(tableText(t, b)); without != with {
			t.Fatalf("seed %d: %s", seed, firstDifference(without, with))
		}
	}
}

// usual returns the lines of a table's text about columns that all runs have.
func usual(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, " ")
		// without faults a gap does not count before the only token of the last run of a request
		if strings.HasPrefix(name, "itl_") {
			continue
		}
		if slices.Contains(journal.FloatColumns(journal.Kind{}), name) || slices.Contains(journal.IntColumns(), name) {
			b.WriteString(line)
		}
	}
	return b.String()
}
