package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/cockroachdb/datadriven"

	"dynosim/gocore/report"
	"dynosim/gocore/scripttest"
)

// TestGolden runs testdata/*.txt: whole runs, from the description of a run to its rows and its report. -rewrite writes
// the results anew.
//
//	trace KEY=VALUE...       replays the rows that follow, in JSON Lines
//	synthetic KEY=VALUE...   replays a generated workload
//
// A key is one of the run's options; all others are engine arguments. keys=(a,b) shows those keys of the report,
// keys=all all but the wall clock's; rows=off leaves the requests out.
func TestGolden(t *testing.T) {
	scripttest.Run(t, "testdata", goldenRun)
}

func goldenRun(t *testing.T, d *datadriven.TestData) string {
	config, engine := map[string]any{"kind": d.Cmd}, map[string]any{}
	var keys []string
	showRows := true
	for _, arg := range d.CmdArgs {
		switch {
		case arg.Key == "keys":
			keys = arg.Vals
		case arg.Key == "rows":
			showRows = false
		case slices.ContainsFunc(options, func(o option) bool { return o.Name == arg.Key }):
			config[arg.Key] = json.RawMessage(arg.Vals[0])
		default:
			engine[arg.Key] = json.RawMessage(arg.Vals[0])
		}
	}
	trace := writeTrace(t, d.Input)
	if d.Cmd == kindTrace {
		config["trace_files"] = []string{trace}
	}
	config["extra_engine_args"] = marshal(t, engine)
	result, err := Run(marshal(t, config), new(Monitor))
	if err != nil {
		return fmt.Sprintf("%s error: %v\n", Kind(err), err)
	}
	var out strings.Builder
	if showRows {
		out.WriteString(table(t, result))
	}
	for _, v := range result.summary {
		if slices.Contains(keys, v.Key) || slices.Contains(keys, "all") && !wallClock(v.Key) {
			fmt.Fprintf(&out, "%s %s\n", v.Key, number(v))
		}
	}
	for _, w := range result.warnings {
		fmt.Fprintf(&out, "warning: %s\n", strings.ReplaceAll(w, filepath.Dir(trace)+"/", ""))
	}
	return out.String()
}

// table shows what happened to each request, one line each in the order of the trace.
func table(t *testing.T, r *Result) string {
	var text bytes.Buffer
	if err := r.rows.WriteJSONL(&text); err != nil {
		t.Fatal(err)
	}
	shown := []string{"session_id", "turn_index", "decode_worker_idx", "arrival_time_ms", "first_admit_ms",
		"first_token_ms",
		"last_token_ms", "input_length", "output_length", "reused_input_tokens", "terminal_status"}
	heads := []string{"session", "turn", "worker", "arrival", "admit", "first", "last", "in", "out", "reused", "status"}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(heads, "\t"))
	for line := range strings.Lines(text.String()) {
		var row map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		cells := make([]string, len(shown))
		for i, key := range shown {
			cells[i] = strings.Replace(strings.Trim(string(row[key]), `"`), "null", "-", 1)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	w.Flush()
	return out.String()
}

func wallClock(key string) bool {
	return slices.Contains([]string{"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"}, key)
}

func number(v report.Value) string {
	switch {
	case v.Text != "":
		return v.Text
	case v.IsInt:
		return fmt.Sprint(v.Int)
	}
	return string(report.AppendFloat(nil, v.Float))
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func writeTrace(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
