package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"dynosim/gocore/handoff"
	"dynosim/gocore/workload"
)

// benchmarkRun replays a workload again and again; each run builds its own engines.
func benchmarkRun(b *testing.B, cfg Config) {
	b.Helper()
	tokens := 0
	for i := range cfg.Workload.Turns {
		tokens += cfg.Workload.Turns[i].OutputTokens
	}
	b.ReportAllocs()
	for b.Loop() {
		mustRun(b, cfg)
	}
	b.ReportMetric(float64(b.N)*float64(len(cfg.Workload.Turns))/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(b.N)*float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkReplay is the whole simulation without parsing and without the report.
func BenchmarkReplay(b *testing.B) {
	b.Run("synthetic", func(b *testing.B) {
		w, err := workload.Synthetic(workload.SyntheticSpec{
			InputTokens: 5000, OutputTokens: 500, RequestCount: 1000, TurnsPerSession: 1, EngineBlockSize: 512,
		})
		if err != nil {
			b.Fatal(err)
		}
		benchmarkRun(b, Config{
			Args: parseArgs(b, `{"block_size":512}`), Workers: 1, Workload: w, Concurrency: 100, MaxSimTimeMs: math.Inf(1),
		})
	})
	for _, workers := range []int{1, 4} {
		b.Run(fmt.Sprintf("conversations_%dw", workers), func(b *testing.B) {
			w, err := workload.LoadMooncake(strings.NewReader(conversations(5000)), "t", workload.TraceSpec{TraceBlockSize: 512, EngineBlockSize: 64})
			if err != nil {
				b.Fatal(err)
			}
			benchmarkRun(b, Config{Args: parseArgs(b, "{}"), Workers: workers, Workload: w, MaxSimTimeMs: math.Inf(1)})
		})
	}
	b.Run("conversations_2p2d", func(b *testing.B) {
		w, err := workload.LoadMooncake(strings.NewReader(conversations(5000)), "t", workload.TraceSpec{TraceBlockSize: 512, EngineBlockSize: 64})
		if err != nil {
			b.Fatal(err)
		}
		args := parseArgs(b, "{}")
		benchmarkRun(b, Config{Workload: w, MaxSimTimeMs: math.Inf(1), Disagg: &DisaggConfig{
			Prefill: args, Decode: args, PrefillWorkers: 2, DecodeWorkers: 2,
			Transfer: handoff.Transfer{BytesPerToken: 131072, BandwidthGBs: 64},
		}})
	})
	for _, requests := range []int{1_000, 10_000, 100_000} { // the cost of a request must not grow
		b.Run(fmt.Sprintf("scaling_%d", requests), func(b *testing.B) {
			w, err := workload.Synthetic(workload.SyntheticSpec{
				InputTokens: 1000, OutputTokens: 100, RequestCount: requests, ArrivalIntervalMs: 100, TurnsPerSession: 1, EngineBlockSize: 64,
			})
			if err != nil {
				b.Fatal(err)
			}
			benchmarkRun(b, Config{Args: parseArgs(b, "{}"), Workers: 2, Workload: w, MaxSimTimeMs: math.Inf(1)})
		})
	}
}

// conversations is a trace of growing prompts that are mostly in the cache.
func conversations(rows int) string {
	rng := rand.New(rand.NewPCG(1, 0))
	var b strings.Builder
	talks := make([][]string, 200)
	fresh := 0
	for i := range rows {
		ids := &talks[rng.IntN(len(talks))]
		if len(*ids) > 60 {
			*ids = nil
		}
		for range 1 + rng.IntN(12) {
			*ids = append(*ids, fmt.Sprint(fresh))
			fresh++
		}
		fmt.Fprintf(&b, `{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":[%s]}`+"\n",
			i*300, 512*len(*ids)-rng.IntN(512), 1+rng.IntN(700), strings.Join(*ids, ","))
	}
	return b.String()
}
