package job

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestProcessors: the results do not depend on how many workers run at the same time.
func TestProcessors(t *testing.T) {
	var trace strings.Builder
	for i := range 300 {
		fmt.Fprintf(&trace, `{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":[%d,%d]}`+"\n",
			7*i, 1+i*37%1024, 1+i*13%90, i%5, i)
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "t.jsonl")
	if err := os.WriteFile(path, []byte(trace.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var first string
	for _, processors := range []int{1, 2, 8} {
		rows := filepath.Join(folder, fmt.Sprint(processors))
		config := fmt.Sprintf(`{"kind":"trace","trace_files":[%q],"num_workers":6,"report_jsonl_path":%q,`+
			`"extra_engine_args":"{\"num_gpu_blocks\":24}"}`, path, rows)
		before := runtime.GOMAXPROCS(processors)
		result := mustRun(t, config)
		runtime.GOMAXPROCS(before)
		written, err := os.ReadFile(rows)
		if err != nil {
			t.Fatal(err)
		}
		got := string(written)
		for _, value := range result.summary {
			if !strings.Contains(value.Key, "wall_time") && !strings.HasSuffix(value.Key, "_per_s") {
				got += fmt.Sprintln(value)
			}
		}
		if first == "" {
			first = got
		}
		if got != first {
			t.Errorf("%d processors change the results", processors)
		}
	}
}

func TestInParallel(t *testing.T) {
	done := make([]int, 1000)
	inParallel(len(done), func(i int) { done[i] += i })
	for i, n := range done {
		if n != i {
			t.Fatalf("%d was done %d times", i, n/max(1, i))
		}
	}
	defer func() {
		if cause := recover(); !strings.Contains(fmt.Sprint(cause), "out of order") {
			t.Errorf("got %v", cause)
		}
	}()
	inParallel(100, func(i int) {
		if i == 50 {
			panic("out of order")
		}
	})
}
