package job

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const recorded = `{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1030,` +
	`"request":{"request_id":"a","output_tokens":2,"request_received_ms":1000,"replay":{"trace_block_size":4,` +
	`"input_length":8,"input_sequence_hashes":[5,6]}}}`

func TestConvert(t *testing.T) {
	input := writeTrace(t, recorded)
	output := filepath.Join(filepath.Dir(input), "new", "trace.jsonl")
	config := marshal(t, map[string]any{"input_path": []string{input}, "output_file": output})
	summary, err := Convert(config, new(Monitor))
	if want := "rows: 1\ntrace block size: 4\n"; err != nil || summary != want {
		t.Fatalf("got %q, %v, want %q", summary, err, want)
	}
	text, err := os.ReadFile(output)
	if want := `{"input_length":8,"output_length":2,"hash_ids":[0,1],"timestamp":0.0}` + "\n"; err != nil ||
		string(text) != want {
		t.Errorf("got %q, %v, want %q", text, err, want)
	}
}

func TestInspect(t *testing.T) {
	config := marshal(t, map[string]any{"trace_files": []string{writeTrace(t, recorded)}, "trace_format": "dynamo",
		"block_size": 4})
	text, err := Inspect(config, new(Monitor))
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Stats struct{ Requests int }
		Text  string
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil || found.Stats.Requests != 1 ||
		!strings.HasPrefix(found.Text, "requests 1, ") {
		t.Errorf("got %s, %v", text, err)
	}
}

func TestRefusedConversionsAndInspections(t *testing.T) {
	type command func(string, *Monitor) (string, error)
	for _, c := range []struct {
		do           command
		config, want string
		kind         string
	}{
		{Convert, `{"output_file":"x"}`, "input_path: got nothing, want a list of strings", "usage"},
		{Convert, `{"input_path":["none"],"output_file":""}`, `output_file: got "", want a string that is not empty`,
			"usage"},
		{Convert, `{"input_path":["none"],"output_file":"x"}`, "input_path: none: file does not exist", "notfound"},
		{Convert, `{"input_path":[],"output_file":"x"}`,
			"got no trace files, want at least one for trace_format dynamo", "usage"},
		{Inspect, `{}`, "trace_files: got 0 files, want exactly one for trace_format mooncake", "usage"},
		{Inspect, `{"trace_files":["none"],"trace_format":"dynamo"}`, "trace_files: none: file does not exist",
			"notfound"},
		{Inspect, `{"trace_files":["none"],"block_size":0}`, "block_size: got 0, want an integer from 1 to 1048576",
			"usage"},
		{Inspect, `{"trace_files":["none"],"num_workers":2}`, `unknown field "num_workers"`, "usage"},
	} {
		if _, err := c.do(c.config, new(Monitor)); err == nil || !strings.HasPrefix(err.Error(), c.want) ||
			Kind(err) != c.kind {
			t.Errorf("%s: got %v, want %s: %s", c.config, err, c.kind, c.want)
		}
	}
	cancelled := new(Monitor)
	cancelled.Cancel()
	folder := t.TempDir()
	config := marshal(t, map[string]any{"input_path": []string{writeTrace(t, recorded)},
		"output_file": filepath.Join(folder, "x")})
	if _, err := Convert(config, cancelled); Kind(err) != "cancelled" || len(list(t, folder)) > 0 {
		t.Errorf("got %v and %v, want a cancelled run without files", err, list(t, folder))
	}
}
