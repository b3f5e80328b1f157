package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/report"
	"dynosim/gocore/scripttest"
	"dynosim/gocore/workload"
)

// TestFormats runs testdata/formats/*.txt: replays of traces of all formats. -rewrite writes the results anew.
//
// What Save writes must replay to the same.
//
//	FORMAT KEY=VALUE...   replays the rows that follow: session.turn, worker, arrival, admission, first and last token,
//	                      tokens in and out, reused tokens; then the duration and the ratio of reused tokens
//
// Keys: workers, concurrency, speedup, cap (ms), trace_block_size, ratio, groups; all others are engine arguments.
// Blocks have 4 tokens and there are 1000 of them, if nothing else is said.
func TestFormats(t *testing.T) {
	scripttest.Run(t, "testdata/formats", replayed)
}

func replayed(t *testing.T, d *datadriven.TestData) string {
	format, known := workload.ParseFormat(d.Cmd)
	if !known {
		t.Fatalf("%s: no format %q", d.Pos, d.Cmd)
	}
	keys := map[string]float64{"workers": 1, "concurrency": 0, "speedup": 1, "cap": math.Inf(1), "trace_block_size": 4,
		"ratio": 0, "groups": 0}
	engine := map[string]json.RawMessage{"block_size": json.RawMessage("4"), "num_gpu_blocks": json.RawMessage("1000")}
	for _, arg := range d.CmdArgs {
		if _, ours := keys[arg.Key]; !ours {
			engine[arg.Key] = json.RawMessage(arg.Vals[0])
			continue
		}
		x, err := strconv.ParseFloat(arg.Vals[0], 64)
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		keys[arg.Key] = x
	}
	text, err := json.Marshal(engine)
	if err != nil {
		t.Fatal(err)
	}
	args := enginetest.Args(t, string(text))
	traceBlock := int(keys["trace_block_size"])
	if format == workload.Dynamo {
		traceBlock = 0
	}
	load := func(format workload.Format, text string, traceBlock int) *workload.Workload {
		w, err := workload.Load(format, []workload.Source{{Name: "t.jsonl", Reader: strings.NewReader(text)}},
			workload.TraceSpec{
				TraceBlockSize:    traceBlock,
				EngineBlockSize:   args.BlockSize,
				SharedPrefixRatio: keys["ratio"],
				NumPrefixGroups:   int(keys["groups"]),
			})
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		return w
	}
	run := func(w *workload.Workload) string {
		concurrency := int(keys["concurrency"])
		if err := w.Schedule(concurrency > 0, keys["speedup"]); err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		cfg := Config{Args: args, Workers: int(keys["workers"]), Workload: w, Concurrency: concurrency,
			MaxSimTimeMs: keys["cap"]}
		return timeline(t, cfg, mustRun(t, cfg))
	}

	w := load(format, d.Input, traceBlock)
	var saved strings.Builder
	how, err := w.Save(&saved, args.BlockSize)
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	result := run(w)
	if again := run(load(how.Format, saved.String(), how.TraceBlockSize)); again != result {
		t.Errorf("%s: got\n%s\nsaved and replayed\n%s", d.Pos, result, again)
	}
	return result
}

// timeline shows the rows in order of arrival.
func timeline(t *testing.T, cfg Config, outcome Outcome) string {
	t.Helper()
	rows := outcome.Collector.Rows(cfg.Workload)
	floats := func(name string) []float64 { column, _ := rows.Floats(name); return column }
	ints := func(name string) []int64 { column, _ := rows.Ints(name); return column }
	texts := func(name string) []string { column, _ := rows.Strings(name); return column }
	arrival, order := floats("arrival_time_ms"), make([]int, rows.Len())
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(arrival[a], arrival[b]) })
	var out strings.Builder
	for _, i := range order {
		fmt.Fprintf(&out, "%s.%d on %d  %v %v %v %v  %d->%d reused %d", texts("session_id")[i], ints("turn_index")[i],
			ints("decode_worker_idx")[i],
			arrival[i], floats("first_admit_ms")[i], floats("first_token_ms")[i], floats("last_token_ms")[i],
			ints("input_length")[i], ints("output_length")[i], ints("reused_input_tokens")[i])
		if status := texts("state")[i]; status != "finished" {
			out.WriteString(" " + status)
		}
		out.WriteString("\n")
	}
	used := report.Resources{DecodeWorkerSeconds: outcome.WorkerSeconds, DecodeGPUsPerWorker: 1, WallMs: 1}
	for _, v := range outcome.Collector.Summarise(used, report.NoSLA()) {
		if v.Key == "duration_ms" || v.Key == "prefix_cache_reused_ratio" {
			fmt.Fprintf(&out, "%s %v\n", v.Key, v.Float)
		}
	}
	return out.String()
}
