package job

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// synthetic completes a description of a small synthetic run with more members.
func synthetic(members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"kind":"synthetic","input_tokens":8,"output_tokens":2,"request_count":3` + members + `}`
}

// traced completes a description of a replay of the file that must stand in for TRACE.
func traced(members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"kind":"trace","trace_files":["TRACE"]` + members + `}`
}

func TestRefusedDescriptions(t *testing.T) {
	for _, c := range []struct{ name, config, want string }{
		{"not JSON", `{"kind":`, "line 1 column 9: unexpected end of text"},
		{"not an object", `[]`, "got [], want a JSON object"},
		{"no kind", `{}`, "kind: got nothing, want one of trace, synthetic"},
		{"other kind", `{"kind":"live"}`, `kind: got "live", want one of trace, synthetic`},
		{"unknown key", synthetic(`"num_worker":2`), `unknown field "num_worker", did you mean "num_workers"?`},
		{"duplicate key", synthetic(`"num_workers":2,"num_workers":2`),
			"num_workers: got a duplicate key, want the key once"},

		{"key of a trace run", synthetic(`"trace_block_size":4`),
			"trace_block_size: got 4, want it left out: it is for trace runs only"},
		{"files in a synthetic run", synthetic(`"trace_files":["x"]`),
			`trace_files: got ["x"], want it left out: it is for trace runs only`},
		{"key of a synthetic run", traced(`"turns_per_session":2`),
			"turns_per_session: got 2, want it left out: it is for synthetic runs only"},
		{"no files", `{"kind":"trace"}`, "trace_files: got nothing, want a list of strings"},
		{"empty list of files", `{"kind":"trace","trace_files":[]}`,
			"trace_files: got 0 files, want exactly one for trace_format mooncake"},
		{"two files", `{"kind":"trace","trace_files":["a","b"]}`,
			"trace_files: got 2 files, want exactly one for trace_format mooncake"},
		{"files of another type", `{"kind":"trace","trace_files":"a"}`, `trace_files: got "a", want a list of strings`},
		{"no input_tokens", `{"kind":"synthetic","output_tokens":1,"request_count":1}`,
			"input_tokens: got nothing, want an integer >= 1, uniform(A,B), "},
		{"no output_tokens", `{"kind":"synthetic","input_tokens":1,"request_count":1}`,
			"output_tokens: got nothing, want an integer >= 1, uniform(A,B), "},
		{"no request_count", `{"kind":"synthetic","input_tokens":1,"output_tokens":1}`,
			"request_count: got nothing, want an integer from 1 to 2147483647"},

		{"input_tokens", `{"kind":"synthetic","input_tokens":0,"output_tokens":1,"request_count":1}`,
			"input_tokens: got 0, want an integer from 1 to 2147483647"},
		{"output_tokens", `{"kind":"synthetic","input_tokens":1,"output_tokens":0,"request_count":1}`,
			"output_tokens: got 0, want an integer from 1 to 2147483647"},
		{"request_count", `{"kind":"synthetic","input_tokens":1,"output_tokens":1,"request_count":-1}`,
			"request_count: got -1, want an integer from 1 to 2147483647"},
		{"input_tokens with fraction", `{"kind":"synthetic","input_tokens":1.0,"output_tokens":1,"request_count":1}`,
			`input_tokens: got "1.0", want an integer >= 1, uniform(A,B), `},
		{"lengths of another type", `{"kind":"synthetic","input_tokens":[1],"output_tokens":1,"request_count":1}`,
			`input_tokens: got "[1]", want an integer >= 1, `},
		{"unknown distribution", `{"kind":"synthetic","input_tokens":"zipf(2)","output_tokens":1,"request_count":1}`,
			`input_tokens: zipf(2): got the distribution "zipf", want an integer >= 1, `},
		{"file of lengths", `{"kind":"synthetic","input_tokens":1,"output_tokens":"empirical(DIR)","request_count":1}`,
			"output_tokens: DIR is a directory, want a file"},
		{"bad line in it", `{"kind":"synthetic","input_tokens":1,"output_tokens":"empirical(TRACE)","request_count":1}`,
			"output_tokens: TRACE line 1: got "},
		{"arrival_process", synthetic(`"arrival_process":"uniform"`),
			`arrival_process: got "uniform", want one of constant, poisson, gamma, weibull`},
		{"arrival_process without a rate", synthetic(`"arrival_process":"poisson"`),
			"request_rate: missing, want a number > 0: arrival_process is poisson"},
		{"arrival_process without a variation", synthetic(`"arrival_process":"gamma","request_rate":2`),
			"arrival_cv: missing, want a number from 0.01 to 100: arrival_process is gamma"},
		{"request_rate", synthetic(`"request_rate":0`), "request_rate: got 0, want a finite number > 0"},
		{"arrival_cv", synthetic(`"arrival_cv":0`), "arrival_cv: got 0, want a finite number from 0.01 to 100"},
		{"arrival_cv for nothing", synthetic(`"arrival_cv":2,"request_rate":2`),
			"arrival_cv: got 2, want it left out: arrival_process is constant"},
		{"rate and interval", synthetic(`"request_rate":2,"arrival_interval_ms":500`),
			"arrival_interval_ms: got 500, want it left out with request_rate"},
		{"rate of a trace", traced(`"request_rate":2`),
			"request_rate: got 2, want it left out: it is for synthetic runs only"},
		{"save_trace", synthetic(`"save_trace":""`), `save_trace: got "", want a string that is not empty`},
		{"too many requests", synthetic(`"turns_per_session":1000000000`),
			"request_count: got 3 with turns_per_session 1000000000, want at most 33554432 requests in all"},
		{"num_workers 0", synthetic(`"num_workers":0`), "num_workers: got 0, want an integer from 1 to 65536"},
		{"num_workers as text", synthetic(`"num_workers":"2"`),
			`num_workers: got "2", want an integer from 0 to 65536`},
		{"replay_concurrency 0", synthetic(`"replay_concurrency":0`),
			"replay_concurrency: got 0, want an integer >= 1"},
		{"replay_concurrency negative", synthetic(`"replay_concurrency":-1`),
			"replay_concurrency: got -1, want an integer >= 1"},
		{"arrival_speedup_ratio 0", synthetic(`"arrival_speedup_ratio":0`),
			"arrival_speedup_ratio: got 0, want a finite number > 0"},
		{"arrival_speedup_ratio nan", synthetic(`"arrival_speedup_ratio":"nan"`),
			"arrival_speedup_ratio: got nan, want a finite number > 0"},
		{"arrival_speedup_ratio with a concurrency", synthetic(`"replay_concurrency":1,"arrival_speedup_ratio":-1`),
			"arrival_speedup_ratio: got -1, want a finite number > 0"},
		{"arrival_interval_ms", synthetic(`"arrival_interval_ms":-1`),
			"arrival_interval_ms: got -1, want a finite number >= 0"},
		{"arrival_interval_ms inf", synthetic(`"arrival_interval_ms":"inf"`),
			"arrival_interval_ms: got inf, want a finite number >= 0"},
		{"turns_per_session", synthetic(`"turns_per_session":0`),
			"turns_per_session: got 0, want an integer from 1 to 2147483647"},
		{"shared_prefix_ratio", synthetic(`"shared_prefix_ratio":1.5`),
			"shared_prefix_ratio: got 1.5, want a finite number from 0 to 1"},
		{"shared_prefix_ratio negative", synthetic(`"shared_prefix_ratio":-0.5`),
			"shared_prefix_ratio: got -0.5, want a finite number from 0 to 1"},
		{"num_prefix_groups", synthetic(`"num_prefix_groups":-1`),
			"num_prefix_groups: got -1, want an integer from 0 to 2147483647"},
		{"inter_turn_delay_ms", synthetic(`"inter_turn_delay_ms":-1`),
			"inter_turn_delay_ms: got -1, want a finite number >= 0"},
		{"max_sim_time_ms", synthetic(`"max_sim_time_ms":"nan"`),
			"max_sim_time_ms: got nan, want a finite number >= 0"},
		{"stop_when_late", synthetic(`"stop_when_late":"ttft_ms>2:1, wait_ms>3:4"`),
			`stop_when_late: got "wait_ms>3:4", want limits such as ttft_ms>2000:24,itl_ms>50:900, each of ttft_ms, `},
		{"stop_when_late twice", synthetic(`"stop_when_late":"e2e_ms>2:1,e2e_ms>3:4"`),
			`stop_when_late: got "e2e_ms>3:4", want`},
		{"stop_when_late nan", synthetic(`"stop_when_late":"e2e_ms>nan:1"`), `stop_when_late: got "e2e_ms>nan:1", want`},
		{"stop_when_late without a count", synthetic(`"stop_when_late":"itl_ms>50"`),
			`stop_when_late: got "itl_ms>50", want`},
		{"stop_when_late and faults", synthetic(`"stop_when_late":"itl_ms>50:1","faults":` +
			`"[{\"kind\":\"crash\",\"at_ms\":3,\"target\":\"worker:0\",\"duration_ms\":2}]"`),
			`stop_when_late: got "itl_ms>50:1", want it left out beside faults`},
		{"sla_ttft_ms", synthetic(`"sla_ttft_ms":-1`), "sla_ttft_ms: got -1, want a finite number >= 0"},
		{"sla_itl_ms", synthetic(`"sla_itl_ms":"inf"`), "sla_itl_ms: got inf, want a finite number >= 0"},
		{"sla_e2e_ms", synthetic(`"sla_e2e_ms":"-inf"`), "sla_e2e_ms: got -inf, want a finite number >= 0"},
		{"report_jsonl_path", synthetic(`"report_jsonl_path":""`),
			`report_jsonl_path: got "", want a string that is not empty`},
		{"trace_block_size", traced(`"trace_block_size":0`),
			"trace_block_size: got 0, want an integer from 1 to 1048576"},
		{"trace_format", traced(`"trace_format":"csv"`), `trace_format: got "csv", want one of mooncake, `},
		{"router_mode", synthetic(`"router_mode":"best"`),
			`router_mode: got "best", want one of round_robin, kv_router`},
		{"replay_mode", synthetic(`"replay_mode":"live"`), `replay_mode: got "live", want one of offline, online`},
		{"several at once", synthetic(`"num_workers":0,"sla_ttft_ms":-1`),
			"num_workers: got 0, want an integer from 1 to 65536; sla_ttft_ms: got -1, want a finite number >= 0"},

		{"engine arguments", synthetic(`"extra_engine_args":"{\"block_size\":3}"`),
			"extra_engine_args: block_size: got 3, want "},
		{"engine arguments empty", synthetic(`"extra_engine_args":""`),
			"extra_engine_args: line 1 column 1: unexpected end of text"},
		{"engine arguments as object", synthetic(`"extra_engine_args":{}`), "extra_engine_args: got {}, want a string"},

		{"a directory", `{"kind":"trace","trace_files":["DIR"]}`, "trace_files: DIR is a directory, want a file"},
		{"a bad row", traced(`"trace_block_size":4`), "TRACE line 2: output_length: got 0, want an integer >= 1"},
	} {
		t.Run(c.name, func(t *testing.T) { checkRefusal(t, c.config, c.want, "usage") })
	}
	checkRefusal(t, `{"kind":"trace","trace_files":["DIR/none"]}`, "trace_files: DIR/none: file does not exist",
		"notfound")
	checkRefusal(t, `{"kind":"synthetic","input_tokens":"empirical(DIR/none)","output_tokens":1,"request_count":1}`,
		"input_tokens: DIR/none: file does not exist", "notfound")
	checkRefusal(t, `{"kind":"trace","trace_files":[""]}`, `trace_files: "": file does not exist`, "notfound")
	checkRefusal(t, `{"kind":"trace","trace_files":["a\nb"]}`, `trace_files: "a\nb": file does not exist`, "notfound")
}

// checkRefusal runs a description that must be refused. TRACE is a file whose second row is bad, DIR its directory.
func checkRefusal(t *testing.T, config, want, kind string) {
	t.Helper()
	trace := writeTrace(t, `{"timestamp":0,"output_length":1,"hash_ids":[1]}`+"\n"+
		`{"timestamp":0,"output_length":0,"hash_ids":[1]}`)
	places := strings.NewReplacer("TRACE", trace, "DIR", filepath.Dir(trace))
	_, err := Run(places.Replace(config), new(Monitor))
	if err == nil {
		t.Fatalf("%s: accepted", config)
	}
	if !strings.HasPrefix(err.Error(), places.Replace(want)) || strings.Contains(err.Error(), "\n") ||
		Kind(err) != kind {
		t.Errorf("got  %s: %v\nwant %s: %s", Kind(err), err, kind, places.Replace(want))
	}
}

// TestNotBuiltYet gives every option whose feature is missing another value than its default.
func TestNotBuiltYet(t *testing.T) {
	for _, later := range options {
		if later.feature == "" {
			continue
		}
		for _, value := range []string{"7", "0.25", `"x"`, "{}"} {
			_, err := Run(synthetic(`"`+later.Name+`":`+value), new(Monitor))
			if err == nil || Kind(err) != "usage" || !strings.HasPrefix(err.Error(), later.Name+": ") {
				t.Errorf("%s: %s: got %v", later.Name, value, err)
			} else if want := later.Name + ": " + value + " is not built yet (" + later.feature +
				")"; err.Error() == want {
				goto next
			}
		}
		t.Errorf("%s: no value was refused because the feature is missing", later.Name)
	next:
		if _, err := Run(synthetic(`"`+later.Name+`":null`), new(Monitor)); err != nil {
			t.Errorf("%s: null: %v", later.Name, err)
		}
	}
	defaults := `"num_prefill_workers":1,"num_decode_workers":1,` +
		`"benchmark_granularity":8,"replay_mode":"offline","router_mode":"round_robin"`
	if _, err := Run(synthetic(defaults), new(Monitor)); err != nil {
		t.Errorf("defaults: %v", err)
	}
}

func TestStandardInput(t *testing.T) {
	file, err := os.Open(writeTrace(t, `{"timestamp":0,"output_length":1,"hash_ids":[1]}`+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	old := os.Stdin
	defer func() { os.Stdin = old }()
	os.Stdin = file
	result, err := Run(`{"kind":"trace","trace_files":["-"]}`, new(Monitor))
	if err != nil || result.rows.Len() != 1 {
		t.Fatalf("got %v", err)
	}
	_, err = Run(`{"kind":"trace","trace_files":["-"]}`, new(Monitor)) // it is at its end
	if err == nil || err.Error() != "standard input: holds no requests" {
		t.Errorf("got %v", err)
	}
}
