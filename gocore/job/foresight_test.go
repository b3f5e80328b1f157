package job

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func foreseen(t *testing.T, m *Monitor, runs ...string) Foresight {
	t.Helper()
	text, err := Foresee(`{"runs": [`+strings.Join(runs, ",")+`]}`, m)
	if err != nil {
		t.Fatal(err)
	}
	var found Foresight
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestForesee(t *testing.T) {
	const made = `{"kind": "synthetic", "input_tokens": 6500, "output_tokens": 10, "request_count": 8, ` +
		`"arrival_interval_ms": 10`
	found := foreseen(t, &Monitor{},
		made+`}`,
		made+`, "num_workers": 1, "seed": 0}`,
		made+`, "num_workers": 3, "extra_engine_args": "{\"aic_tp_size\": 4, \"num_gpu_blocks\": 100}"}`,
		made+`, "num_workers": 0}`,
		made+`, "replay_mode": "online"}`,
		`{"kind": "synthetic", "input_tokens": "uniform(10,20)", "output_tokens": 10, "request_count": 8, `+
			`"router_mode": "round_robin",
		  "num_prefill_workers": 2, "num_decode_workers": 3, "replay_concurrency": 2,
		  "prefill_engine_args": "{\"worker_type\": \"prefill\", \"aic_tp_size\": 2}", `+
			`"decode_engine_args": "{\"worker_type\": \"decode\"}"}`,
	)
	if !slices.Contains(found.Keys, "goodput_request_throughput_rps") || !slices.Contains(found.Keys, "p99_ttft_ms") {
		t.Errorf("keys: got %v", found.Keys)
	}
	plain, filled, small, wrong, online, pools := found.Runs[0], found.Runs[1], found.Runs[2], found.Runs[3],
		found.Runs[4], found.Runs[5]
	if plain.Identity == "" || plain.Identity != filled.Identity || plain.Identity == small.Identity {
		t.Errorf("identities: %q, with defaults written out %q, another run %q", plain.Identity, filled.Identity,
			small.Identity)
	}
	if plain.ArrivalRPS == nil || *plain.ArrivalRPS != 100 || plain.Drawn || plain.Misfit != "" || plain.Requests != 8 {
		t.Errorf("got %+v", plain)
	}
	if small.DecodeGPUs != 12 || !strings.Contains(small.Misfit,
		"a prompt of 6500 tokens is larger than the KV pool, 100 blocks of 64") {
		t.Errorf("got %+v", small)
	}
	if !strings.HasPrefix(wrong.Error, "num_workers: got 0") || !strings.HasPrefix(online.Error, "replay_mode") {
		t.Errorf("errors: %q, %q", wrong.Error, online.Error)
	}
	if pools.PrefillGPUs != 4 || pools.DecodeGPUs != 3 || !pools.Drawn || pools.ArrivalRPS != nil {
		t.Errorf("got %+v", pools)
	}
}

// TestForeseeUnreadableFile: every run with a file that cannot be read is refused, and not only the first of a call.
func TestForeseeUnreadableFile(t *testing.T) {
	const run = `{"kind": "trace", "trace_files": ["/proc/self/mem"]}` // its first byte is not mapped
	for i, facts := range foreseen(t, &Monitor{}, run, run).Runs {
		if !strings.HasPrefix(facts.Error, "trace_files: ") {
			t.Errorf("run %d: got error %q and identity %q", i, facts.Error, facts.Identity)
		}
	}
}

// TestForeseeTrace: a run is what its input files hold, whatever they are called.
func TestForeseeTrace(t *testing.T) {
	folder := t.TempDir()
	write := func(name, rows string) (run string, m *Monitor) {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(rows), 0o600); err != nil {
			t.Fatal(err)
		}
		quoted, _ := json.Marshal([]string{path})
		trace, err := LoadTrace(`{"trace_files": `+string(quoted)+`}`, &Monitor{})
		if err != nil {
			t.Fatal(err)
		}
		return `{"kind": "trace", "trace_files": ` + string(quoted) + `}`, &Monitor{Trace: trace}
	}
	const rows = `{"timestamp": 0, "input_length": 100, "output_length": 5, "hash_ids": [1]}
{"timestamp": 500, "input_length": 700, "output_length": 5, "hash_ids": [1, 2]}
`
	run, m := write("a.jsonl", rows)
	first := foreseen(t, m, run).Runs[0]
	if first.Requests != 2 || first.ArrivalRPS == nil || *first.ArrivalRPS != 4 || len(first.Inputs) != 1 {
		t.Errorf("got %+v", first)
	}
	run, m = write("b.jsonl", rows)
	if same := foreseen(t, m, run).Runs[0]; same.Identity != first.Identity {
		t.Error("the same trace under another name is another run")
	}
	run, m = write("a.jsonl", strings.Replace(rows, "700", "701", 1))
	if other := foreseen(t, m, run).Runs[0]; other.Identity == first.Identity {
		t.Error("another trace under the same name is the same run")
	}
}
