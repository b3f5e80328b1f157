package core

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"weak"

	"dynosim/bindings/border"
)

const tiny = `{"kind":"synthetic","input_tokens":20,"output_tokens":3,"request_count":5}`

func open(t *testing.T) int64 {
	t.Helper()
	id := Open()
	t.Cleanup(func() { Close(id) })
	return id
}

func wantKind(t *testing.T, err error, kind string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), kind+"\x1f") {
		t.Fatalf("got error %v, want one of kind %q", err, kind)
	}
}

func TestRunGivesReportAndColumns(t *testing.T) {
	id := open(t)
	text, err := Run(id, tiny)
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		Report map[string]any
		Rows   int
	}
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		t.Fatal(err)
	}
	if result.Rows != 5 || result.Report["num_requests"] != 5.0 {
		t.Errorf("got %d rows, report %v", result.Rows, result.Report)
	}
	arrivals, err := Column(id, "arrival_time_ms")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if got := math.Float64frombits(binary.LittleEndian.Uint64(arrivals[8*i:])); got != float64(i) {
			t.Errorf("arrival %d: got %v", i, got)
		}
	}
	statuses, err := Strings(id, "terminal_status")
	if want := strings.Repeat(separator+"completed", 5); err != nil || statuses != want {
		t.Errorf("got %q, %v, want %q", statuses, err, want)
	}
}

// TestLoadedTraceIsFreed: after Close nothing holds a trace that runs have used.
func TestLoadedTraceIsFreed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(path, []byte(`{"timestamp":0,"input_length":20,"output_length":3,"hash_ids":[1]}`),
		0o644); err != nil {
		t.Fatal(err)
	}
	files, _ := json.Marshal([]string{path})
	loaded, id := Open(), Open()
	if _, err := Load(loaded, `{"trace_files":`+string(files)+`}`); err != nil {
		t.Fatal(err)
	}
	wantKind(t, Use(id, id), border.Internal)
	if err := Use(id, loaded); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(id, `{"kind":"trace","trace_files":`+string(files)+`}`); err != nil {
		t.Fatal(err)
	}
	r, err := runs.Find(loaded)
	if err != nil {
		t.Fatal(err)
	}
	held := weak.Make(r.trace)
	r = nil
	Close(id)
	Close(loaded)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if runtime.GC(); held.Value() == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the trace is still there")
		}
	}
}

// TestNoRows: columns of no rows are empty. No run is known to have none, but nothing rules it out.
func TestNoRows(t *testing.T) {
	if got := rawBytes([]float64(nil)); len(got) != 0 {
		t.Errorf("floats: got %d bytes", len(got))
	}
	if got := rawBytes([]int64{}); len(got) != 0 {
		t.Errorf("integers: got %d bytes", len(got))
	}
}

// TestFewRows: a run that ends at once has a row for each request that has arrived by then, in every column.
func TestFewRows(t *testing.T) {
	id := open(t)
	text, err := Run(id, `{"kind":"synthetic","input_tokens":20,"output_tokens":3,"request_count":5,`+
		`"max_sim_time_ms":0,"num_workers":2}`)
	if err != nil || !strings.Contains(text, `"rows":1,`) {
		t.Fatalf("got %s, %v", text, err)
	}
	var result struct {
		Columns struct{ Float, Int, Text []string }
	}
	if err := json.Unmarshal([]byte(text), &result); err != nil || len(result.Columns.Float) == 0 {
		t.Fatalf("got %s, %v", text, err)
	}
	for _, name := range slices.Concat(result.Columns.Float, result.Columns.Int) {
		if data, err := Column(id, name); err != nil || len(data) != 8 {
			t.Errorf("%s: got %d bytes, %v", name, len(data), err)
		}
	}
	for _, name := range result.Columns.Text {
		if text, err := Strings(id, name); err != nil || strings.Count(text, separator) != 1 {
			t.Errorf("%s: got %q, %v", name, text, err)
		}
	}
}

func TestOddTextTravelsAsJSON(t *testing.T) {
	for name, want := range map[string]string{
		"plain":         separator + "plain" + separator + "plain",
		"a" + separator: `["a\u001e","a\u001e"]`,
		"a\x00":         `["a\u0000","a\u0000"]`,
	} {
		trace := filepath.Join(t.TempDir(), "trace.jsonl")
		row, _ := json.Marshal(map[string]any{
			"session_id": name, "timestamp": 0, "input_length": 4, "output_length": 1, "hash_ids": []int{1},
		})
		if err := os.WriteFile(trace, []byte(string(row)+"\n"+string(row)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		config, _ := json.Marshal(map[string]any{"kind": "trace", "trace_files": []string{trace}})
		id := open(t)
		if _, err := Run(id, string(config)); err != nil {
			t.Fatal(err)
		}
		if got, err := Strings(id, "session_id"); err != nil || got != want {
			t.Errorf("session %q: got %q, %v, want %q", name, got, err, want)
		}
	}
}

func TestMisuseIsAnError(t *testing.T) {
	id := open(t)
	_, err := Column(id, "ttft_ms")
	wantKind(t, err, border.Internal)
	if _, err := Run(id, tiny); err != nil {
		t.Fatal(err)
	}
	_, err = Run(id, tiny)
	wantKind(t, err, border.Internal)
	_, err = Column(id, "nonsense")
	wantKind(t, err, border.Internal)
	_, err = Strings(id, "ttft_ms")
	wantKind(t, err, border.Internal)

	Close(id)
	_, err = Run(id, tiny)
	wantKind(t, err, border.Internal)
	if got := Progress(id); got != "" {
		t.Errorf("progress of a closed run: %q", got)
	}
	Cancel(id)
	Close(id)
}

func TestBadInputHasItsKind(t *testing.T) {
	_, err := Run(open(t), `{"kind":"synthetic"}`)
	wantKind(t, err, "usage")
	_, err = Run(open(t), `{"kind":"trace","trace_files":["nowhere.jsonl"]}`)
	wantKind(t, err, "notfound")
}

func TestCancelBeforeRun(t *testing.T) {
	id := open(t)
	Cancel(id)
	Cancel(id)
	_, err := Run(id, tiny)
	wantKind(t, err, border.Cancelled)
}

// A pipe without a writer blocks the reader where no poll can reach it.
func TestCancelWhileBlockedOnInput(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.jsonl")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	id := open(t)
	config, _ := json.Marshal(map[string]any{"kind": "trace", "trace_files": []string{pipe}})
	failed := make(chan error, 1)
	go func() {
		_, err := Run(id, string(config))
		failed <- err
	}()
	time.Sleep(20 * time.Millisecond)
	Cancel(id)
	select {
	case err := <-failed:
		wantKind(t, err, border.Cancelled)
	case <-time.After(time.Minute):
		t.Error("the run goes on")
	}
}

func TestRunsAtOnce(t *testing.T) {
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			id := Open()
			defer Close(id)
			Progress(id)
			if _, err := Run(id, tiny); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestConvertAndInspectAreRuns(t *testing.T) {
	id := open(t)
	_, err := Convert(id, `{"input_path":["nowhere"],"output_file":"x"}`)
	wantKind(t, err, "notfound")
	_, err = Inspect(id, `{"trace_files":["nowhere"]}`)
	wantKind(t, err, border.Internal) // an id runs once

	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(trace, []byte(`{"timestamp":0,"input_length":4,"output_length":1,"hash_ids":[1]}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	config, _ := json.Marshal(map[string]any{"trace_files": []string{trace}})
	id = open(t)
	text, err := Inspect(id, string(config))
	if err != nil || !strings.Contains(text, `"requests":1`) {
		t.Errorf("got %q, %v", text, err)
	}
	_, err = Column(id, "ttft_ms")
	wantKind(t, err, border.Internal)

	id = open(t)
	text, err = Profile(id, `{"planner_profile_data":"../examples/profiles/H200_TP1P_TP1D"}`)
	if err != nil || !strings.Contains(text, `"decode_itl":[`) {
		t.Errorf("got %.80q, %v", text, err)
	}
	text, err = Calibrations(open(t), `{"engines": [{}]}`)
	if err != nil || !strings.Contains(text, `"timing":"polynomial"`) {
		t.Errorf("got %q, %v", text, err)
	}
	_, err = Profile(open(t), `{"planner_profile_data":"nowhere"}`)
	wantKind(t, err, "notfound")

	id = open(t)
	Cancel(id)
	_, err = Convert(id, `{"input_path":["nowhere"],"output_file":"x"}`)
	if err == nil {
		t.Error("a cancelled conversion of nothing succeeded")
	}
}

const asking = `{"kind":"synthetic","input_tokens":20,"output_tokens":3,"request_count":5,` +
	`"extra_engine_args":"{\"aic_backend\":\"vllm\",\"aic_model_path\":\"m\",\"num_gpu_blocks\":64}"}`

// TestQuestions: a run returns its questions and goes on with the answers.
func TestQuestions(t *testing.T) {
	id := open(t)
	_, err := Answer(id, "{}")
	wantKind(t, err, border.Internal) // nothing was asked
	text, err := Run(id, asking)
	for range 100 {
		question, asked := strings.CutPrefix(text, border.Enquiry)
		if err != nil || !asked {
			break
		}
		if strings.HasPrefix(question, `{"open":`) {
			text, err = Answer(id, `{"session":-1,"version":"1"}`)
			continue
		}
		var predict struct{ Predict struct{ Questions [][]int } }
		if err := json.Unmarshal([]byte(question), &predict); err != nil {
			t.Fatal(err)
		}
		text, err = Answer(id, `{"ms":[5`+strings.Repeat(",5", len(predict.Predict.Questions)-1)+`]}`)
	}
	if err != nil || !strings.Contains(text, `"mean_ttft_ms":1`) {
		t.Errorf("got %s, %v", text, err)
	}
	_, err = Answer(id, "{}")
	wantKind(t, err, border.Internal)
	_, err = Answer(-1, "{}")
	wantKind(t, err, border.Internal)
}

// TestCancelWhileAsking: Python is cancelled in the SDK, and answers afterwards.
func TestCancelWhileAsking(t *testing.T) {
	id := open(t)
	if text, err := Run(id, asking); err != nil || !strings.HasPrefix(text, border.Enquiry) {
		t.Fatalf("got %s, %v", text, err)
	}
	Cancel(id)
	_, err := Answer(id, `{"session":-1,"version":"1"}`)
	wantKind(t, err, border.Cancelled)

	id = open(t)
	if text, err := Run(id, asking); err != nil || !strings.HasPrefix(text, border.Enquiry) {
		t.Fatalf("got %s, %v", text, err)
	}
	text, err := Answer(id, `nonsense`)
	if text != "" {
		t.Errorf("got %s", text)
	}
	wantKind(t, err, "usage")
}
