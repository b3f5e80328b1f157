package job

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// writeSessions writes a trace with delays, which a run changes, and returns its path.
func writeSessions(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, `{"session_id":"s%d","timestamp":%d,"input_length":40,"output_length":5,"hash_ids":[1,%d,%d]}`+"\n",
			i%7, 10*i+3, i%3, i)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func loadShared(t *testing.T, path, more string) (*Trace, error) {
	t.Helper()
	return LoadTrace(fmt.Sprintf(`{"trace_files":[%q],"trace_block_size":16,"block_size":4%s}`, path, more), &Monitor{})
}

// outcome returns all that a run leaves, without the clock.
func outcome(t *testing.T, config string, m *Monitor) string {
	t.Helper()
	r, err := Run(config, m)
	if err != nil {
		t.Fatal(err)
	}
	var whole map[string]any
	if err := json.Unmarshal([]byte(r.JSON()), &whole); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"} {
		delete(whole["report"].(map[string]any), key)
	}
	var rows strings.Builder
	if err := r.rows.WriteJSONL(&rows); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(whole, rows.String())
}

// TestSharedTrace: runs that share a trace, also at the same time, are those that read it themselves.
func TestSharedTrace(t *testing.T) {
	path := writeSessions(t)
	trace, err := loadShared(t, path, "")
	if err != nil {
		t.Fatal(err)
	}
	var configs, want []string
	for _, blockSize := range []int{4, 8} {
		for _, more := range []string{`"arrival_speedup_ratio":2.5`, `"arrival_speedup_ratio":0.5,"num_workers":3`,
			`"replay_concurrency":2`} {
			config := fmt.Sprintf(`{"kind":"trace","trace_files":[%q],"trace_block_size":16,`+
				`"extra_engine_args":"{\"block_size\":%d}",%s}`,
				path, blockSize, more)
			configs, want = append(configs, config), append(want, outcome(t, config, &Monitor{}))
		}
	}
	got := make([]string, len(configs))
	var group sync.WaitGroup
	for i := range configs {
		group.Go(func() { got[i] = outcome(t, configs[i], &Monitor{Trace: trace}) })
	}
	group.Wait()
	for i := range configs {
		if got[i] != want[i] {
			t.Errorf("%s\ngot  %.300s\nwant %.300s", configs[i], got[i], want[i])
		}
	}
}

// TestSharedTraceStays: it keeps what was read, and refuses to read something else for another block size.
func TestSharedTraceStays(t *testing.T) {
	path := writeSessions(t)
	trace, err := loadShared(t, path, "")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`{"kind":"trace","trace_files":[%q],"trace_block_size":16,`+
		`"extra_engine_args":"{\"block_size\":4}"}`, path)
	want := outcome(t, config, &Monitor{})
	if err := os.WriteFile(path, []byte(`{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[1]}`),
		0o644); err != nil {
		t.Fatal(err)
	}
	if got := outcome(t, config, &Monitor{Trace: trace}); got != want {
		t.Errorf("got %.300s, want what was read before the file changed", got)
	}
	if _, err := Run(strings.Replace(config, `\"block_size\":4`, `\"block_size\":8`, 1),
		&Monitor{Trace: trace}); err == nil ||
		!strings.Contains(err.Error(), "has changed since it was loaded") || Kind(err) != "usage" {
		t.Errorf("got %v, want that the file has changed", err)
	}
	if _, err := loadShared(t, path, fmt.Sprintf(`,"sha256":[%q]`, trace.hashes[0])); err == nil ||
		!strings.Contains(err.Error(), "has changed") {
		t.Errorf("got %v, want that the file has changed", err)
	}
}

func TestTraceThatCannotBeShared(t *testing.T) {
	if _, err := loadShared(t, "-", ""); err == nil ||
		!strings.Contains(err.Error(), "trace_files: got standard input, want a file") {
		t.Errorf("got %v, want standard input refused", err)
	}
	if _, err := loadShared(t, filepath.Join(t.TempDir(), "none"), ""); Kind(err) != "notfound" {
		t.Errorf("got %v, want that there is no such file", err)
	}
}
