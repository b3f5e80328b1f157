package job

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"dynosim/gocore/job/memory"
	"dynosim/gocore/workload"
)

func bounded(t *testing.T, bytes int64) budget {
	t.Helper()
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	return newBudget(memory.Room{Bytes: bytes, By: "the test", Usable: bytes / 2})
}

func TestBudget(t *testing.T) {
	b := bounded(t, 1<<40)
	if err := b.check(); err != nil {
		t.Errorf("with room: %v", err)
	}
	if err := b.admit(1<<38, "runs"); err != nil {
		t.Errorf("with room: %v", err)
	}
	if err := b.admit(1<<40, "runs"); err == nil ||
		!strings.Contains(err.Error(), "memory: runs need at least 1024.0 GB, the test leaves 1024.0 GB") {
		t.Errorf("got %v", err)
	}
	b.limit = 1
	if err := b.check(); err == nil || Kind(err) != "failed" || !strings.HasPrefix(err.Error(), "memory: ") {
		t.Errorf("got %v", err)
	}
	if b := newBudget(memory.Room{Bytes: memory.Unbounded, Usable: memory.Unbounded}); b.limit != math.MaxInt64 ||
		b.check() != nil || b.admit(1e18, "") != nil {
		t.Errorf("nothing bounds %+v", b)
	}
}

// TestLongPrompts: one that would run costs memory for each block, one that is rejected does not.
func TestLongPrompts(t *testing.T) {
	const config = `{"kind":"synthetic","input_tokens":512000000,"output_tokens":2,"request_count":1,` +
		`"extra_engine_args":"{\"num_gpu_blocks\":%d,\"block_size\":4}"}`
	_, err := Run(fmt.Sprintf(config, 1<<30), &Monitor{})
	want := "request 0: its prompt has 512000000 tokens, which are 128000000 blocks of 4: want at most 16777216 " +
		"blocks (or a larger block_size)"
	if err == nil || Kind(err) != "usage" || err.Error() != want {
		t.Errorf("got %v", err)
	}
	mustRun(t, fmt.Sprintf(config, 1<<20))
}

func TestLongLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	line := `{"timestamp":0,"input_length":4,"output_length":1,"hash_ids":[` + strings.Repeat("1,", 1<<20) + "1]}\n"
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Run(fmt.Sprintf(`{"kind":"trace","trace_files":[%q]}`, path), &Monitor{})
	if err == nil || !strings.HasSuffix(err.Error(),
		"line 1: hash_ids: got 1048577 ids, want at most 1048576: use larger trace blocks") {
		t.Errorf("got %v", err)
	}
}

// TestMonitorChecksMemory: every poll of a bounded run does.
func TestMonitorChecksMemory(t *testing.T) {
	var m Monitor
	if err := m.poll(); err != nil {
		t.Error(err)
	}
	b := bounded(t, 1<<40)
	b.limit = 1
	m.budget.Store(&b)
	var failed runError
	if err := m.pollRun(0, 0); !errors.As(err, &failed) {
		t.Errorf("got %v", err)
	}
}

// TestDividedLatenciesNeedMemory: a run that fits may not fit any more with its latencies divided.
func TestDividedLatenciesNeedMemory(t *testing.T) {
	b := bounded(t, 2*300*1000)
	spec := workload.SyntheticSpec{InputTokens: 10, OutputTokens: 1, RequestCount: 1000, TurnsPerSession: 1}
	if err := b.admitSynthetic(spec, 64); err != nil {
		t.Error(err)
	}
	b.extra = dividedBytes
	if err := b.admitSynthetic(spec, 64); err == nil ||
		!strings.HasPrefix(err.Error(), "memory: 1000 requests need at least") {
		t.Errorf("got %v", err)
	}
}

// TestSeriesNeedMemory: windows that are short, and many workers, may need more than there is.
func TestSeriesNeedMemory(t *testing.T) {
	b := bounded(t, 2<<30)
	for _, c := range []struct {
		series  journalSpec
		runMs   float64
		workers int
		want    string // "" fits
	}{
		{journalSpec{series: true, stepMs: 1}, 1e9, 30,
			"memory: 131072 windows of 1 ms (timeseries_step) for each of 30 workers need at least 1.3 GB, the test " +
				"leaves 2.0 GB, 1.0 GB of it for the run: want a longer timeseries_step or fewer workers, or more memory"},
		{journalSpec{series: true, stepMs: 1}, 1e9, 10, ""},
		{journalSpec{series: true, stepMs: 1000}, 1e6, 1000, ""},
		{journalSpec{series: true, stepMs: 1000}, 1e7, 1000,
			"memory: 10000 windows of 1000 ms (timeseries_step) for each of 1000 workers need at least 3.3 GB, the " +
				"test leaves 2.0 GB, 1.0 GB of it for the run: want a longer timeseries_step or fewer workers, or more memory"},
		{journalSpec{series: true}, 1e9, 1000, ""}, // the journal chooses the step
		{journalSpec{timeline: "t"}, 1e9, 1000, ""},
	} {
		err := b.admitSeries(c.series, c.runMs, c.workers)
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && got != c.want {
			t.Errorf("%+v for %v ms: got %v, want %q", c.series, c.runMs, err, c.want)
		}
	}
}

// TestLargeSeriesAreRefused: before anything is simulated or written.
func TestLargeSeriesAreRefused(t *testing.T) {
	if memory.Free().Bytes > 1<<40 {
		t.Skip("there is memory for it")
	}
	path := filepath.Join(t.TempDir(), "saved.jsonl")
	config := fmt.Sprintf(`{"kind":"synthetic","input_tokens":8,"output_tokens":2,"request_count":60000,`+
		`"arrival_interval_ms":10,`+
		`"num_workers":60000,"timeseries_step":"1ms","save_trace":%q}`, path)
	_, err := Run(config, new(Monitor))
	if err == nil || Kind(err) != "usage" || !strings.HasPrefix(err.Error(), "memory: 131072 windows of 1 ms "+
		"(timeseries_step) for each of 60000 workers need at least") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the trace was saved: %v", err)
	}
}
