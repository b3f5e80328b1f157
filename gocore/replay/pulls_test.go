package replay

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/handoff"
)

// TestPulls runs random workloads whose hand-offs follow vLLM's own rules: whatever the pools and routers, every
// request ends, no worker takes more blocks than it has or keeps any, with asynchronous passes and ranks, too, nothing
// happens before what it needs, and decode workers that run ahead change nothing, to the last bit.
func TestPulls(t *testing.T) {
	seen := compareHandoffs(t, func(d drawnRun) Config {
		d.own = "vllm"
		cfg := d.disaggregated(t)
		for _, args := range []*engineargs.Args{&cfg.Disagg.Prefill, &cfg.Disagg.Decode} {
			args.VLLM.Async = d.seed%2 == 1
		}
		if d.seed%3 == 2 {
			cfg.Disagg.Prefill.Ranks, cfg.Disagg.Decode.Ranks = 1+int(d.seed/3%3), 1+int(d.seed/9%4)
			cfg.Disagg.Decode.VLLM.RoundRobin = d.seed/3%2 == 0
			cfg.Disagg.Prefill.RouterRanks, cfg.Disagg.Decode.RouterRanks = d.seed/6%2 == 0, d.seed/12%2 == 0
		}
		return cfg
	})
	for _, what := range []string{"completed", "rejected", "preempted", "full prefill worker", "reused on decode"} {
		if seen[what] == 0 {
			t.Errorf("no run has this: %s", what)
		}
	}
}

// compareHandoffs runs random workloads with and without decode workers that run ahead, checks what has to hold for all
// of them, and counts what happened.
func compareHandoffs(t *testing.T, config func(drawnRun) Config) map[string]int {
	t.Helper()
	seeds := uint64(600)
	if testing.Short() {
		seeds = 150
	}
	seen := map[string]int{}
	for seed := range seeds {
		run := func(stepwise bool) string {
			d := drawnRun{seed: seed, stepwise: stepwise, log: &strings.Builder{}}
			cfg := config(d)
			setup := cfg.Setup
			cfg.Setup = func(role engine.Role, worker int) engine.Setup {
				s := setup(role, worker)
				if stepwise { // engines that tell of passes do not run ahead
					s.Shapes = func(shape engine.Shape) { checkShape(t, cfg, role, shape, seen) }
				}
				return s
			}
			r := runDisagg(t, cfg)
			outcome := r.outcome()
			if math.IsInf(cfg.MaxSimTimeMs, 1) {
				checkAllOver(t, seed, cfg, r, seen)
			} else {
				r.cut()
			}
			if t.Failed() {
				t.FailNow()
			}
			return fmt.Sprint(d.log, outcome.WorkerSeconds, outcome.PrefillWorkerSeconds, "\n", text(t, cfg, outcome))
		}
		if fast, slow := run(false), run(true); fast != slow {
			t.Fatalf("seed %d: %s", seed, firstDifference(fast, slow))
		}
	}
	return seen
}

// checkShape checks what a pass says of its worker.
func checkShape(t *testing.T, cfg Config, role engine.Role, s engine.Shape, seen map[string]int) {
	args := cfg.Disagg.Decode
	if role == engine.Prefill {
		args = cfg.Disagg.Prefill
	}
	if s.InUse > args.NumGPUBlocks || s.InUse < 0 || s.ComputedTokens > args.MaxNumBatchedTokens {
		t.Errorf("%s worker: %+v", role, s)
	}
	if role == engine.Prefill && s.DecodeRequests > 0 {
		t.Errorf("%s worker: %+v", role, s)
	}
	seen["preempted"] += s.PreemptedRequests
	if role == engine.Prefill && s.InUse == args.NumGPUBlocks {
		seen["full prefill worker"]++
	}
}

// checkAllOver checks that every request of a run has ended, and has left nothing behind.
func checkAllOver(t *testing.T, seed uint64, cfg Config, r *run, seen map[string]int) {
	t.Helper()
	rows := r.collector.Rows(cfg.Workload)
	if n := len(cfg.Workload.Turns); rows.Len() != n || r.collector.Finished() != n {
		t.Fatalf("seed %d: %d of %d requests ended", seed, rows.Len(), n)
	}
	for _, p := range r.fleet.Pools() {
		for i := range p.Len() {
			w := p.Worker(i)
			waiting, running, blocks := w.Engine.(engine.Reporter).Load()
			if left := w.Engine.States(); len(left) > 0 || waiting+running+blocks > 0 || w.Busy() {
				t.Errorf("seed %d: left on %s worker %d: %+v, %d blocks", seed, p.Role, i, left, blocks)
			}
		}
	}
	checkLives(t, seed, cfg, rows)
	status, _ := rows.Strings("terminal_status")
	reused, _ := rows.Ints("decode_reused_input_tokens")
	for i := range status {
		seen[status[i]]++
		if reused[i] > 0 {
			seen["reused on decode"]++
		}
	}
}

// TestPullVectors follows requests through runs that a person can check with a pencil; docs/agreement.md has the rules.
// Each line is a request: admission and end on the prefill worker and when its blocks are free there; when the decode
// worker asks for them and when they have come; admission there, first and last token, reused tokens.
func TestPullVectors(t *testing.T) {
	const whole = `"block_size":16,"max_num_seqs":8,"max_num_batched_tokens":8192`
	for _, c := range []struct {
		name            string
		prefill, decode int // blocks
		decodeWorkers   int
		transfer        handoff.Transfer
		rows, want      string
	}{
		{
			name: "the last block is always transferred", prefill: 64, decode: 64, decodeWorkers: 1,
			transfer: handoff.Transfer{MsPerBlock: 1},
			rows:     "0 64 3 1-4; 100 72 2 1-5",
			want: `0..17.474885 free 21.474885, load 17.474885..21.474885, 21.474885 30.489963 50.094817 0
100..116.622914 free 117.622914, load 116.622914..117.622914, 117.622914 127.425341 137.227768 64`,
		},
		{
			name: "no room for two prompts", prefill: 64, decode: 6, decodeWorkers: 1,
			transfer: handoff.Transfer{MsPerBlock: 2},
			rows:     "0 64 4 1-4; 0 64 2 5-8",
			want: `0..18.451798 free 26.451798, load 18.451798..26.451798, 26.451798 56.758465 155.378464 0
0..18.451798 free 163.378464, load 155.378464..163.378464, 163.378464 193.685131 226.558464 0`,
		},
		{
			name: "small pools on both sides", prefill: 8, decode: 8, decodeWorkers: 1,
			transfer: handoff.Transfer{MsPerBlock: 10},
			rows:     "0 64 2 1-4; 1 64 2 5-8; 2 64 2 9-12",
			want: `0..17.474885 free 57.474885, load 17.474885..57.474885, 57.474885 91.484885 199.412474 48
17.474885..34.94977 free 97.474885, load 34.94977..97.474885, 97.474885 123.784885 153.226448 0
57.474885..74.94977 free 239.412474, load 199.412474..239.412474, 239.412474 265.722474 295.164037 0`,
		},
		{
			name: "ends within passes", prefill: 64, decode: 5, decodeWorkers: 1,
			transfer: handoff.Transfer{MsPerBlock: 0.5},
			rows:     "0 32 20 1-2; 0 32 20 5-6; 3 32 4 7-8",
			want: `0..17.474885 free 34.462606, load 17.474885..18.474885, 18.474885 50.949285 620.706885 0
0..17.474885 free 34.462606, load 17.474885..19.474885, 84.959285 118.969285 1212.339348 16
17.474885..34.462606 free 621.706885, load 620.706885..621.706885, 705.471348 739.481348 1315.722611 16`,
		},
		{
			name: "a link for each pair of workers", prefill: 64, decode: 64, decodeWorkers: 2,
			transfer: handoff.Transfer{MsPerBlock: 5},
			rows:     "0 64 2 1-4; 0 64 2 5-8; 0 64 2 9-12",
			want: `0..19.43216 free 39.43216, load 19.43216..39.43216, 39.43216 51.521223 64.347361 0
0..19.43216 free 39.43216, load 19.43216..39.43216, 39.43216 48.447238 58.249665 0
0..19.43216 free 59.43216, load 19.43216..59.43216, 64.347361 73.362439 83.164866 0`,
		},
		{
			name: "links without limit", prefill: 64, decode: 64, decodeWorkers: 1,
			transfer: handoff.Transfer{MsPerBlock: 5, Unlimited: true},
			rows:     "0 64 2 1-4; 0 64 2 5-8",
			want: `0..18.451798 free 38.451798, load 18.451798..38.451798, 38.451798 50.540861 64.091506 0
0..18.451798 free 38.451798, load 18.451798..38.451798, 38.451798 50.540861 64.091506 0`,
		},
	} {
		for _, release := range []string{"vllm-0.28", "vllm-0.33"} {
			args := func(role engine.Role, blocks int) engineargs.Args {
				return enginetest.Args(t, fmt.Sprintf(`{"scheduler":%q,"worker_type":%q,"num_gpu_blocks":%d,%s}`, release,
					role, blocks, whole))
			}
			cfg := config(t, `{"block_size":16}`, vectorRows(c.rows), 1, 0)
			cfg.Disagg = &DisaggConfig{
				Prefill: args(engine.Prefill, c.prefill), Decode: args(engine.Decode, c.decode),
				PrefillWorkers: 1, DecodeWorkers: c.decodeWorkers, Transfer: c.transfer,
			}
			if got := lives(cfg, mustRun(t, cfg)); got != c.want {
				t.Errorf("%s, %s:\n%s", c.name, release, firstDifference(got, c.want))
			}
		}
	}
}

// vectorRows writes a trace: of each request its time, the lengths of prompt and output, the ids of its blocks.
func vectorRows(text string) string {
	var b strings.Builder
	for row := range strings.SplitSeq(text, "; ") {
		var atMs, prompt, output, first, last int
		fmt.Sscanf(row, "%d %d %d %d-%d", &atMs, &prompt, &output, &first, &last)
		var ids []string
		for id := first; id <= last; id++ {
			ids = append(ids, fmt.Sprint(id))
		}
		fmt.Fprintf(&b, `{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":[%s]}`+"\n", atMs, prompt,
			output, strings.Join(ids, ","))
	}
	return b.String()
}

// lives writes what became of each request. Times are rounded to a billionth of a millisecond.
func lives(cfg Config, outcome Outcome) string {
	rows := outcome.Collector.Rows(cfg.Workload)
	ms := func(name string, i int) float64 {
		values, _ := rows.Floats(name)
		return math.Round(values[i]*1e9) / 1e9
	}
	reused, _ := rows.Ints("decode_reused_input_tokens")
	lines := make([]string, rows.Len())
	for i := range lines {
		lines[i] = fmt.Sprintf("%v..%v free %v, load %v..%v, %v %v %v %d",
			ms("prefill_admit_ms", i), ms("source_held_ms", i), ms("source_released_ms", i),
			ms("destination_reserved_ms", i),
			ms("destination_activated_ms", i), ms("decode_admit_ms", i), ms("first_token_ms", i),
			ms("last_token_ms", i), reused[i])
	}
	return strings.Join(lines, "\n")
}
