package replay

import (
	"math"
	"testing"

	"dynosim/gocore/report"
)

// TestRowsAgreeWithCounts ends runs early: every request that arrived has a row, and its state fits what is on record.
func TestRowsAgreeWithCounts(t *testing.T) {
	states := map[string]int{}
	for _, engineArgs := range append(engines, `{"block_size":4,"num_gpu_blocks":5}`) {
		for seed := range uint64(8) {
			for _, workers := range []int{1, 2} {
				cfg := config(t, engineArgs, randomTrace(seed), workers, int(seed%3))
				cfg.MaxSimTimeMs = mustRun(t, cfg).Collector.DurationMs() * float64(1+seed) / 9
				checkStates(t, states, cfg, mustRun(t, cfg))
			}
		}
	}
	for seed := range uint64(150) {
		cfg := disaggConfig(t, seed, randomTrace(seed))
		cfg.MaxSimTimeMs = runDisagg(t, cfg).collector.DurationMs() * float64(1+seed%8) / 9
		cfg = disaggConfig(t, seed, randomTrace(seed)).until(cfg.MaxSimTimeMs)
		checkStates(t, states, cfg, mustRun(t, cfg))
	}
	for _, state := range []string{"finished", "running", "waiting", "rejected"} {
		if states[state] < 20 {
			t.Errorf("only %d requests are %s: %v", states[state], state, states)
		}
	}
}

func (cfg Config) until(ms float64) Config {
	cfg.MaxSimTimeMs = ms
	return cfg
}

func checkStates(t *testing.T, seen map[string]int, cfg Config, outcome Outcome) {
	t.Helper()
	rows := outcome.Collector.Rows(cfg.Workload)
	states, _ := rows.Strings("state")
	ended, _ := rows.Strings("terminal_status")
	admitted, _ := rows.Floats("first_admit_ms")
	first, _ := rows.Floats("first_token_ms")
	counted, here := 0, map[string]int{}
	for i, state := range states {
		here[state]++
		seen[state]++
		if !math.IsNaN(first[i]) && state != "rejected" {
			counted++
		}
		over := map[string]string{"finished": "completed", "rejected": "rejected", "failed": "failed",
			"cancelled": "canceled"}[state]
		if ended[i] != over || state == "running" && math.IsNaN(admitted[i]) {
			t.Fatalf("row %d: state %s, terminal status %q, admitted at %v", i, state, ended[i], admitted[i])
		}
	}
	want := map[string]int{
		"num_requests": len(states), "completed_requests": counted, "finished_requests": here["finished"],
		"rejected_requests": here["rejected"] + here["failed"],
	}
	for _, v := range outcome.Collector.Summarise(report.Resources{}, report.NoSLA()) {
		if n, counts := want[v.Key]; counts && n != v.Int {
			t.Fatalf("%s: got %d, but %d rows", v.Key, v.Int, n)
		}
	}
}
