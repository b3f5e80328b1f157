package replay

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/report"
)

// explainedRun is a random run of any kind: with one pool or two, a planner or none.
type explainedRun struct {
	seed     uint64
	stepwise bool
	plain    bool // latencies are not divided
}

func (e explainedRun) config(t *testing.T) Config {
	t.Helper()
	var cfg Config
	d := drawnRun{seed: e.seed, stepwise: e.stepwise, own: []string{"", "vllm", "sglang", ""}[e.seed%4],
		log: &strings.Builder{}}
	switch {
	case e.seed%4 == 3 && e.seed%8 != 3:
		switch e.seed % 32 {
		case 7:
			d.own = "vllm"
			cfg = d.disaggregated(t)
		case 23:
			cfg = d.pushed(t)
		default:
			cfg = d.disaggregated(t)
		}
	case e.seed%8 == 3:
		p := planned{seed: e.seed / 8, stepwise: e.stepwise}
		cfg = p.config(t)
		cfg.Planner = &scripted{rng: rand.New(rand.NewPCG(e.seed, 12)), pools: 1, rest: 1 + int(e.seed/8%30)}
		if cfg.Disagg != nil {
			cfg.Planner.(*scripted).pools = 2
		}
	default:
		cfg = d.config(t)
	}
	cfg.Attribution = !e.plain
	cfg.SLA = report.NoSLA()
	return cfg
}

// TestAttribution: in 2,000 random runs, with all engines, one pool and two, with planners and speculative decoding,
// parts of latencies are never negative and add up to them, do not depend on shortcuts, and change nothing else in a
// report.
func TestAttribution(t *testing.T) {
	seeds := uint64(2000)
	if testing.Short() {
		seeds = 400
	}
	seen := map[string]int{}
	for seed := range seeds {
		if checkExplained(t, seed, seen); t.Failed() {
			return
		}
	}
	for _, name := range report.PartNames() {
		if seen["e2e_"+name+"_ms"] == 0 {
			t.Errorf("no run has any %s", name)
		}
	}
}

// FuzzAttribution does the same with random runs that no test has seen.
func FuzzAttribution(f *testing.F) {
	f.Fuzz(func(t *testing.T, seed uint64) { checkExplained(t, seed, map[string]int{}) })
}

// checkExplained checks a random run, and counts the requests with each part.
func checkExplained(t *testing.T, seed uint64, seen map[string]int) {
	t.Helper()
	cfg := explainedRun{seed: seed}.config(t)
	outcome, err := Run(cfg)
	plainCfg := explainedRun{seed: seed, plain: true}.config(t)
	plain, plainErr := Run(plainCfg)
	if fmt.Sprint(err) != fmt.Sprint(plainErr) {
		t.Fatalf("seed %d: %v, without attribution %v", seed, err, plainErr)
	}
	if err != nil {
		var end *engine.DeadEnd
		if !errors.As(err, &end) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		return
	}
	if off := outcome.Collector.Undivided(); !(off < 1e-9) {
		t.Fatalf("seed %d: parts are off by %g", seed, off)
	}
	if a, b := shared(text(t, cfg, outcome)), text(t, plainCfg, plain); a != b {
		t.Fatalf("seed %d: %s", seed, firstDifference(a, b))
	}
	rows := outcome.Collector.Rows(cfg.Workload)
	checkParts(t, seed, rows, seen, report.PartNames())
	if cfg.Disagg == nil {
		checkWaits(t, seed, rows)
	}
	compareStepwise(t, seed, rows)
}

// shared returns the text of a run without the columns that only attribution adds.
func shared(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if before, _, found := strings.Cut(line, `,"ttft_router_wait_ms":`); found {
			line = before + "}\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

func checkParts(t *testing.T, seed uint64, rows *report.Rows, seen map[string]int, parts []string) {
	t.Helper()
	for prefix, latency := range map[string]string{"ttft_": "ttft_ms", "e2e_": "e2e_latency_ms"} {
		whole, _ := rows.Floats(latency)
		sums := make([]float64, len(whole))
		for _, name := range parts {
			values, ok := rows.Floats(prefix + name + "_ms")
			if !ok {
				t.Fatalf("no column %s%s_ms", prefix, name)
			}
			for i, ms := range values {
				if ms < 0 || math.IsNaN(ms) != math.IsNaN(whole[i]) {
					t.Errorf("seed %d, row %d: %s%s_ms is %v of %v", seed, i, prefix, name, ms, whole[i])
				}
				if ms > 0 {
					seen[prefix+name+"_ms"]++
				}
				sums[i] += ms
			}
		}
		for i := range whole {
			if math.Abs(whole[i]-sums[i]) > 1e-9 {
				t.Errorf("seed %d, row %d: parts of %s add up to %v, want %v", seed, i, latency, sums[i], whole[i])
			}
		}
	}
}

// checkWaits compares the waits with when requests were admitted. A pass that was composed while another one ran starts
// later than that, and preempted requests are admitted again.
func checkWaits(t *testing.T, seed uint64, rows *report.Rows) {
	t.Helper()
	column := func(name string) []float64 {
		values, ok := rows.Floats(name)
		if !ok {
			t.Fatalf("no column %s", name)
		}
		return values
	}
	arrived, admitted, ttft := column("arrival_time_ms"), column("first_admit_ms"), column("ttft_ms")
	router, worker, host := column("ttft_router_wait_ms"), column("ttft_worker_wait_ms"), column("ttft_host_ms")
	preempted := column("ttft_preempted_ms")
	for i := range ttft {
		if math.IsNaN(ttft[i]) {
			continue
		}
		waited, until := router[i]+worker[i]+host[i], admitted[i]-arrived[i]
		if waited < until-1e-6 {
			t.Errorf("seed %d, row %d: waited %v ms until its admission after %v", seed, i, waited, until)
		}
		// an engine that composes passes when they start
		if preempted[i] == 0 && seed%4 == 0 && router[i]+worker[i] > until+1e-6 {
			t.Errorf("seed %d, row %d: waited %v ms, admitted after %v", seed, i, router[i]+worker[i], until)
		}
	}
}

// compareStepwise compares the parts with those of the same run without shortcuts.
func compareStepwise(t *testing.T, seed uint64, rows *report.Rows) {
	t.Helper()
	slowCfg := explainedRun{seed: seed, stepwise: true}.config(t)
	outcome, err := Run(slowCfg)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	outcome.Collector.Summarise(report.Resources{}, report.NoSLA())
	compareRows(t, seed, rows, outcome.Collector.Rows(slowCfg.Workload))
}

// compareRows compares the numbers of rows with those without shortcuts.
func compareRows(t *testing.T, seed uint64, rows, slow *report.Rows) {
	t.Helper()
	floats, _, _ := rows.ColumnNames()
	for _, name := range floats {
		a, _ := rows.Floats(name)
		b, _ := slow.Floats(name)
		same := func(x, y float64) bool { return math.Abs(x-y) < 1e-6 || math.IsNaN(x) && math.IsNaN(y) }
		if !slices.EqualFunc(a, b, same) {
			for i := range a {
				if !same(a[i], b[i]) {
					t.Errorf("seed %d, row %d: %s is %v, stepwise %v", seed, i, name, a[i], b[i])
				}
			}
		}
	}
}
