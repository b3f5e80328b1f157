package replay

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/journal"
)

// journalOf runs a configuration with a journal and returns what was written: the timeline, and the series as text.
func journalOf(t testing.TB, cfg Config, stepMs float64) (timeline []byte, series string, err error) {
	t.Helper()
	blocks := [3]int{cfg.Args.NumGPUBlocks}
	if cfg.Disagg != nil {
		blocks = [3]int{0, cfg.Disagg.Prefill.NumGPUBlocks, cfg.Disagg.Decode.NumGPUBlocks}
	}
	cfg.Journal = journal.New(journal.Config{
		Requests: cfg.Workload.Len(), Timeline: true, Series: true, StepMs: stepMs, Blocks: blocks,
		Name: func(id engine.RequestID) string { return fmt.Sprint(id) },
	})
	if _, err := Run(cfg); err != nil {
		return nil, "", err
	}
	cfg.Journal.Close()
	var out bytes.Buffer
	if err := cfg.Journal.WriteTimeline(&out, nil, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), tableText(t, cfg.Journal.Table()), nil
}

func tableText(t testing.TB, table *journal.Table) string {
	t.Helper()
	var b strings.Builder
	for _, name := range journal.FloatColumns(table.Kind) {
		column, ok := table.Floats(name)
		if !ok || len(column) != table.Rows {
			t.Fatalf("column %s: %d of %d rows", name, len(column), table.Rows)
		}
		fmt.Fprintln(&b, name, column)
	}
	for _, name := range journal.IntColumns() {
		column, _ := table.Ints(name)
		fmt.Fprintln(&b, name, column)
	}
	return b.String()
}

// TestJournalStepwise: the timeline and the series are the same with and without the shortcuts of engines and loops.
func TestJournalStepwise(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 60
	}
	compared := 0
	for seed := range seeds {
		for _, own := range []string{"", "vllm", "sglang", "disaggregated", "vLLM's hand-offs", "SGLang's hand-offs"} {
			run := func(stepwise bool) (Config, []byte, string, error) {
				d := drawnRun{seed: seed, own: own, stepwise: stepwise, log: &strings.Builder{}}
				var cfg Config
				switch own {
				case "disaggregated":
					d.own = ""
					cfg = d.disaggregated(t)
				case "vLLM's hand-offs":
					d.own = "vllm"
					cfg = d.disaggregated(t)
				case "SGLang's hand-offs":
					cfg = d.pushed(t)
				default:
					cfg = d.config(t)
				}
				timeline, series, err := journalOf(t, cfg, float64([]int{0, 7, 100}[seed%3]))
				return cfg, timeline, series, err
			}
			_, fast, fastSeries, errFast := run(false)
			_, slow, slowSeries, errSlow := run(true)
			if fmt.Sprint(errFast) != fmt.Sprint(errSlow) {
				t.Fatalf("seed %d, %q: %v, stepwise %v", seed, own, errFast, errSlow)
			}
			if fastSeries != slowSeries {
				t.Fatalf("seed %d, %q: %s", seed, own, firstDifference(fastSeries, slowSeries))
			}
			if !bytes.Equal(fast, slow) {
				t.Fatalf("seed %d, %q: the timelines differ: %d bytes, stepwise %d", seed, own, len(fast), len(slow))
			}
			if errFast == nil {
				compared++
			}
		}
	}
	if compared < int(seeds) {
		t.Errorf("only %d runs had a journal", compared)
	}
}
