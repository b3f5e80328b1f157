package truth

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
)

// readCases hands the recorded cases of a file to see.
func readCases[C any](t *testing.T, path string, see func(*C)) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(bufio.NewReader(unzipped))
	for {
		var c C
		if err := lines.Decode(&c); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		see(&c)
	}
}

// TestRecordedSGLang compares every request, and the first passes, with what SGLang's own scheduler did: in all
// settings, in pools of few pages each as large as the chunk, with batches that mix prompts with decoding requests,
// with a tier of host memory, and with a second pool for layers that have a sliding window.
func TestRecordedSGLang(t *testing.T) {
	for name, want := range map[string]int{"sglang": 95, "sglang-small": 30, "sglang-mixed": 16, "sglang-hicache": 60,
		"sglang-window": 30} {
		t.Run(name, func(t *testing.T) {
			cases := 0
			readCases(t, "../../tests/truth/"+name+".jsonl.gz", func(c *Case) {
				cases++
				if err := check(c, "sglang-0.5"); err != nil {
					t.Errorf("%s: %v", c.ID, err)
				}
			})
			if cases != want {
				t.Errorf("got %d cases, want %d", cases, want)
			}
		})
	}
}

// TestCopiesOnTwoWorkers gives every row to each of two workers: the last request, which arrives while its worker only
// waits for a copy, is looked at as soon as on a single worker.
func TestCopiesOnTwoWorkers(t *testing.T) {
	const a = `"input_length": 64, "hash_ids": [1, 2, 3, 4]`
	twice := func(rows ...string) (all []json.RawMessage) {
		for _, row := range rows {
			all = append(all, json.RawMessage(row), json.RawMessage(row))
		}
		return all
	}
	c := &Case{
		Rows: twice(`{"timestamp": 0, "output_length": 2, `+a+`}`,
			`{"timestamp": 100, "input_length": 96, "output_length": 2, "hash_ids": [11, 12, 13, 14, 15, 16]}`,
			`{"timestamp": 300, "output_length": 3, `+a+`}`,
			`{"timestamp": 302, "input_length": 32, "output_length": 3, "hash_ids": [21, 22]}`),
		TraceBlockSize: 16,
		Engine: map[string]any{"block_size": 16, "num_gpu_blocks": 13, "max_num_seqs": 8, "scheduler": "vllm-0.33",
			"host_cache": map[string]any{"num_blocks": 32, "load_ms_per_block": 20, "store_ms_per_block": 1}},
	}
	args, err := c.Args(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := runOn(c, args, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range got.Requests[6:] {
		if r.Admit != 302 {
			t.Errorf("row %d was admitted at %v ms", r.Row, r.Admit)
		}
	}
}

// TestRecordedIntervals compares runs in which SGLang looked for new requests every few batches only: random workloads
// of tests/truth in which that admits requests at other times.
func TestRecordedIntervals(t *testing.T) {
	cases := 0
	readCases(t, "../../tests/truth/sglang-intervals.jsonl.gz", func(c *Case) {
		cases++
		if err := check(c, "sglang-0.5"); err != nil {
			t.Errorf("%s: %v", c.ID, err)
		}
		c.Engine["sglang"].(map[string]any)["scheduler_recv_interval"] = 1
		if check(c, "sglang-0.5") == nil {
			t.Errorf("%s: no difference without the interval", c.ID)
		}
	})
	if cases != 14 {
		t.Errorf("got %d cases, want 14", cases)
	}
}

// TestRecordedVLLM compares every request, and the first passes, with what vLLM's own scheduler did. Those of the first
// file are of release 0.28; others name theirs.
func TestRecordedVLLM(t *testing.T) {
	for file, want := range map[string]int{"vllm": 120, "vllm-033": 30, "vllm-hybrid": 60, "vllm-offload": 60,
		"vllm-hybrid-offload": 40, "vllm-hybrid-chunks": 30} {
		cases := 0
		readCases(t, "../../tests/truth/"+file+".jsonl.gz", func(c *Case) {
			cases++
			if err := check(c, cmp.Or(c.Scheduler, "vllm-0.28")); err != nil {
				t.Errorf("%s: %v", c.ID, err)
			}
		})
		if cases != want {
			t.Errorf("%s: got %d cases, want %d", file, cases, want)
		}
	}
}

func check(c *Case, scheduler string) error {
	args, err := c.Args(map[string]any{"scheduler": scheduler})
	if err != nil {
		return err
	}
	got, err := Run(c, args)
	if err != nil {
		return err
	}
	if difference := c.Difference(got); difference != "" {
		return fmt.Errorf("%s", difference)
	}
	return nil
}

// TestRecordedRanks compares every request, and its rank, with what vLLM's and SGLang's own schedulers did as
// data-parallel ranks that run their passes together; those of the second and the last file have host memory.
func TestRecordedRanks(t *testing.T) {
	for _, file := range []struct {
		name, scheduler string
		want            int
	}{{"ranks", "vllm-0.28", 50}, {"ranks-host", "vllm-0.33", 40}, {"sglang-ranks", "sglang-0.5", 41},
		{"sglang-ranks-host", "sglang-0.5", 30}} {
		cases := 0
		readCases(t, "../../tests/truth/"+file.name+".jsonl.gz", func(c *Case) {
			cases++
			if err := check(c, file.scheduler); err != nil {
				t.Errorf("%s: %v", c.ID, err)
			}
		})
		if cases != file.want {
			t.Errorf("%s: got %d cases, want %d", file.name, cases, file.want)
		}
	}
}
