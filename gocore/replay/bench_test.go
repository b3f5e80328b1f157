package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/handoff"
	"dynosim/gocore/router"
	"dynosim/gocore/speculation"
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

// BenchmarkReplay measures the whole simulation without parsing and without the report.
func BenchmarkReplay(b *testing.B) {
	b.Run("synthetic", func(b *testing.B) {
		w, err := workload.Synthetic(workload.SyntheticSpec{
			InputTokens: 5000, OutputTokens: 500, RequestCount: 1000, TurnsPerSession: 1, EngineBlockSize: 512,
		})
		if err != nil {
			b.Fatal(err)
		}
		benchmarkRun(b, Config{
			Args: enginetest.Args(b, `{"block_size":512}`), Workers: 1, Workload: w, Concurrency: 100,
			MaxSimTimeMs: math.Inf(1),
		})
	})
	for _, workers := range []int{1, 4} {
		b.Run(fmt.Sprintf("conversations_%dw", workers), func(b *testing.B) {
			w, err := workload.LoadMooncake(strings.NewReader(conversations(5000)), "t",
				workload.TraceSpec{TraceBlockSize: 512, EngineBlockSize: 64})
			if err != nil {
				b.Fatal(err)
			}
			benchmarkRun(b, Config{Args: enginetest.Args(b, "{}"), Workers: workers, Workload: w, MaxSimTimeMs: math.Inf(1)})
		})
	}
	b.Run("conversations_2p2d", func(b *testing.B) {
		w, err := workload.LoadMooncake(strings.NewReader(conversations(5000)), "t",
			workload.TraceSpec{TraceBlockSize: 512, EngineBlockSize: 64})
		if err != nil {
			b.Fatal(err)
		}
		args := enginetest.Args(b, "{}")
		benchmarkRun(b, Config{Workload: w, MaxSimTimeMs: math.Inf(1), Disagg: &DisaggConfig{
			Prefill: args, Decode: args, PrefillWorkers: 2, DecodeWorkers: 2,
			Transfer: handoff.Transfer{BytesPerToken: 131072, BandwidthGBs: 64},
		}})
	})
	// hand-offs by vLLM's own rules; workers that have nothing to do cost nothing
	for _, workers := range []int{2, 128} {
		b.Run(fmt.Sprintf("conversations_2p%dd_vllm", workers), func(b *testing.B) {
			w, err := workload.LoadMooncake(strings.NewReader(conversations(5000)), "t",
				workload.TraceSpec{TraceBlockSize: 512, EngineBlockSize: 64})
			if err != nil {
				b.Fatal(err)
			}
			benchmarkRun(b, Config{Workload: w, MaxSimTimeMs: math.Inf(1), Disagg: &DisaggConfig{
				Prefill: enginetest.Args(b, `{"scheduler":"vllm","worker_type":"prefill"}`), PrefillWorkers: 2,
				Decode: enginetest.Args(b, `{"scheduler":"vllm","worker_type":"decode"}`), DecodeWorkers: workers,
				Transfer: handoff.Transfer{BytesPerToken: 131072, BandwidthGBs: 64},
			}})
		})
	}
	for _, requests := range []int{1_000, 10_000, 100_000} { // the cost of a request must not grow
		b.Run(fmt.Sprintf("scaling_%d", requests), func(b *testing.B) {
			w, err := workload.Synthetic(workload.SyntheticSpec{
				InputTokens: 1000, OutputTokens: 100, RequestCount: requests, ArrivalIntervalMs: 100,
				TurnsPerSession: 1, EngineBlockSize: 64,
			})
			if err != nil {
				b.Fatal(err)
			}
			benchmarkRun(b, Config{Args: enginetest.Args(b, "{}"), Workers: 2, Workload: w, MaxSimTimeMs: math.Inf(1)})
		})
	}
}

// BenchmarkCorners measures kinds of runs that have been much slower than others once: SGLang behind the router with a
// page for each token, speculative decoding, hand-offs between pools, requests that wait in the router, and many
// workers.
func BenchmarkCorners(b *testing.B) {
	kv := func(b *testing.B, cfg Config, config string) Config {
		parsed, _, err := router.ParseConfig(config)
		if err != nil {
			b.Fatal(err)
		}
		cfg.Router = kvMode.Factory(&router.Options{
			Config: parsed, BlockSize: cfg.Args.BlockSize, MaxNumBatchedTokens: cfg.Args.MaxNumBatchedTokens,
			Rand: rand.New(rand.NewPCG(1, 0)),
		})
		return cfg
	}
	synthetic := func(b *testing.B, args string, requests int, intervalMs float64, workers int) Config {
		parsed := enginetest.Args(b, args)
		w, err := workload.Synthetic(workload.SyntheticSpec{
			InputTokens: 2000, OutputTokens: 200, RequestCount: requests, ArrivalIntervalMs: intervalMs,
			TurnsPerSession: 1,
			EngineBlockSize: parsed.BlockSize,
		})
		if err != nil {
			b.Fatal(err)
		}
		return Config{Args: parsed, Workers: workers, Workload: w, MaxSimTimeMs: math.Inf(1)}
	}
	for _, pageSize := range []int{1, 64} {
		b.Run(fmt.Sprintf("sglang_kv_page_%d", pageSize), func(b *testing.B) {
			args := enginetest.Args(b, fmt.Sprintf(`{"engine_type":"sglang","block_size":%d,"num_gpu_blocks":%d}`, pageSize,
				1<<20/pageSize))
			spec := workload.TraceSpec{TraceBlockSize: 512, EngineBlockSize: pageSize}
			w, err := workload.LoadMooncake(strings.NewReader(conversations(1000)), "t", spec)
			if err != nil {
				b.Fatal(err)
			}
			benchmarkRun(b, kv(b, Config{Args: args, Workers: 4, Workload: w, MaxSimTimeMs: math.Inf(1)}, "{}"))
		})
	}
	for _, engineType := range []string{"sglang", "vllm"} {
		b.Run("speculation_"+engineType, func(b *testing.B) {
			cfg := synthetic(b, fmt.Sprintf(`{"engine_type":%q,"block_size":16}`, engineType), 2000, 40, 4)
			cfg.Setup = func(_ engine.Role, worker int) engine.Setup {
				return engine.Setup{Drafts: speculation.New([]float64{0.85, 0.6, 0.3}, uint64(worker))}
			}
			benchmarkRun(b, cfg)
		})
	}
	b.Run("conversations_2p4d", func(b *testing.B) {
		cfg := config(b, `{"block_size":64}`, conversations(5000), 1, 0)
		cfg.Disagg = &DisaggConfig{
			Prefill: cfg.Args, Decode: cfg.Args, PrefillWorkers: 2, DecodeWorkers: 4,
			Transfer: handoff.Transfer{BytesPerToken: 131072, BandwidthGBs: 64},
		}
		benchmarkRun(b, cfg)
	})
	for _, scheduler := range []string{"dynamo", "vllm"} { // the number of decode workers hardly matters
		for _, workers := range []int{4, 128} {
			b.Run(fmt.Sprintf("long_answers_16p%dd_%s", workers, scheduler), func(b *testing.B) {
				w, err := workload.Synthetic(workload.SyntheticSpec{
					InputTokens: 1000, OutputTokens: 2000, RequestCount: 5000, ArrivalIntervalMs: 1, TurnsPerSession: 1,
					EngineBlockSize: 64,
				})
				if err != nil {
					b.Fatal(err)
				}
				role := func(name string) string {
					return fmt.Sprintf(`{"scheduler":%q,"worker_type":%q,"block_size":64}`, scheduler, name)
				}
				benchmarkRun(b, Config{Workload: w, MaxSimTimeMs: math.Inf(1), Disagg: &DisaggConfig{
					Prefill: enginetest.Args(b, role("prefill")), PrefillWorkers: 16,
					Decode: enginetest.Args(b, role("decode")), DecodeWorkers: workers,
					Transfer: handoff.Transfer{BytesPerToken: 131072, BandwidthGBs: 64},
				}})
			})
		}
	}
	b.Run("router_queue", func(b *testing.B) {
		benchmarkRun(b, kv(b, synthetic(b, `{"block_size":64}`, 10_000, 0, 4), `{"router_queue_threshold":0.5}`))
	})
	for _, workers := range []int{4, 1024} { // the cost of a request should not grow much
		b.Run(fmt.Sprintf("kv_%dw", workers), func(b *testing.B) {
			benchmarkRun(b, kv(b, synthetic(b, `{"block_size":64}`, 40*workers, 100/float64(workers), workers), "{}"))
		})
	}
}

// conversations returns a trace of growing prompts that are mostly in the cache.
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
