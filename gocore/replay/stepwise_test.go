package replay

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/fleet"
	"dynosim/gocore/router"
	"dynosim/gocore/speculation"
	"dynosim/gocore/timing"
	"dynosim/gocore/worker"
)

// drawnRun is a random run, that of its seed. Each call of config prepares it anew.
type drawnRun struct {
	seed     uint64
	stepwise bool
	own      string           // the engine by whose own scheduler, if any
	log      *strings.Builder // of routing decisions
}

// config draws everything that may matter to a worker that runs ahead: how often blocks are opened, whether they run
// short, whether requests arrive in the midst of a pass or exactly at its end, and what routers learn.
func (d drawnRun) config(t testing.TB) Config {
	t.Helper()
	rng := rand.New(rand.NewPCG(d.seed, 2))
	args := d.engineArgs(rng)
	kind := rand.New(rand.NewPCG(d.seed, 5))
	drafts := func(int) *speculation.Drafts { return nil }
	switch d.own {
	case "vllm":
		args = ownEngineArgs(rng)
	case "sglang":
		args = ownSGLangArgs(rng)
	default:
		if kind.IntN(4) == 0 {
			args = d.sglangArgs(kind)
		}
		drafts = d.drafts(kind)
	}
	workers := 1 + rng.IntN(5)
	args = withKnobs(rand.New(rand.NewPCG(d.seed, 7)), args, d.own == "sglang")
	cfg := config(t, args, d.rows(rng, enginetest.Args(t, args).BlockSize), workers, []int{0, 0, 0, 1, 4}[rng.IntN(5)])
	if rng.IntN(5) == 0 {
		cfg.MaxSimTimeMs = float64(10 * rng.IntN(200))
	}
	if ranks := rand.New(rand.NewPCG(d.seed, 11)); d.own == "vllm" && ranks.IntN(3) == 0 {
		cfg.Args.Ranks, cfg.Args.RouterRanks = 1+ranks.IntN(3), ranks.IntN(3) > 0
	}
	if workers > 1 && rng.IntN(2) == 0 {
		cfg.Router = d.router(t, rng, cfg.Args)
	}
	if late := rand.New(rand.NewPCG(d.seed, 9)); late.IntN(3) == 0 {
		cfg.KVEventLagMs = []float64{0.5, 7, 60}[late.IntN(3)]
	}
	model := d.model(t, rng)
	cfg.Setup = func(_ engine.Role, worker int) engine.Setup {
		return engine.Setup{Model: model, Stepwise: d.stepwise, Drafts: drafts(worker)}
	}
	return cfg
}

// withKnobs adds overheads and factors to engine arguments, every other time.
func withKnobs(rng *rand.Rand, args string, receives bool) string {
	if rng.IntN(2) == 0 {
		return args
	}
	if receives && rng.IntN(2) == 0 {
		args = strings.Replace(args, `"sglang":{`,
			fmt.Sprintf(`"sglang":{"scheduler_recv_interval":%d,`, 2+rng.IntN(20)), 1)
		args = strings.Replace(args, ",}", "}", 1)
	}
	add := func(oneIn int, text string) {
		if rng.IntN(oneIn) == 0 {
			args = strings.TrimSuffix(args, "}") + "," + text + "}"
		}
	}
	add(2, fmt.Sprintf(`"request_overhead_us":%d`, []int{1, 3000, 10000, 50000}[rng.IntN(4)]))
	add(2, fmt.Sprintf(`"step_overhead_us":%d`, []int{5000, 777}[rng.IntN(2)]))
	add(2, fmt.Sprintf(`"seq_overhead_us":%d`, []int{5000, 13}[rng.IntN(2)]))
	add(3, `"prefill_scale":1.7`)
	add(3, `"decode_scale":0.3`)
	return args
}

// drafts makes the draws of each worker, every third time.
func (d drawnRun) drafts(rng *rand.Rand) func(worker int) *speculation.Drafts {
	if rng.IntN(3) > 0 {
		return func(int) *speculation.Drafts { return nil }
	}
	rates := [][]float64{{0.85, 0.3}, {0.5}, {1, 1}, {0.9, 0.8, 0.7, 0.6, 0.5}}[rng.IntN(4)]
	return func(worker int) *speculation.Drafts { return speculation.New(rates, d.seed+uint64(worker)) }
}

func (d drawnRun) sglangArgs(rng *rand.Rand) string {
	return fmt.Sprintf(
		`{"engine_type":"sglang","block_size":%d,"num_gpu_blocks":%d,"max_num_seqs":%d,"sglang":{"schedule_policy":%q,`+
			`"chunked_prefill_size":%d}}`,
		[]int{1, 2, 4}[rng.IntN(3)], 30+rng.IntN(200), []int{2, 5, 256}[rng.IntN(3)],
		[]string{"fcfs", "lpm"}[rng.IntN(2)], []int{8, 64}[rng.IntN(2)])
}

func (d drawnRun) engineArgs(rng *rand.Rand) string {
	blockSize := []int{2, 4, 8, 64}[rng.IntN(4)]
	parts := []string{fmt.Sprintf(`"block_size":%d`, blockSize)}
	add := func(oneIn int, text string) {
		if rng.IntN(oneIn) == 0 {
			parts = append(parts, text)
		}
	}
	add(2, fmt.Sprintf(`"num_gpu_blocks":%d`, 8+rng.IntN(60)))
	add(3, fmt.Sprintf(`"max_num_seqs":%d`, 1+rng.IntN(4)))
	add(3, fmt.Sprintf(`"max_num_batched_tokens":%d`, 2+rng.IntN(64)))
	add(4, `"enable_chunked_prefill":false`)
	add(4, `"enable_prefix_caching":false`)
	add(4, `"preemption_mode":"fifo"`)
	add(4, `"watermark":0.1`)
	add(4, `"eviction_backend":"multi_lru"`)
	add(10, `"speedup_ratio":1e12`)
	add(3, `"engine_type":"trtllm"`)
	return "{" + strings.Join(parts, ",") + "}"
}

func ownEngineArgs(rng *rand.Rand) string {
	blockSize := []int{1, 2, 4, 8, 64}[rng.IntN(5)]
	parts := []string{`"scheduler":"vllm"`, fmt.Sprintf(`"block_size":%d,"max_num_seqs":%d`, blockSize, 1+rng.IntN(6))}
	add := func(oneIn int, text string) {
		if rng.IntN(oneIn) == 0 {
			parts = append(parts, text)
		}
	}
	add(2, `"async_scheduling":false`)
	add(2, fmt.Sprintf(`"num_gpu_blocks":%d`, 8+rng.IntN(60)))
	add(2, fmt.Sprintf(`"max_num_batched_tokens":%d`, 6+rng.IntN(64)))
	add(4, `"enable_chunked_prefill":false`)
	add(4, `"enable_prefix_caching":false`)
	add(4, `"scheduler_reserve_full_isl":false`)
	add(4, fmt.Sprintf(`"long_prefill_token_threshold":%d`, 1+rng.IntN(20)))
	add(4, `"watermark":0.1`)
	add(10, `"speedup_ratio":1e12`)
	return "{" + strings.Join(parts, ",") + "}"
}

func ownSGLangArgs(rng *rand.Rand) string {
	blockSize := []int{1, 3, 8, 64}[rng.IntN(4)]
	var nested []string
	add := func(oneIn int, text string) {
		if rng.IntN(oneIn) == 0 {
			nested = append(nested, text)
		}
	}
	add(2, `"overlap_schedule":false`)
	add(3, `"schedule_policy":"lpm"`)
	add(2, fmt.Sprintf(`"chunked_prefill_size":%d`, blockSize*(1+rng.IntN(8))))
	add(3, fmt.Sprintf(`"max_prefill_tokens":%d`, 6+rng.IntN(64)))
	add(2, `"schedule_conservativeness":0.1`)
	add(6, `"ignore_eos":true`)
	add(4, `"enable_mixed_chunk":true`)
	ratio := ""
	if rng.IntN(10) == 0 {
		ratio = `,"speedup_ratio":1e12`
	}
	if rng.IntN(4) == 0 {
		ratio += fmt.Sprintf(`,"host_cache":{"num_blocks":%d,"write_policy":%q,"load_ms_per_block":%g,`+
			`"store_ms_per_block":%g}`, 1+rng.IntN(800)/blockSize,
			[]string{"write_through", "write_through_selective", "write_back"}[rng.IntN(3)], rng.Float64(),
			4*rng.Float64())
	}
	return fmt.Sprintf(`{"engine_type":"sglang","scheduler":"sglang","block_size":%d,"max_num_seqs":%d,`+
		`"num_gpu_blocks":%d%s,"sglang":{%s}}`,
		blockSize, 1+rng.IntN(6), (200+rng.IntN(400))/blockSize+8, ratio, strings.Join(nested, ","))
}

// rows returns a trace with prompts of up to six blocks, and outputs that last some passes.
func (d drawnRun) rows(rng *rand.Rand, blockSize int) string {
	var b strings.Builder
	known := map[int]bool{}
	sessions := 1 + rng.IntN(60)
	flat := rng.IntN(3) == 0
	for range 5 + rng.IntN(40) {
		session := rng.IntN(sessions)
		if flat {
			session = len(known)
		}
		when := fmt.Sprintf(`"timestamp":%d`, 10*rng.IntN(50))
		if known[session] {
			when = fmt.Sprintf(`"delay":%d`, 10*rng.IntN(5))
		}
		known[session] = true
		ids := make([]string, 1+rng.IntN(6))
		for i := range ids {
			ids[i] = fmt.Sprint(rng.IntN(3))
		}
		fmt.Fprintf(&b, `{"session_id":"%d",%s,"input_length":%d,"output_length":%d,"hash_ids":[%s]}`+"\n",
			session, when, 1+rng.IntN(blockSize*len(ids)), 1+rng.IntN(100), strings.Join(ids, ","))
	}
	return b.String()
}

var kvMode, _ = router.FindMode(router.KVMode)

func (d drawnRun) router(t testing.TB, rng *rand.Rand, args engineargs.Args) router.Factory {
	t.Helper()
	text := []string{`{}`, `{"router_queue_threshold":0.5}`, `{"router_queue_threshold":0.01}`,
		`{"overlap_score_credit":0}`}[rng.IntN(4)]
	parsed, _, err := router.ParseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	return kvMode.Factory(&router.Options{
		Config: parsed, BlockSize: args.BlockSize, MaxNumBatchedTokens: args.MaxNumBatchedTokens,
		Rand: rand.New(rand.NewPCG(d.seed, 3)),
		Log:  func(decision router.Decision) { fmt.Fprintln(d.log, decision) },
	})
}

// model returns the polynomial, a profile in which everything shows, or one in which all passes end at multiples of 5
// ms: then those of several workers do at once, and requests arrive exactly then.
func (d drawnRun) model(t testing.TB, rng *rand.Rand) timing.Model {
	t.Helper()
	tables := timing.Tables{
		PrefillISL: []float64{1, 100}, PrefillTTFTMs: []float64{5, 5},
		DecodeActiveKVTokens: []float64{0, 1000}, DecodeContextLength: []float64{1, 1000},
		DecodeITLMs: []float64{5, 5, 5, 5},
	}
	switch rng.IntN(3) {
	case 0:
		return nil
	case 1:
		tables.PrefillTTFTMs, tables.DecodeITLMs = []float64{4, 40}, []float64{5, 50, 10, 70}
	}
	grid, err := timing.NewGrid(tables)
	if err != nil {
		t.Fatal(err)
	}
	return grid
}

// result returns everything that the run leaves behind, and how many passes workers ran ahead.
func (d drawnRun) result(t testing.TB) string {
	t.Helper()
	d.log = &strings.Builder{}
	cfg := d.config(t)
	outcome, err := d.run(cfg)
	if err != nil {
		return fmt.Sprint(d.log, err)
	}
	return fmt.Sprint(d.log, outcome.WorkerSeconds, "\n", text(t, cfg, outcome))
}

// run does what Run does; if stepwise, several workers are always run together. Not so by an engine's own rules, which
// preempt often: there the gaps around preemptions are added up in another order, which shows in the last bit of a
// mean.
func (d drawnRun) run(cfg Config) (Outcome, error) {
	if !d.stepwise || d.own != "" || cfg.Workers == 1 {
		return Run(cfg)
	}
	r, setups := newRun(cfg)
	return r.through(r.inFleet, setups)
}

// TestStepwise runs random workloads with and without the shortcuts of engines and loops. The results must agree to the
// last bit.
func TestStepwise(t *testing.T) {
	seeds := uint64(1500)
	if testing.Short() {
		seeds = 300
	}
	for seed := range seeds {
		for _, own := range []string{"", "vllm", "sglang"} {
			fast := drawnRun{seed: seed, own: own}.result(t)
			slow := drawnRun{seed: seed, own: own, stepwise: true}.result(t)
			if fast != slow {
				t.Fatalf("seed %d, own %q: %s", seed, own, firstDifference(fast, slow))
			}
		}
	}
}

func firstDifference(fast, slow string) string {
	a, b := strings.Split(fast, "\n"), strings.Split(slow, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d\nfast:     %s\nstepwise: %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, stepwise %d", len(a), len(b))
}

// TestOrderOfWorkers: where workers run by themselves, it does not matter which one runs first.
func TestOrderOfWorkers(t *testing.T) {
	backwards := func(n int, do func(int)) {
		for i := range n {
			do(n - 1 - i)
		}
	}
	tried := 0
	for seed := range uint64(400) {
		d := drawnRun{seed: seed, log: &strings.Builder{}}
		cfg := d.config(t)
		if _, setups := newRun(cfg); !cfg.independent(setups) {
			continue
		}
		tried++
		there := d.result(t)
		cfg.Each = backwards
		outcome, err := Run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if back := fmt.Sprint(d.log, outcome.WorkerSeconds, "\n", text(t, cfg, outcome)); back != there {
			t.Fatalf("seed %d: %s", seed, firstDifference(back, there))
		}
	}
	if tried < 20 {
		t.Errorf("only %d runs of independent workers", tried)
	}
}

// TestStepwiseDisaggregated does the same with two pools.
func TestStepwiseDisaggregated(t *testing.T) {
	for seed := range uint64(300) {
		run := func(stepwise bool) string {
			cfg := disaggConfig(t, seed, randomTrace(seed))
			cfg.Setup = func(engine.Role, int) engine.Setup { return engine.Setup{Stepwise: stepwise} }
			outcome, err := Run(cfg)
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint(outcome.WorkerSeconds, outcome.PrefillWorkerSeconds, "\n", text(t, cfg, outcome))
		}
		if fast, slow := run(false), run(true); fast != slow {
			t.Fatalf("seed %d: %s", seed, firstDifference(fast, slow))
		}
	}
}

// TestCoasting: the shortcut is taken, by one worker and by several, with engines that preempt and those that do not,
// and by the engines' own rules.
func TestCoasting(t *testing.T) {
	var rows strings.Builder
	for i := range 12 {
		fmt.Fprintf(&rows, `{"timestamp":%d,"input_length":100,"output_length":%d,"hash_ids":[%d,9]}`+"\n", 700*i,
			100+40*i, i)
	}
	for _, engineArgs := range []string{
		`"engine_type":"vllm"`, `"engine_type":"trtllm"`, `"engine_type":"sglang"`, `"scheduler":"vllm"`,
		`"engine_type":"sglang","scheduler":"sglang"`,
	} {
		for _, workers := range []int{1, 3} {
			cfg := config(t, `{"block_size":64,`+engineArgs+`}`, rows.String(), workers, 0)
			calls := 0
			cfg.Poll = func(float64, int) error { calls++; return nil }
			want := text(t, cfg, mustRun(t, cfg))
			fast := calls
			cfg.Setup = func(engine.Role, int) engine.Setup { return engine.Setup{Stepwise: true} }
			if got := text(t, cfg, mustRun(t, cfg)); got != want {
				t.Errorf("%s, %d workers: %s", engineArgs, workers, firstDifference(want, got))
			}
			if stepwise := calls - fast; 2*fast > stepwise {
				t.Errorf("%s, %d workers: polled %d times, stepwise %d times", engineArgs, workers, fast, stepwise)
			}
		}
	}
}

// TestRunsAgain: among random runs with SGLang engines are some in which a worker cannot go on by itself. They begin
// again in one loop, and requests that were over before are not counted twice.
func TestRunsAgain(t *testing.T) {
	again := 0
	for seed := range uint64(1500) {
		d := drawnRun{seed: seed, log: &strings.Builder{}}
		cfg := d.config(t)
		r, setups := newRun(cfg)
		if worker.Traits(cfg.Args).Independent || !cfg.independent(setups) ||
			r.independently(setups) != fleet.ErrStalled {
			continue
		}
		again++
		counted := 0
		cfg = d.config(t)
		cfg.Poll = func(_ float64, finished int) error {
			counted += finished
			return nil
		}
		outcome := mustRun(t, cfg)
		if ended := outcome.Collector.Finished(); counted > ended {
			t.Errorf("seed %d: %d requests were counted, %d are over", seed, counted, ended)
		}
		together, setups := newRun(d.config(t))
		want, err := together.through(together.inFleet, setups)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := text(t, cfg, outcome), text(t, cfg, want); got != want {
			t.Errorf("seed %d: %s", seed, firstDifference(got, want))
		}
	}
	if again == 0 {
		t.Error("no run had to begin again")
	}
}
