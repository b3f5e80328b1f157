package replay

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"dynosim/gocore/report"
)

var lateKinds = []struct {
	of   report.Latency
	name string
}{{report.TTFT, "ttft_ms"}, {report.ITL, "itl_ms"}, {report.TPOT, "tpot_ms"}, {report.E2E, "e2e_latency_ms"}}

// eachShape calls f for all engines, each with random traces on one worker and on several, with and without a bound on
// concurrent requests.
func eachShape(f func(engineArgs, rows string, workers, concurrency int)) {
	for _, engineArgs := range engines {
		for seed := range uint64(3) {
			for _, workers := range []int{1, 3} {
				for _, concurrency := range []int{0, 2} {
					f(engineArgs, randomTrace(seed), workers, concurrency)
				}
			}
		}
	}
}

// lateRun runs a trace with limits. A run without rows gives the same.
func lateRun(
	t *testing.T, engineArgs, rows string, workers, concurrency int, limits []report.LateLimit,
) (Config, Outcome) {
	t.Helper()
	cfg := config(t, engineArgs, rows, workers, concurrency)
	cfg.Late, cfg.SLA = limits, report.NoSLA()
	without := config(t, engineArgs, rows, workers, concurrency)
	without.Late, without.SLA, without.NoRows = limits, report.NoSLA(), true
	outcome := mustRun(t, cfg)
	if got := mustRun(t, without).Collector.Late(); fmt.Sprint(got) != fmt.Sprint(outcome.Collector.Late()) {
		t.Fatalf("without rows: got %v, want %v", got, outcome.Collector.Late())
	}
	return cfg, outcome
}

// summaryOf returns the numbers of a report by their keys.
func summaryOf(outcome Outcome) map[string]float64 {
	found := map[string]float64{}
	for _, v := range outcome.Collector.Summarise(report.Resources{DecodeWorkerSeconds: 1}, report.NoSLA()) {
		found[v.Key] = v.Float
		if v.IsInt {
			found[v.Key] = float64(v.Int)
		}
	}
	return found
}

// TestLateIsWhatStatisticsSay: what is over a percentile of a whole run is the part of the values that the percentile
// leaves, and limits that are never reached change nothing.
func TestLateIsWhatStatisticsSay(t *testing.T) {
	eachShape(func(engineArgs, rows string, workers, concurrency int) {
		plain := config(t, engineArgs, rows, workers, concurrency)
		whole := summaryOf(mustRun(t, plain))
		checkLate(t, engineArgs, rows, workers, concurrency, whole)
	})
}

func checkLate(t *testing.T, engineArgs, rows string, workers, concurrency int, whole map[string]float64) {
	t.Helper()
	plain := config(t, engineArgs, rows, workers, concurrency)
	all := text(t, plain, mustRun(t, plain))
	for _, kind := range lateKinds {
		count := whole["count_"+kind.name]
		for percentile, share := range map[string]float64{"min": 0, "median": 0.5, "p90": 0.9, "max": 1} {
			limit := whole[percentile+"_"+kind.name]
			limits := []report.LateLimit{{Of: kind.of, LimitMs: limit, Most: math.MaxInt64}}
			_, first := lateRun(t, engineArgs, rows, workers, concurrency, limits)
			late := float64(first.Collector.Late()[0])
			if late > math.Ceil((1-share)*count)+1 || percentile == "max" && late > 0 {
				t.Fatalf("%s: %g of %g %s are over %s, %g", engineArgs, late, count, kind.name, percentile, limit)
			}
			limits[0].LimitMs = math.Nextafter(limit, -1)
			cfg, outcome := lateRun(t, engineArgs, rows, workers, concurrency, limits)
			if late := float64(outcome.Collector.Late()[0]); late < math.Floor((1-share)*count)-1 ||
				percentile == "min" && late != count {
				t.Fatalf("%s: %g of %g %s are not below %s, %g", engineArgs, late, count, kind.name, percentile, limit)
			}
			if text(t, cfg, outcome) != all {
				t.Fatalf("%s: a limit that is never reached changes the run", engineArgs)
			}
		}
	}
}

// TestRunsEndWhenTooMuchIsLate: what was over by then is as in the whole run.
func TestRunsEndWhenTooMuchIsLate(t *testing.T) {
	stopped := 0
	eachShape(func(engineArgs, rows string, workers, concurrency int) {
		plain := config(t, engineArgs, rows, workers, concurrency)
		outcome := mustRun(t, plain)
		whole := completedRows(t, plain, outcome)
		for i, kind := range lateKinds {
			limits := []report.LateLimit{{Of: kind.of, LimitMs: 10, Most: int64(i)}}
			cfg, ended := lateRun(t, engineArgs, rows, workers, concurrency, limits)
			found := completedRows(t, cfg, ended)
			for request, row := range found {
				if whole[request] != row {
					t.Fatalf("%s: got %s, want %s", engineArgs, row, whole[request])
				}
			}
			if ended.Collector.TooLate() != (ended.Collector.Late()[0] > limits[0].Most) {
				t.Fatalf("%s: %d late, and %v", engineArgs, ended.Collector.Late()[0],
					ended.Collector.TooLate())
			}
			if !ended.Collector.TooLate() && len(found) != len(whole) {
				t.Fatalf("%s: the run ended early", engineArgs)
			}
			if len(found) < len(whole) {
				stopped++
			}
		}
	})
	if stopped < 40 {
		t.Fatalf("only %d runs ended early", stopped)
	}
}

// completedRows returns the rows of the requests that have completed.
func completedRows(t *testing.T, cfg Config, outcome Outcome) map[string]string {
	t.Helper()
	var b strings.Builder
	if err := outcome.Collector.Rows(cfg.Workload).WriteJSONL(&b); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for line := range strings.Lines(b.String()) {
		var row struct {
			UUID   string `json:"uuid"`
			Status string `json:"terminal_status"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		if row.Status == "completed" {
			found[row.UUID] = line
		}
	}
	return found
}
