package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dynosim/gocore/engine"
)

// mustRun carries out a run and moves its files to their places, as Python does.
func mustRun(t testing.TB, config string) *Result {
	t.Helper()
	result, err := Run(config, new(Monitor))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range result.files.drafts {
		if err := d.keep(); err != nil {
			t.Fatal(err)
		}
	}
	return result
}

// writeWhole writes a single file.
func writeWhole(path string, write func(io.Writer) error) error {
	d, err := writeDraft(path, write)
	if err != nil {
		return err
	}
	return d.keep()
}

// TestFilesAppearTogether: a run leaves all its files to the process that makes the others, and none if one cannot be
// written.
func TestFilesAppearTogether(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	config := synthetic(fmt.Sprintf(`"router_mode":"kv_router","num_workers":2,"router_log":%q,"save_trace":%q,`+
		`"timeline":%q,"report_jsonl_path":%q,"rows":true`,
		in("log"), in("trace"), in("run.pftrace"), "ROWS"))
	result, err := Run(strings.Replace(config, "ROWS", in("rows"), 1), new(Monitor))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, file := range result.files.waiting() {
		got = append(got, filepath.Base(file.Path))
	}
	for _, name := range list(t, folder) {
		if !strings.HasPrefix(name, ".dynamo-") {
			t.Errorf("%s is in its place already", name)
		}
	}
	if want := []string{"trace", "log", "run.pftrace", "rows"}; !slices.Equal(got, want) || len(list(t, folder)) != 4 {
		t.Errorf("got %v and %v, want %v", got, list(t, folder), want)
	}
	result.Close()
	if left := list(t, folder); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	result = mustRun(t, strings.Replace(config, "ROWS", folder, 1))
	if left := list(t, folder); result.writeErr == nil || result.saved != nil || len(left) != 0 {
		t.Errorf("got %v, left behind: %v", result.writeErr, left)
	}
	timeline := strings.Replace(strings.Replace(config, "ROWS", in("rows"), 1), in("run.pftrace"), folder, 1)
	if _, err := Run(timeline, new(Monitor)); Kind(err) != "failed" || len(list(t, folder)) != 0 {
		t.Errorf("got %v, left behind: %v", err, list(t, folder))
	}
}

func TestKinds(t *testing.T) {
	for want, err := range map[string]error{
		"usage":     errors.New("x"),
		"notfound":  fmt.Errorf("x: %w", os.ErrNotExist),
		"failed":    runError{&engine.DeadEnd{}},
		"cancelled": runError{fmt.Errorf("x: %w", ErrCancelled)},
	} {
		if got := Kind(err); got != want {
			t.Errorf("%v: got %s, want %s", err, got, want)
		}
	}
	var deadEnd *engine.DeadEnd
	if !errors.As(runError{&engine.DeadEnd{AtMs: 3}}, &deadEnd) || deadEnd.AtMs != 3 {
		t.Error("the cause of a failed run is lost")
	}
}

func TestResultJSON(t *testing.T) {
	result := mustRun(t, synthetic(`"arrival_speedup_ratio":2,"replay_concurrency":1`))
	var got struct {
		Report     map[string]any      `json:"report"`
		Warnings   []string            `json:"warnings"`
		Rows       int                 `json:"rows"`
		Columns    map[string][]string `json:"columns"`
		WriteError string              `json:"write_error"`
	}
	if err := json.Unmarshal([]byte(result.JSON()), &got); err != nil {
		t.Fatal(err)
	}
	if got.Report["completed_requests"] != 3.0 || got.Report["timing_model"] != "polynomial" || got.Rows != 3 ||
		got.WriteError != "" ||
		!slices.Equal(got.Warnings, []string{"arrival_speedup_ratio 2 has no effect with replay_concurrency"}) {
		t.Errorf("got %+v", got)
	}
	// the reference's 74, rejected_requests, finished_requests, timing_model and six counts
	if n := len(got.Report); n != 83 {
		t.Errorf("got %d keys", n)
	}
	for _, name := range got.Columns["float"] {
		if column, ok := result.Floats(name); !ok || len(column) != 3 {
			t.Errorf("%s: got %v", name, column)
		}
	}
	for _, name := range got.Columns["int"] {
		if column, ok := result.Ints(name); !ok || len(column) != 3 {
			t.Errorf("%s: got %v", name, column)
		}
	}
	for _, name := range got.Columns["text"] {
		if column, ok := result.Strings(name); !ok || len(column) != 3 {
			t.Errorf("%s: got %v", name, column)
		}
	}
	if !strings.Contains(mustRun(t, synthetic("")).JSON(), `"warnings":[]`) {
		t.Error("no warnings must be an empty list")
	}
}

func TestWarnings(t *testing.T) {
	trace := writeTrace(t, `{"timestamp":0,"output_length":1,"hash_ids":[1],"priority":3}`)
	hints := mustRun(t, fmt.Sprintf(`{"kind":"trace","trace_files":[%q]}`, trace)).warnings
	if want := []string{trace + ": priority and strict_priority have no effect with router_mode " +
		"round_robin"}; !slices.Equal(hints, want) {
		t.Errorf("got %q", hints)
	}
	inert := mustRun(t, synthetic(`"extra_engine_args":"{\"zmq_replay_port\":7}"`)).warnings
	if want := []string{"engine argument zmq_replay_port has no effect on offline replay"}; !slices.Equal(inert, want) {
		t.Errorf("got %q", inert)
	}
	rejected := mustRun(t, `{"kind":"synthetic","input_tokens":90,"output_tokens":2,"request_count":7,`+
		`"extra_engine_args":"{\"num_gpu_blocks\":1}"}`).warnings
	const reason = "prompt of 90 + output of 2 tokens need 2 blocks of 64, num_gpu_blocks is 1; "
	want := "7 of 7 requests can never run and were rejected: request 0: " + reason + "request 1: " + reason +
		"request 2: " + reason +
		"request 3: " + reason + "request 4: " + reason + "and 2 more"
	if !slices.Equal(rejected, []string{want}) {
		t.Errorf("got  %q\nwant %q", rejected, want)
	}
}

func TestRowsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "folder", "rows.jsonl")
	run := func(config string) *Result {
		return mustRun(t, strings.Replace(config, "PATH", path, 1))
	}
	for _, requests := range []string{"", `,"max_sim_time_ms":0`} { // the second run overwrites the first
		result := run(synthetic(`"report_jsonl_path":"PATH"` + requests))
		text, err := os.ReadFile(path)
		if err != nil || result.writeErr != nil {
			t.Fatal(err, result.writeErr)
		}
		if n := strings.Count(string(text), "\n"); n != result.rows.Len() {
			t.Errorf("got %d lines for %d rows", n, result.rows.Len())
		}
	}
	if files := list(t, filepath.Dir(path)); !slices.Equal(files, []string{"rows.jsonl"}) {
		t.Errorf("left behind: %v", files)
	}
	if mode, err := os.Stat(path); err != nil || mode.Mode().Perm() != 0o644 {
		t.Errorf("got %v, %v", mode.Mode(), err)
	}
}

// TestRowsFileThatCannotBeWritten: the report of a finished run must not be lost with it.
func TestRowsFileThatCannotBeWritten(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{folder, filepath.Join(folder, "file", "rows.jsonl")} {
		result := mustRun(t, strings.Replace(synthetic(`"report_jsonl_path":"PATH"`), "PATH", path, 1))
		if result.writeErr == nil || !strings.Contains(result.JSON(), `"write_error":"`) ||
			strings.Contains(result.JSON(), `"write_error":""`) {
			t.Errorf("%s: no error", path)
		}
		if files := list(t, folder); !slices.Equal(files, []string{"file"}) {
			t.Errorf("left behind: %v", files)
		}
	}
}

// TestFileIsWholeOrAbsent breaks off while a file is written.
func TestFileIsWholeOrAbsent(t *testing.T) {
	broken := errors.New("broken")
	half := func(w io.Writer) error {
		if _, err := io.WriteString(w, "half"); err != nil {
			return err
		}
		return broken
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "rows")
	if err := writeWhole(path, half); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if files := list(t, folder); len(files) != 0 {
		t.Errorf("left behind: %v", files)
	}
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeWhole(path, half); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(path); string(text) != "old" || err != nil || len(list(t, folder)) != 1 {
		t.Errorf("got %q, %v, %v", text, err, list(t, folder))
	}
}

func TestLinksAndDevicesStay(t *testing.T) {
	folder := t.TempDir()
	target, link, device := filepath.Join(folder, "target"), filepath.Join(folder, "link"),
		filepath.Join(folder, "device")
	if err := errors.Join(os.WriteFile(target, []byte("old"), 0o644), os.Symlink(target, link),
		os.Symlink(os.DevNull, device)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, device} {
		if err := writeWhole(path, func(w io.Writer) error {
			_, err := io.WriteString(w, "new")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is no link any more", path)
		}
	}
	if text, err := os.ReadFile(target); string(text) != "new" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode()&os.ModeDevice == 0 {
		t.Errorf("%s is no device any more", os.DevNull)
	}
}

// list returns the names in a folder.
func list(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

type progress struct {
	Phase string  `json:"phase"`
	SimMs float64 `json:"sim_ms"`
	Done  int     `json:"done"`
	Total int     `json:"total"`
}

func watch(t *testing.T, m *Monitor) progress {
	t.Helper()
	var p progress
	if err := json.Unmarshal([]byte(m.Progress()), &p); err != nil {
		t.Fatalf("%s: %v", m.Progress(), err)
	}
	return p
}

func TestProgress(t *testing.T) {
	m := new(Monitor)
	if got, want := watch(t, m), (progress{Phase: "loading"}); got != want {
		t.Errorf("before: got %v", got)
	}
	if _, err := Run(synthetic(`"replay_concurrency":1`), m); err != nil {
		t.Fatal(err)
	}
	if got := watch(t, m); got.Phase != "reporting" || got.Total != 3 {
		t.Errorf("after: got %v", got)
	}
	m = new(Monitor)
	for i, simMs := range []float64{0, 1e-7, 0.1, 123456789.123, 1e21, math.MaxFloat64} {
		for _, ms := range []float64{simMs, simMs / 2} { // of two workers
			if err := m.pollRun(ms, 1); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := watch(t, m), (progress{"loading", simMs, 2 + 2*i, 0}); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// long takes many seconds.
const long = `{"kind":"synthetic","input_tokens":64,"output_tokens":500,"request_count":500000,` +
	`"arrival_interval_ms":100}`

func TestCancelBeforeAnything(t *testing.T) {
	m := new(Monitor)
	m.Cancel()
	trace := writeTrace(t, strings.Repeat(`{"timestamp":0,"output_length":1,"hash_ids":[1]}`+"\n", 1000))
	for _, config := range []string{synthetic(""), fmt.Sprintf(`{"kind":"trace","trace_files":[%q]}`, trace)} {
		if _, err := Run(config, m); err == nil || Kind(err) != "cancelled" {
			t.Errorf("got %v", err)
		}
	}
	if p := watch(t, m); p.Done != 0 || p.SimMs != 0 {
		t.Errorf("something ran: %v", p)
	}
}

func TestCancelWhileLoading(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	old := os.Stdin
	defer func() { os.Stdin = old }()
	os.Stdin = reader
	m := new(Monitor)
	ended := start(`{"kind":"trace","trace_files":["-"]}`, m)
	const enough = 20
	wroteEnough := make(chan struct{})
	go func() { // an endless trace, until the pipe is closed
		rows := strings.Repeat(`{"timestamp":0,"output_length":1,"hash_ids":[1]}`+"\n", 1000)
		for n := 1; ; n++ {
			if _, err := io.WriteString(writer, rows); err != nil {
				return
			}
			if n == enough {
				close(wroteEnough)
			}
		}
	}()
	<-wroteEnough
	if p := watch(t, m); p.Phase != "loading" || p.Total != 0 {
		t.Errorf("got %v", p)
	}
	m.Cancel()
	select {
	case err := <-ended:
		if Kind(err) != "cancelled" {
			t.Errorf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("not cancelled")
	}
	reader.Close()
	writer.Close()
}

func TestCancelWhileRunning(t *testing.T) {
	for _, workers := range []string{"", `,"num_workers":3`} {
		m := new(Monitor)
		ended := start(strings.TrimSuffix(long, "}")+workers+"}", m)
		for watch(t, m).Done == 0 {
			time.Sleep(time.Millisecond)
		}
		if p := watch(t, m); p.Phase != "running" || p.SimMs <= 0 || p.Total != 500_000 {
			t.Errorf("got %v", p)
		}
		m.Cancel()
		asked := time.Now()
		select {
		case err := <-ended:
			if Kind(err) != "cancelled" {
				t.Errorf("got %v", err)
			}
			t.Logf("stopped after %v", time.Since(asked))
		case <-time.After(time.Minute):
			t.Fatal("not cancelled")
		}
	}
}

// TestCancelWhileReporting writes the rows into a pipe that is not read until the run has been cancelled.
func TestCancelWhileReporting(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	defer writer.Close()
	m := new(Monitor)
	ended := start(fmt.Sprintf(`{"kind":"synthetic","input_tokens":8,"output_tokens":1,"request_count":5000,`+
		`"report_jsonl_path":"/dev/fd/%d"}`, writer.Fd()), m)
	for watch(t, m).Phase != "reporting" {
		time.Sleep(time.Millisecond)
	}
	m.Cancel()
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	select {
	case err := <-ended:
		if Kind(err) != "cancelled" {
			t.Errorf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("not cancelled")
	}
}

// start runs config beside the test and reports its error, which must not be nil.
func start(config string, m *Monitor) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := Run(config, m)
		if err == nil {
			err = errors.New("it ran to its end")
		}
		ended <- err
	}()
	return ended
}

// TestRanksFillTheirPools fills the pools of two ranks: no more than all of the KV of a worker is in use.
func TestRanksFillTheirPools(t *testing.T) {
	series := mustRun(t, `{"kind":"synthetic","input_tokens":128,"output_tokens":64,"request_count":40,`+
		`"timeseries_step":"100ms","extra_engine_args":"{\"scheduler\": \"vllm\", \"block_size\": 16, `+
		`\"num_gpu_blocks\": 24, \"dp_size\": 2}"}`).series
	use, ok := series.Floats("kv_use")
	if most := slices.Max(use); !ok || most < 0.6 || most > 1 {
		t.Errorf("at most %v of the pools is in use", most)
	}
}
