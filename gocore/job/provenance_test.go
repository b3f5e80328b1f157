package job

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const sessions = `{"timestamp":0,"session_id":"a","hash_ids":[1,2],"input_length":8,"output_length":3}
{"timestamp":5,"hash_ids":[1,3],"input_length":8,"output_length":2}
{"timestamp":6,"hash_ids":[4,5],"input_length":8,"output_length":9}
{"session_id":"a","delay":10,"hash_ids":[1,2],"input_length":8,"output_length":4}
`

// TestRepeatedRuns carries out the arguments of a report once more: the same happens, and the new report says the same.
func TestRepeatedRuns(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	files := strings.NewReplacer("TRACE", write("trace.jsonl", sessions), "LENGTHS", write("lengths.txt", "5\n9\n30\n"),
		"DECISIONS", write("decisions.jsonl", `{"trace_row":1,"decode_worker_idx":1}`+"\n"))
	for _, c := range []string{
		synthetic(``),
		synthetic(`"request_rate":5,"arrival_process":"poisson","seed":18446744073709551615`),
		synthetic(`"turns_per_session":2,"shared_prefix_ratio":0.5,"num_prefix_groups":2,"max_sim_time_seconds":0.0123,` +
			`"sla_ttft_ms":10`),
		synthetic(`"replay_concurrency":2,"extra_engine_args":"{\"engine_type\":\"SGLang\",\"block_size\":3000,` +
			`\"sglang\":{\"schedule_policy\":\"lpm\"}}"`),
		synthetic(`"extra_engine_args":"{\"engine_type\":\"sglang\",\"sglang\":{\"page_size\":16,` +
			`\"reference_quirks\":false}}"`),
		synthetic(`"extra_engine_args":"{\"max_num_seqs\":null,\"num_gpu_blocks_override\":50,\"aic_nextn\":2,` +
			`\"aic_nextn_accept_rates\":\"0.9,0.5\",\"startup_time\":3}"`),
		`{"kind":"synthetic","input_tokens":"empirical(LENGTHS)","output_tokens":"uniform(1, 4)","request_count":5}`,
		traced(`"trace_block_size":4,"extra_engine_args":"{\"block_size\":4,\"num_gpu_blocks\":20,` +
			`\"preemption_mode\":\"fifo\"}"`),
		traced(`"trace_block_size":4,"num_workers":2,"router_mode":"kv_router","seed":3`),
		traced(`"trace_block_size":4,"num_workers":2,"router_mode":"kv_router",` +
			`"router_config":"{\"overlap_score_weight\":0,\"router_queue_threshold\":null}"`),
		traced(`"trace_block_size":4,"num_workers":2,"router_mode":"kv_router","router_decisions":"DECISIONS",` +
			`"router_decisions_mode":"force"`),
		traced(`"trace_block_size":4,"router_mode":"kv_router","num_prefill_workers":2,` +
			`"prefill_engine_args":"{\"is_prefill\":true,\"kv_bytes_per_token\":1000,\"kv_transfer_bandwidth\":1}",` +
			`"decode_engine_args":"{\"worker_type\":\"decode\"}"`),
		traced(`"trace_format":"mooncake-delta"`),
	} {
		first := mustRun(t, files.Replace(c))
		again := mustRun(t, repeat(t, first))
		for _, kept := range [][2]any{{first.origin, again.origin}, {rowsOf(t, first), rowsOf(t, again)}} {
			if one, two := marshal(t, kept[0]), marshal(t, kept[1]); one != two {
				t.Errorf("%s\nfirst:  %s\nagain: %s", c, one, two)
			}
		}
	}
}

// repeat returns the description of a run that carries out what another one did.
func repeat(t *testing.T, r *Result) string {
	t.Helper()
	kind := kindTrace
	if r.origin.Function == functions[kindSynthetic] {
		kind = kindSynthetic
	}
	config := map[string]any{"kind": kind, "expected_inputs": r.origin.Inputs}
	for name, value := range r.origin.Arguments {
		if object, ok := value.(map[string]any); ok {
			value = marshal(t, object)
		}
		config[name] = value
	}
	return marshal(t, config)
}

func rowsOf(t *testing.T, r *Result) string {
	t.Helper()
	var text bytes.Buffer
	if err := r.rows.WriteJSONL(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestArgumentsAreWhole(t *testing.T) {
	trace := writeTrace(t, sessions)
	config := strings.ReplaceAll(traced(`"trace_block_size":4,"num_workers":2,"router_mode":"kv_router",`+
		`"report_jsonl_path":"ROWS","save_trace":"SAVED"`), "TRACE", trace)
	config = strings.NewReplacer("ROWS", trace+".rows", "SAVED", trace+".saved").Replace(config)
	got := mustRun(t, config).origin
	want := map[string]string{
		"trace_files": marshal(t, []string{trace}), "trace_block_size": "4", "trace_format": `"mooncake"`,
		"num_workers": "2",
		"router_mode": `"kv_router"`, "seed": "0", "arrival_speedup_ratio": "1", "replay_mode": `"offline"`,
		"trace_num_prefix_groups": "0", "trace_shared_prefix_ratio": "0",
	}
	for name, value := range got.Arguments {
		switch text, known := want[name]; {
		case known && marshal(t, value) != text:
			t.Errorf("%s: got %s, want %s", name, marshal(t, value), text)
		case !known && name != "extra_engine_args" && name != "router_config":
			t.Errorf("%s should not be there", name)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("not there: %v", want)
	}
	engine := got.Arguments["extra_engine_args"].(map[string]any)
	if engine["block_size"] != 64 || engine["num_gpu_blocks"] != 16384 || engine["enable_chunked_prefill"] != true ||
		engine["max_num_seqs"] != 256 {
		t.Errorf("got %v", engine)
	}
	if router := got.Arguments["router_config"].(map[string]any); router["overlap_score_credit"] != 1.0 ||
		router["router_queue_policy"] != "fcfs" {
		t.Errorf("got %v", router)
	}
	if len(got.Inputs) != 1 || got.Inputs[0].Path != trace || len(got.Inputs[0].SHA256) != 64 {
		t.Errorf("got %v, want the trace with its hash", got.Inputs)
	}
}

func TestExpectedInputs(t *testing.T) {
	trace := writeTrace(t, sessions)
	first := mustRun(t, strings.ReplaceAll(traced(`"trace_block_size":4`), "TRACE", trace))
	if err := os.WriteFile(trace, []byte(sessions+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Run(repeat(t, first), &Monitor{})
	if Kind(err) != "usage" || !strings.Contains(err.Error(),
		"trace_files: "+trace+" has changed since the report: its SHA-256 begins with ") {
		t.Errorf("got %v", err)
	}
	for expected, want := range map[string]string{
		`[]`: "is not among the inputs of the report",
		`7`:  "expected_inputs: got something else, want a list of objects with argument, path and sha256",
		marshal(t, []inputFile{{"trace_files", trace, ""}}): "was read from a stream, which cannot be repeated",
	} {
		config := strings.ReplaceAll(traced(`"expected_inputs":`+expected), "TRACE", trace)
		if _, err := Run(config, &Monitor{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", expected, err, want)
		}
	}
}

func TestProvenanceIsInTheResult(t *testing.T) {
	var got struct{ Provenance map[string]any }
	if err := json.Unmarshal([]byte(mustRun(t, synthetic(``)).JSON()), &got); err != nil {
		t.Fatal(err)
	}
	if got.Provenance["function"] != "run_synthetic_trace_replay" ||
		!reflect.DeepEqual(got.Provenance["inputs"], []any{}) {
		t.Errorf("got %v", got.Provenance)
	}
}
