package replay

import (
	"fmt"
	"math"
	"testing"

	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/report"
	"dynosim/gocore/workload"
)

// BenchmarkAttribution runs replays with their reports, with latencies divided and without: long conversations, and
// requests so short that nothing else takes long.
func BenchmarkAttribution(b *testing.B) {
	run := func(name string, cfg Config) {
		for _, divided := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/divided=%v", name, divided), func(b *testing.B) {
				cfg.Attribution = divided
				for b.Loop() {
					outcome := mustRun(b, cfg)
					outcome.Collector.Summarise(report.Resources{}, report.NoSLA())
					outcome.Collector.Explain()
				}
			})
		}
	}
	run("conversations", config(b, `{"block_size":64}`, conversations(5000), 4, 0))
	w, err := workload.Synthetic(workload.SyntheticSpec{
		InputTokens: 2000, OutputTokens: 200, RequestCount: 50_000, TurnsPerSession: 1, EngineBlockSize: 64,
		ArrivalIntervalMs: 2.5,
	})
	if err != nil {
		b.Fatal(err)
	}
	args := enginetest.Args(b, `{"block_size":64}`)
	run("short", Config{Args: args, Workers: 64, Workload: w, MaxSimTimeMs: math.Inf(1)})
}
