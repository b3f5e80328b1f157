package job

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// TestNoRows: a run without rows has the report and the warnings of one with rows, to the last bit.
func TestNoRows(t *testing.T) {
	const engine = `"extra_engine_args":"{\"block_size\":4,\"num_gpu_blocks\":60,\"max_num_seqs\":6}"`
	const sglang = `"extra_engine_args":"{\"engine_type\":\"sglang\",\"block_size\":4,\"num_gpu_blocks\":60}"`
	const lengths = `"input_tokens":"uniform(5,90)","output_tokens":"uniform(1,40)","request_count":300,` +
		`"request_rate":900,"arrival_process":"poisson",`
	fixed := `"input_tokens":50,"output_tokens":20,"request_count":200,`
	rejecting := `"input_tokens":"uniform(5,400)","output_tokens":"uniform(1,200)","request_count":200,`
	cases := []string{
		fixed + engine,
		lengths + engine,
		lengths + engine + `,"arrival_speedup_ratio":3.5,"num_workers":5`,
		lengths + engine + `,"num_workers":3,"router_mode":"kv_router"`,
		lengths + engine + `,"num_workers":3,"router_mode":"kv_router","router_config":"{\"router_queue_threshold\":0.1}"`,
		lengths + engine + `,"replay_concurrency":7`,
		lengths + engine + `,"replay_concurrency":7,"num_workers":2,"sla_ttft_ms":30,"sla_itl_ms":12`,
		lengths + engine + `,"max_sim_time_ms":150,"num_workers":2,"sla_e2e_ms":100`,
		lengths + engine + `,"max_sim_time_ms":150`,
		lengths + sglang + `,"num_workers":2`,
		rejecting + engine + `,"num_workers":2`,
		rejecting + engine,
		fixed + engine + `,"turns_per_session":3,"shared_prefix_ratio":0.5,"num_prefix_groups":2`,
		fixed + `"prefill_engine_args":"{\"worker_type\":\"prefill\"}",` +
			`"decode_engine_args":"{\"worker_type\":\"decode\"}","router_mode":"round_robin"`,
	}
	kinds := make([]string, len(cases))
	for i := range cases {
		kinds[i] = "synthetic"
	}
	trace := fmt.Sprintf(`"trace_files":[%q],"trace_block_size":16,`, writeSessions(t))
	for _, more := range []string{engine, engine + `,"num_workers":3`, engine + `,"replay_concurrency":2`} {
		cases, kinds = append(cases, trace+more), append(kinds, "trace")
	}
	plain := fmt.Sprintf(`"trace_files":[%q],"trace_block_size":16,`, writePlain(t))
	for _, more := range []string{
		engine, engine + `,"num_workers":3`, engine + `,"replay_concurrency":4`,
		sglang + `,"num_workers":2,"arrival_speedup_ratio":3`,
		engine + `,"num_workers":3,"router_mode":"kv_router","sla_ttft_ms":30`, engine + `,"max_sim_time_ms":150`,
	} {
		cases, kinds = append(cases, plain+more), append(kinds, "trace")
	}
	for i, more := range cases {
		parse := func(config string) (whole map[string]any) {
			r, err := Run(config, &Monitor{})
			if err != nil {
				t.Fatalf("%s: %v", config, err)
			}
			if err := json.Unmarshal([]byte(r.JSON()), &whole); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"} {
				delete(whole["report"].(map[string]any), key)
			}
			return whole
		}
		with := parse(fmt.Sprintf(`{"kind":%q,%s}`, kinds[i], more))
		without := parse(fmt.Sprintf(`{"kind":%q,"rows":false,%s}`, kinds[i], more))
		if without["rows"] != 0.0 || len(without["columns"].(map[string]any)["float"].([]any)) != 0 ||
			with["rows"] == 0.0 {
			t.Errorf("%s: got %v rows, and %v with rows", more, without["rows"], with["rows"])
		}
		for _, key := range []string{"report", "warnings", "provenance"} {
			if !reflect.DeepEqual(with[key], without[key]) {
				t.Errorf("%s: %s\nwith rows    %v\nwithout them %v", more, key, with[key], without[key])
			}
		}
	}
}

// writePlain writes a trace of requests that share prefixes and do not wait for each other. Some are too large for a
// small pool, some have more ids than they need or fewer.
func writePlain(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plain.jsonl")
	var b strings.Builder
	for i := range 150 {
		ids := []string{fmt.Sprint(i % 3), fmt.Sprint(i % 5)}
		if i%4 > 0 {
			ids = append(ids, fmt.Sprint(100+i), fmt.Sprint(200+i%9))
		}
		if i%40 == 7 {
			ids = slices.Repeat(ids, 10)
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, `{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":[%s]}`+"\n",
			3*i+5, 16*len(ids)-i%20, 1+i%23, strings.Join(ids, ","))
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRowsThatAreAskedForTwice(t *testing.T) {
	_, err := Run(`{"kind":"synthetic","input_tokens":5,"output_tokens":5,"request_count":5,"rows":false,`+
		`"report_jsonl_path":"x"}`, &Monitor{})
	if err == nil || !strings.Contains(err.Error(), "rows: got false, want true, or no report_jsonl_path") {
		t.Errorf("got %v", err)
	}
}

// TestThrift: the last of several thrifty runs puts things back.
func TestThrift(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	first, second := beThrifty(), beThrifty()
	first()
	if got := debug.SetGCPercent(thriftPercent); got != thriftPercent {
		t.Errorf("got %d during a run, want %d", got, thriftPercent)
	}
	second()
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("got %d afterwards, want 100", got)
	}
}
