package replay

import (
	"io"
	"strconv"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/journal"
)

// BenchmarkJournal runs long conversations without a journal, with a timeline, and with a series.
func BenchmarkJournal(b *testing.B) {
	cfg := config(b, `{"block_size":64}`, conversations(5000), 4, 0)
	kept := journal.Config{
		Requests: cfg.Workload.Len(), Blocks: [3]int{cfg.Args.NumGPUBlocks},
		Name: func(id engine.RequestID) string { return strconv.Itoa(int(id)) },
	}
	for _, kind := range []string{"none", "timeline", "series"} {
		b.Run(kind, func(b *testing.B) {
			for b.Loop() {
				run := cfg
				wanted := kept
				wanted.Timeline, wanted.Series, wanted.StepMs = kind == "timeline", kind == "series", 1000
				if kind != "none" {
					run.Journal = journal.New(wanted)
				}
				mustRun(b, run)
				run.Journal.Close()
				if kind == "timeline" {
					if err := run.Journal.WriteTimeline(io.Discard, nil, nil); err != nil {
						b.Fatal(err)
					}
				}
				run.Journal.Table()
			}
		})
	}
}
