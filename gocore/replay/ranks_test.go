package replay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/router"
)

// TestRanksAreTargets runs requests one after the other on two workers of three ranks whose router chooses ranks, and
// on six workers of one. While one rank works the others take no time, so decisions, cached blocks and times are the
// same to the last bit: the router knows what each rank has cached and has to do.
func TestRanksAreTargets(t *testing.T) {
	const workers, ranks = 2, 3
	engines := map[string]string{
		"vllm": `{"scheduler":"vllm","async_scheduling":false,"block_size":4,"num_gpu_blocks":70}`,
		"sglang": `{"engine_type":"sglang","scheduler":"sglang","block_size":4,"num_gpu_blocks":70,` +
			`"sglang":{"overlap_schedule":false,"schedule_conservativeness":0.3,"chunked_prefill_size":32}}`,
	}
	for name, text := range engines {
		for _, mode := range []string{router.KVMode, router.RoundRobinMode} {
			t.Run(name+" "+mode, func(t *testing.T) {
				one := enginetest.Args(t, text)
				several := one
				several.Ranks, several.RouterRanks = ranks, true
				several.SGLang.ChunkedPrefillSize *= ranks // the ranks share it
				several.SGLang.Conservativeness /= 0.3     // as SGLang multiplies that of ranks
				want := routedRun(t, mode, text, one, workers*ranks)
				if got := routedRun(t, mode, text, several, workers); !slices.Equal(got, want) {
					for i := range got {
						if got[i] != want[i] {
							t.Fatalf("got  %s\nwant %s", got[i], want[i])
						}
					}
				}
			})
		}
	}
}

// routedRun replays requests one after the other, and returns a line for each decision and for each request, in which
// targets are numbered through.
func routedRun(t *testing.T, mode, text string, args engineargs.Args, workers int) (lines []string) {
	t.Helper()
	d := drawnRun{seed: 5}
	cfg := config(t, text, d.rows(rand.New(rand.NewPCG(5, 1)), args.BlockSize), workers, 1)
	cfg.Args = args
	ranks := args.Targets()
	if mode == router.KVMode {
		cfg.Router = kvMode.Factory(&router.Options{
			Config: router.DefaultConfig(), BlockSize: args.BlockSize, MaxNumBatchedTokens: args.MaxNumBatchedTokens,
			Rand: rand.New(rand.NewPCG(1, 1)), Ranks: ranks,
			Log: func(d router.Decision) {
				d.Chosen, d.ChosenRank = d.Chosen*ranks+d.ChosenRank, 0
				for i := range d.Candidates {
					c := &d.Candidates[i]
					c.Worker, c.Rank = c.Worker*ranks+c.Rank, 0
				}
				lines = append(lines, fmt.Sprintf("%+v", d))
			},
		})
	}
	outcome, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rows := outcome.Collector.Rows(cfg.Workload)
	worker, _ := rows.Ints("decode_worker_idx")
	rank, ranked := rows.Ints("dp_rank")
	reused, _ := rows.Ints("reused_input_tokens")
	first, _ := rows.Floats("first_token_ms")
	last, _ := rows.Floats("last_token_ms")
	hits := int64(0)
	for i, target := range worker {
		if ranked {
			target = target*int64(ranks) + rank[i]
		}
		hits += reused[i]
		lines = append(lines, fmt.Sprint("target ", target, ", ", reused[i], " found, ", first[i], " to ", last[i]))
	}
	if hits == 0 {
		t.Error("nothing was found in any cache")
	}
	return lines
}
