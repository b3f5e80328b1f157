package replay

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/report"
	"dynosim/gocore/workload"
)

// config prepares a run of a trace whose blocks have as many tokens as the engine's.
func config(t testing.TB, engineArgs, trace string, workers, concurrency int) Config {
	t.Helper()
	args := enginetest.Args(t, engineArgs)
	w, err := workload.LoadMooncake(strings.NewReader(trace), "t.jsonl",
		workload.TraceSpec{TraceBlockSize: args.BlockSize, EngineBlockSize: args.BlockSize})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Schedule(concurrency > 0, 1); err != nil {
		t.Fatal(err)
	}
	return Config{Args: args, Workers: workers, Workload: w, Concurrency: concurrency, MaxSimTimeMs: math.Inf(1)}
}

// text returns everything a run leaves behind: the rows and the report.
func text(t testing.TB, cfg Config, outcome Outcome) string {
	t.Helper()
	var b strings.Builder
	if err := outcome.Collector.Rows(cfg.Workload).WriteJSONL(&b); err != nil {
		t.Fatal(err)
	}
	used := report.Resources{DecodeWorkerSeconds: outcome.WorkerSeconds, DecodeGPUsPerWorker: 1, WallMs: 1,
		HostTier: cfg.Args.HostCache.Blocks > 0, Storage: cfg.Args.HostCache.Storage.Blocks > 0, Faults: true}
	return b.String() + string(report.AppendJSON(nil, outcome.Collector.Summarise(used, report.NoSLA())))
}

func mustRun(t testing.TB, cfg Config) Outcome {
	t.Helper()
	outcome, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// trace is a random trace: few block ids, so that prefixes meet; sessions of several turns; arrivals that coincide.
type trace struct {
	rng    *rand.Rand
	rename func(uint64) uint64
	shift  int // added to all timestamps
}

func (g trace) String() string {
	var b strings.Builder
	known := map[int]bool{}
	for range 5 + g.rng.IntN(30) {
		session := g.rng.IntN(12)
		when := fmt.Sprintf(`"timestamp":%d`, 10*g.rng.IntN(20)+g.shift)
		if known[session] {
			when = fmt.Sprintf(`"delay":%d`, 10*g.rng.IntN(5))
		}
		known[session] = true
		ids := make([]string, 1+g.rng.IntN(6))
		for i := range ids {
			ids[i] = fmt.Sprint(g.rename(g.rng.Uint64N(3)))
		}
		fmt.Fprintf(&b, `{"session_id":"%d",%s,"input_length":%d,"output_length":%d,"hash_ids":[%s]}`+"\n",
			session, when, 1+g.rng.IntN(4*len(ids)), 1+g.rng.IntN(20), strings.Join(ids, ","))
	}
	return b.String()
}

func same(id uint64) uint64 { return id }

func randomTrace(seed uint64) string {
	return trace{rng: rand.New(rand.NewPCG(seed, 0)), rename: same}.String()
}

// engines are pools that are ample and pools that force preemption, with other limits besides.
var engines = []string{
	`{"block_size":4}`,
	`{"block_size":4,"num_gpu_blocks":14}`,
	`{"block_size":4,"num_gpu_blocks":14,"preemption_mode":"fifo","max_num_batched_tokens":16}`,
	`{"block_size":4,"num_gpu_blocks":16,"enable_prefix_caching":false,"max_num_seqs":3}`,
	`{"block_size":4,"num_gpu_blocks":20,"eviction_backend":"lru","enable_chunked_prefill":false,` +
		`"max_num_batched_tokens":20}`,
	`{"block_size":4,"num_gpu_blocks":20,"eviction_backend":"multi_lru","watermark":0.2}`,
}

func TestEqualRunsGiveEqualBytes(t *testing.T) {
	for _, engineArgs := range engines {
		for seed := range uint64(10) {
			for _, workers := range []int{1, 3} {
				for _, concurrency := range []int{0, 2} {
					rows := randomTrace(seed)
					first := config(t, engineArgs, rows, workers, concurrency)
					second := config(t, engineArgs, rows, workers, concurrency)
					if text(t, first, mustRun(t, first)) != text(t, second, mustRun(t, second)) {
						t.Fatalf("%s seed %d, %d workers, concurrency %d: two runs differ", engineArgs, seed, workers,
							concurrency)
					}
				}
			}
		}
	}
}

// TestRenamedBlocksAndShiftedTimes: block ids are only names, and time starts when the first request arrives.
func TestRenamedBlocksAndShiftedTimes(t *testing.T) {
	for _, engineArgs := range engines {
		for seed := range uint64(10) {
			for _, workers := range []int{1, 2} {
				run := func(rename func(uint64) uint64, shift int) string {
					rows := trace{rng: rand.New(rand.NewPCG(seed, 0)), rename: rename, shift: shift}.String()
					cfg := config(t, engineArgs, rows, workers, 0)
					return text(t, cfg, mustRun(t, cfg))
				}
				want := run(same, 0)
				for name, got := range map[string]string{
					"renamed":            run(func(id uint64) uint64 { return 4_000_000_000 - 7*id }, 0),
					"other high halves":  run(func(id uint64) uint64 { return id | (id+1)<<32 }, 0),
					"all a minute later": run(same, 60_000),
				} {
					if got != want {
						t.Fatalf("%s seed %d, %d workers, %s: the run changed", engineArgs, seed, workers, name)
					}
				}
			}
		}
	}
}

// TestBlocksMayBeWrittenInPieces: [5,6] in blocks of 8 says the same as [5,5,6,6] in blocks of 4.
func TestBlocksMayBeWrittenInPieces(t *testing.T) {
	args := enginetest.Args(t, `{"block_size":4,"num_gpu_blocks":30}`)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var whole, pieces strings.Builder
		for i := range 20 {
			ids := make([]int, 1+rng.IntN(3))
			var short, long []string
			for range ids {
				id := fmt.Sprint(rng.IntN(2))
				short, long = append(short, id), append(long, id, id)
			}
			const row = `{"timestamp":%d,"input_length":%d,"output_length":4,"hash_ids":[%s]}` + "\n"
			input := 1 + rng.IntN(8*len(ids))
			fmt.Fprintf(&whole, row, 5*i, input, strings.Join(short, ","))
			fmt.Fprintf(&pieces, row, 5*i, input, strings.Join(long, ","))
		}
		run := func(rows string, traceBlock int) string {
			w, err := workload.LoadMooncake(strings.NewReader(rows), "t",
				workload.TraceSpec{TraceBlockSize: traceBlock, EngineBlockSize: 4})
			if err != nil {
				t.Fatal(err)
			}
			cfg := Config{Args: args, Workers: 1, Workload: w, MaxSimTimeMs: math.Inf(1)}
			return text(t, cfg, mustRun(t, cfg))
		}
		if run(whole.String(), 8) != run(pieces.String(), 4) {
			t.Fatalf("seed %d: the runs differ", seed)
		}
	}
}

// oneWorkerCluster does what Run does, with one worker and the loop that is made for several.
func oneWorkerCluster(t *testing.T, cfg Config) Outcome {
	t.Helper()
	r, setups := newRun(cfg)
	outcome, err := r.through(r.inFleet, setups)
	if err != nil {
		t.Fatal(err)
	}
	outcome.WorkerSeconds = r.nowMs / 1000
	return outcome
}

// TestLoopsAgree runs the same work through both loops. Only this may differ: with a concurrency, a turn that becomes
// ready inside a pass counts as sent at the end of the pass in the loop for one worker, so its latencies from arrival
// are shorter there; and worker seconds end with the last token there, with the last instant here.
func TestLoopsAgree(t *testing.T) {
	later := 0
	for _, engineArgs := range engines {
		for seed := range uint64(25) {
			for _, concurrency := range []int{0, 1, 3} {
				cfg := config(t, engineArgs, randomTrace(seed), 1, concurrency)
				single := mustRun(t, cfg)
				cluster := oneWorkerCluster(t, cfg)
				name := fmt.Sprintf("%s seed %d concurrency %d", engineArgs, seed, concurrency)
				compareFloats(t, name, cfg, single, cluster, "first_admit_ms", "first_token_ms", "last_token_ms",
					"ttst_ms", "itl_ms")
				if concurrency == 0 {
					compareFloats(t, name, cfg, single, cluster, "arrival_time_ms", "ttft_ms", "e2e_latency_ms")
				} else {
					later += countLater(t, name, cfg, single, cluster)
				}
				for _, column := range []string{"reused_input_tokens", "decode_worker_idx"} {
					got, _ := cluster.Collector.Rows(cfg.Workload).Ints(column)
					want, _ := single.Collector.Rows(cfg.Workload).Ints(column)
					if !slices.Equal(got, want) {
						t.Fatalf("%s: %s: cluster %v, single %v", name, column, got, want)
					}
				}
				if got, want := cluster.WorkerSeconds,
					single.WorkerSeconds; concurrency == 0 && math.Abs(got-want) > 1e-9*want {
					t.Fatalf("%s: cluster %v worker seconds, single %v", name, got, want)
				}
			}
		}
	}
	if later == 0 {
		t.Error("no turn became ready inside a pass")
	}
}

func compareFloats(t *testing.T, name string, cfg Config, single, cluster Outcome, columns ...string) {
	t.Helper()
	for _, column := range columns {
		got, _ := cluster.Collector.Rows(cfg.Workload).Floats(column)
		want, _ := single.Collector.Rows(cfg.Workload).Floats(column)
		equal := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
		if !slices.EqualFunc(got, want, equal) {
			t.Fatalf("%s: %s: cluster %v, single %v", name, column, got, want)
		}
	}
}

func countLater(t *testing.T, name string, cfg Config, single, cluster Outcome) (later int) {
	t.Helper()
	exact, _ := cluster.Collector.Rows(cfg.Workload).Floats("arrival_time_ms")
	noticed, _ := single.Collector.Rows(cfg.Workload).Floats("arrival_time_ms")
	for i := range exact {
		if noticed[i] < exact[i] {
			t.Fatalf("%s: row %d was sent at %v, before it was ready at %v", name, i, noticed[i], exact[i])
		}
		if noticed[i] > exact[i] {
			later++
		}
	}
	return later
}

// TestEveryRequestEndsOnce: whatever the pool, every request completes or is rejected, and the time cap only takes
// away.
func TestEveryRequestEndsOnce(t *testing.T) {
	for _, engineArgs := range append(engines, `{"block_size":4,"num_gpu_blocks":5}`,
		`{"block_size":4,"num_gpu_blocks":1}`) {
		for seed := range uint64(15) {
			for _, workers := range []int{1, 2, 70} {
				cfg := config(t, engineArgs, randomTrace(seed), workers, int(seed%4))
				outcome := mustRun(t, cfg)
				if n := len(cfg.Workload.Turns); outcome.Collector.Finished() != n ||
					outcome.Collector.Rows(cfg.Workload).Len() != n {
					t.Fatalf("%s seed %d, %d workers: %d of %d requests ended", engineArgs, seed, workers,
						outcome.Collector.Finished(), n)
				}
				checkOrder(t, cfg, outcome)
				whole := outcome.Collector.DurationMs()
				cfg.MaxSimTimeMs = whole / 2
				if capped := mustRun(t, cfg); capped.Collector.DurationMs() > whole ||
					capped.Collector.Finished() > outcome.Collector.Finished() {
					t.Fatalf("%s seed %d, %d workers: the time cap added work", engineArgs, seed, workers)
				}
			}
		}
	}
}

// checkOrder checks that time never goes back within a request, nor between the turns of a session.
func checkOrder(t *testing.T, cfg Config, outcome Outcome) {
	t.Helper()
	rows := outcome.Collector.Rows(cfg.Workload)
	arrival, _ := rows.Floats("arrival_time_ms")
	admit, _ := rows.Floats("first_admit_ms")
	first, _ := rows.Floats("first_token_ms")
	last, _ := rows.Floats("last_token_ms")
	for i := range arrival {
		if admit[i] < arrival[i] || first[i] < admit[i] || last[i] < first[i] {
			t.Fatalf("row %d: arrival %v, admit %v, first %v, last %v", i, arrival[i], admit[i], first[i], last[i])
		}
		if next := cfg.Workload.Turns[i].Next; next != 0 && arrival[next] < last[i]+cfg.Workload.Turns[next].DelayMs {
			t.Fatalf("turn %d was sent at %v, turn %d before it ended at %v", next, arrival[next], i, last[i])
		}
	}
}

// TestPassesOfNoTime: an engine so fast that all passes round to nothing finishes at the instant of arrival.
func TestPassesOfNoTime(t *testing.T) {
	rows := strings.ReplaceAll(randomTrace(3), `"delay":`, `"priority":1,"delay":0,"request_id":"r","x":`)
	for _, workers := range []int{1, 3} {
		cfg := config(t, `{"block_size":4,"speedup_ratio":1e12}`, rows, workers, 0)
		outcome := mustRun(t, cfg)
		e2e, _ := outcome.Collector.Rows(cfg.Workload).Floats("e2e_latency_ms")
		if len(e2e) != len(cfg.Workload.Turns) || slices.Max(e2e) != 0 {
			t.Errorf("%d workers: got %v", workers, e2e)
		}
	}
}

func TestPoll(t *testing.T) {
	stop := errors.New("stop")
	for _, workers := range []int{1, 2} {
		cfg := config(t, `{"block_size":2}`, strings.ReplaceAll(randomTrace(1), `"hash_ids":[`, `"hash_ids":[1,2,3,`),
			workers, 0)
		var times []float64
		finished := 0
		cfg.Poll = func(nowMs float64, done int) error {
			times, finished = append(times, nowMs), finished+done
			return nil
		}
		total := mustRun(t, cfg).Collector.Finished()
		if len(times) < 3 || !slices.IsSorted(times) || finished == 0 || finished > total {
			t.Errorf("%d workers: polled at %v, with %d of %d finished", workers, times, finished, total)
		}
		calls := 0
		cfg.Poll = func(float64, int) error {
			if calls++; calls == 2 {
				return stop
			}
			return nil
		}
		if _, err := Run(cfg); !errors.Is(err, stop) || calls != 2 {
			t.Errorf("%d workers: got %v after %d calls", workers, err, calls)
		}
	}
}

// TestDeadEnd makes the error by hand: no configuration is known that leads to it.
func TestDeadEnd(t *testing.T) {
	var rows strings.Builder
	for i := range 7 {
		fmt.Fprintf(&rows, `{"timestamp":0,"output_length":%d,"hash_ids":[1,2]}`+"\n", i+1)
	}
	cfg := config(t, `{"block_size":4,"num_gpu_blocks":9}`, rows.String(), 2, 0)
	r, setups := newRun(cfg)
	if err := r.newFleet(r.fleetConfig(setups)); err != nil {
		t.Fatal(err)
	}
	for turn := range engine.RequestID(7) {
		if err := r.fleet.Resend(turn); err != nil {
			t.Fatal(err)
		}
	}
	if _, alive := r.fleet.Pools()[0].Worker(1).Engine.RunPass(0); !alive {
		t.Fatal("no progress")
	}
	err := r.fleet.DeadEnd()
	const want = "dead end at 0 ms of simulated time, requests left: 7; num_gpu_blocks is 9 of 4 tokens, a larger " +
		"pool may help" +
		"; t.jsonl line 1 is waiting (prompt 8 + output 1 tokens, 0 emitted, needs 3 blocks)" +
		"; t.jsonl line 3 is waiting (prompt 8 + output 3 tokens, 0 emitted, needs 3 blocks)" +
		"; t.jsonl line 5 is waiting (prompt 8 + output 5 tokens, 0 emitted, needs 4 blocks)" +
		"; t.jsonl line 7 is waiting (prompt 8 + output 7 tokens, 0 emitted, needs 4 blocks)" +
		"; t.jsonl line 2 is running (prompt 8 + output 2 tokens, 1 emitted, needs 3 blocks); and 2 more"
	var deadEnd *engine.DeadEnd
	if !errors.As(err, &deadEnd) || len(deadEnd.Requests) != 7 || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestCrowdedWorkersEnd runs what once looked like a stall and is none: requests that make room for each other again
// and again, and prompts of thousands of passes that take no time.
func TestCrowdedWorkersEnd(t *testing.T) {
	const row = `{"timestamp":0,"input_length":%d,"output_length":%d,"hash_ids":[%s]}` + "\n"
	crowd := fmt.Sprintf(row, 64, 45000, "1") + fmt.Sprintf(row, 64, 1, "1") + fmt.Sprintf(row, 64, 45000, "2")
	cfg := config(t, `{"num_gpu_blocks": 1400, "max_num_batched_tokens": 2}`, crowd, 2, 0)
	got := mustRun(t, cfg).Collector
	if ms := got.DurationMs(); got.Finished() != 3 || math.Abs(ms-1099409.44) > 0.01 {
		t.Errorf("crowd: %d requests finished after %v ms, want 3 after 1099409.44", got.Finished(), ms)
	}
	long := fmt.Sprintf(row, 30000, 2, numbers(30000/64+1))
	for _, workers := range []int{1, 2} {
		cfg := config(t, `{"max_num_batched_tokens": 1, "speedup_ratio": 1e9}`, long, workers, 0)
		if got := mustRun(t, cfg).Collector; got.Finished() != 1 || len(got.Rejected()) != 0 {
			t.Errorf("long prompt on %d workers: %d finished, %d rejected", workers, got.Finished(),
				len(got.Rejected()))
		}
	}
}

// numbers returns the list 0, 1, ... n-1.
func numbers(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = strconv.Itoa(i)
	}
	return strings.Join(list, ",")
}
