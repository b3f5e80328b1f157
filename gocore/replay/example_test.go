package replay_test

import (
	"encoding/json"
	"fmt"
	"math"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/replay"
	"dynosim/gocore/report"
	"dynosim/gocore/router"
	"dynosim/gocore/workload"
)

// A whole run: engine arguments, a workload, a router, and the report of what came of it. Eight requests of 2,000 + 100
// tokens arrive one every 50 ms and go to two workers in turn. docs/report.md explains every key.
func Example() {
	args, _, err := engineargs.Parse(`{"block_size": 64, "num_gpu_blocks": 1024}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	requests, err := workload.Synthetic(workload.SyntheticSpec{
		InputTokens: 2000, OutputTokens: 100, RequestCount: 8, TurnsPerSession: 1, ArrivalIntervalMs: 50,
		EngineBlockSize: args.BlockSize,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := requests.Schedule(false, 1); err != nil {
		fmt.Println(err)
		return
	}
	outcome, err := replay.Run(replay.Config{
		Args:         args,
		Workers:      2,
		Router:       func(workers int) router.Router { return router.NewRoundRobin(workers) },
		Workload:     requests,
		MaxSimTimeMs: math.Inf(1), // no limit
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	used := report.Resources{DecodeWorkerSeconds: outcome.WorkerSeconds, DecodeGPUsPerWorker: 1, WallMs: 1}
	var values map[string]any
	if err := json.Unmarshal(report.AppendJSON(nil, outcome.Collector.Summarise(used, report.NoSLA())),
		&values); err != nil {
		fmt.Println(err)
		return
	}
	for _, key := range []string{
		"completed_requests", "total_output_tokens", "duration_ms", "output_throughput_tok_s",
		"mean_ttft_ms", "p99_ttft_ms", "mean_itl_ms", "mean_e2e_latency_ms",
	} {
		fmt.Printf("%s: %.6g\n", key, values[key])
	}
	// Output:
	// completed_requests: 8
	// total_output_tokens: 800
	// duration_ms: 1569.01
	// output_throughput_tok_s: 509.877
	// mean_ttft_ms: 60.2825
	// p99_ttft_ms: 65.0935
	// mean_itl_ms: 12.4714
	// mean_e2e_latency_ms: 1294.95
}
