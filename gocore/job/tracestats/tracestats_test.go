package tracestats

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/replay"
	"dynosim/gocore/report"
	"dynosim/gocore/scripttest"
	"dynosim/gocore/workload"
)

// TestGolden runs testdata/*.txt. -rewrite writes the results anew.
//
//	FORMAT block_size=N trace_block_size=M [json]   shows the statistics of the rows that follow
func TestGolden(t *testing.T) {
	scripttest.Run(t, "testdata", func(t *testing.T, d *datadriven.TestData) string {
		format, known := workload.ParseFormat(d.Cmd)
		if !known {
			t.Fatalf("%s: no format %q", d.Pos, d.Cmd)
		}
		var sizes [2]int
		d.ScanArgs(t, "block_size", &sizes[0])
		d.ScanArgs(t, "trace_block_size", &sizes[1])
		s := Inspect(load(t, format, d.Input, sizes[1], sizes[0]), sizes[0])
		if d.HasArg("json") {
			text, err := json.MarshalIndent(s, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			return string(text) + "\n"
		}
		return strings.ReplaceAll(s.Text(), "\n\n", "\n")
	})
}

func load(t testing.TB, format workload.Format, text string, traceBlock, engineBlock int) *workload.Workload {
	t.Helper()
	w, err := workload.Load(format, []workload.Source{{Name: "t.jsonl", Reader: strings.NewReader(text)}},
		workload.TraceSpec{TraceBlockSize: traceBlock, EngineBlockSize: engineBlock})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestSummarise(t *testing.T) {
	if got := summarise(nil); got != (Summary{}) {
		t.Errorf("got %+v", got)
	}
	if got, want := summarise([]float64{5}),
		(Summary{Count: 1, Mean: 5, Min: 5, P50: 5, P90: 5, P99: 5, Max: 5}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(100-i))
	}
	got := summarise(hundred)
	want := Summary{Count: 100, Mean: 50.5, Std: math.Sqrt(9999.0 / 12), Min: 1, P50: 50, P90: 90, P99: 99, Max: 100}
	if math.Abs(got.Std-want.Std) > 1e-12 {
		t.Errorf("got std %v, want %v", got.Std, want.Std)
	}
	if got.Std = want.Std; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestBestReuseIsReached runs random traces one session at a time on a worker with room for everything: it reuses what
// Inspect says, if sessions do not interleave in the trace.
func TestBestReuseIsReached(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 0))
		traceBlock, engineBlock := 1+rng.IntN(9), 1<<(1+rng.IntN(3))
		var rows strings.Builder
		for session := range 1 + rng.IntN(8) {
			for range 1 + rng.IntN(4) {
				ids := make([]string, 1+rng.IntN(12))
				for i := range ids {
					ids[i] = strconv.Itoa(rng.IntN(2))
				}
				fmt.Fprintf(&rows, `{"session_id":"%d","hash_ids":[%s],"input_length":%d,"output_length":%d}`+"\n",
					session, strings.Join(ids, ","), 1+rng.IntN(len(ids)*traceBlock), 1+rng.IntN(5))
			}
		}
		w := load(t, workload.Mooncake, rows.String(), traceBlock, engineBlock)
		want := Inspect(w, engineBlock).Prefix.BestReuseRatio
		if got := replayedRatio(t, w, engineBlock); math.Abs(got-want) > 1e-12 {
			t.Errorf("seed %d: reused %v, best is %v\n%s", seed, got, want, rows.String())
		}
	}
}

func replayedRatio(t *testing.T, w *workload.Workload, blockSize int) float64 {
	t.Helper()
	args, _, err := engineargs.Parse(fmt.Sprintf(`{"block_size":%d,"num_gpu_blocks":100000}`, blockSize))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Schedule(true, 1); err != nil {
		t.Fatal(err)
	}
	outcome, err := replay.Run(replay.Config{Args: args, Workers: 1, Workload: w, Concurrency: 1,
		MaxSimTimeMs: math.Inf(1)})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range outcome.Collector.Summarise(report.Resources{DecodeGPUsPerWorker: 1, WallMs: 1}, report.NoSLA()) {
		if v.Key == "prefix_cache_reused_ratio" {
			return v.Float
		}
	}
	t.Fatal("no ratio")
	return 0
}

func TestInspectGenerated(t *testing.T) {
	w, err := workload.Synthetic(workload.SyntheticSpec{
		InputTokens: 40, OutputTokens: 5, RequestCount: 50, TurnsPerSession: 2, SharedPrefixRatio: 0.5,
		NumPrefixGroups: 1, EngineBlockSize: 4,
		Arrivals: workload.Arrivals{Process: workload.Poisson, RequestRate: 10}, InterTurnDelayMs: 7,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := Inspect(w, 4)
	// The first of 100 prompts computes the shared half.
	if want := 99 * 0.5 / 100; s.Format != "" || math.Abs(s.Prefix.BestReuseRatio-want) > 1e-12 || s.Requests != 100 ||
		s.Sessions != 50 ||
		s.DelayMs.Mean != 7 || s.DelayMs.Count != 50 || s.TurnsPerSession.Mean != 2 || len(s.Problems) != 0 ||
		s.LargestRequestBlocks != 12 {
		t.Errorf("got %+v", s)
	}
}

func TestShort(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 12.345: "12.35", -1234.6: "-1235", 1e14: "100000000000000", 1e303: "1e+303", 1e-300: "1e-300",
		-2e15: "-2e+15",
	} {
		if got := short(x); got != want {
			t.Errorf("%g: got %s, want %s", x, got, want)
		}
	}
}
