package workload

import (
	"errors"
	"strings"
	"testing"
)

// trafficExamples are small files in the formats of package traffic.
var trafficExamples = map[string]string{
	"azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 " +
		"18:17:04.0319600,3180,8\n",
	"burstgpt": "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log " +
		"Type\n5,a,1.5,ChatGPT,472,18,490,Conversation log\n45,a,2,ChatGPT,1087,230,1317,Conversation log\n",
	"splitwise": "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,4808,10\n0.052,3180,8\n",
	"weka": `{"id": "x", "block_size": 64, "hash_id_scope": "local", "requests": [` + "\n" +
		`{"t": 0.0, "type": "n", "in": 130, "out": 5, "hash_ids": [1, 2], "api_time": 2.5, "think_time": 0.0},` + "\n" +
		`{"t": 3.0, "type": "subagent", "agent_id": "y", "requests": [{"t": 0.5, "type": "s", "in": 64, "out": 1, ` +
		`"hash_ids": [4]}]},` + "\n" + `{"t": 20.0, "type": "n", "in": 200, "out": 6, "hash_ids": [1, 2, ` +
		`9], "think_time": 7.5}]}` + "\n",
	"bailian": `{"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 21, ` +
		`"output_length": 4, "type": "text", "turn": 1, "hash_ids": [1089, 1090]}` + "\n" +
		`{"chat_id": 160, "parent_chat_id": 159, "timestamp": 62.5, "input_length": 40, "output_length": 8, ` +
		`"type": "text", "turn": 2, "hash_ids": [1089, 1090, 7]}` + "\n",
	"llmservingsim": `{"request_id": "bench-0", "input_toks": 2358, "output_toks": 531, ` +
		`"arrival_time": 1787267980.0827403, "queued_ts": 27536.66}` + "\n" +
		`{"request_id": "bench-1", "input_toks": 1034, "output_toks": 769, "arrival_time": 1787267980.3478317}` + "\n",
	"sharegpt": `{"input_toks": 9, "output_toks": 3, "arrival_time_ns": 1500000, "input_tok_ids": [1, 2, 3]}` +
		"\n",
	"aiperf": `{"metadata": {"x_correlation_id": "c", "request_start_ns": 1759813207532900363, ` +
		`"request_end_ns": 1759813207910000000, "benchmark_phase": "profiling", "was_cancelled": false}, ` +
		`"metrics": {"input_sequence_length": {"value": 550, "unit": "tokens"}, "output_sequence_length": {"value": 9, ` +
		`"unit": "tokens"}}, "error": null}` + "\n",
	"vllm-bench": `{"backend": "vllm", "num_prompts": 2, "request_rate": 2.5, "burstiness": 1.0, "input_lens": [9, ` +
		`4], "output_lens": [3, 2], "start_times": [353399.725, 353400.485], "errors": ["", ""]}` + "\n",
	"sglang-bench": `{"tag": null, "backend": "sglang", "dataset_name": "random", "request_rate": Infinity, ` +
		`"input_lens": [9, 4], "output_lens": [3, 2]}` + "\n",
	"guidellm": `{"metadata": {"guidellm_version": "0.7.3"}, ` +
		`"benchmarks": [{"requests": {"successful": [{"prompt_tokens": 6, "output_tokens": 64, ` +
		`"request_start_time": 1788561362.54, "request_end_time": 1788561370, "info": {"conversation_id": "k"}}], ` +
		`"errored": [], "incomplete": []}}]}` + "\n",
}

// clientFiles are the two files of a client of ServeGen.
var clientFiles = [2]string{
	"0,0.04,2.5,Gamma,0.16,156.25\n100,0.02,1,,0,0\n200,0,0,,0,0\n",
	`{"0": {"input_tokens": "{4: 0.25, 9: 0.75}", "output_tokens": "{2: 1.0}"}, "21600": {"input_tokens": "{}", ` +
		`"output_tokens": "{}"}}`,
}

func loadText(t testing.TB, name, text string) (*Workload, error) {
	t.Helper()
	format, known := ParseFormat(name)
	if !known {
		t.Fatalf("no format %q", name)
	}
	return Load(format, []Source{{Name: "f", Reader: strings.NewReader(text)}}, TraceSpec{EngineBlockSize: 64})
}

// TestTrafficFaults breaks examples in one place each: an error names file, line and field, and says what is wanted.
func TestTrafficFaults(t *testing.T) {
	for _, c := range []struct{ format, old, new, want string }{
		{"azure", "ContextTokens", "Context",
			"f line 1: ContextTokens: no column has this name, want a header with " +
				"TIMESTAMP,ContextTokens,GeneratedTokens"},
		{"azure", "GeneratedTokens", "ContextTokens", "f line 1: ContextTokens: two columns have this name, want one"},
		{"azure", "2023-11-16 18", "16.11.2023 18",
			`f line 2: TIMESTAMP: got "16.11.2023 18:17:03.9799600", want a date and time like 2023`},
		{"azure", "2023-11-16 18:17:04", "2023-02-29 18:17:04",
			`f line 3: TIMESTAMP: got "2023-02-29 18:17:04.0319600"`},
		{"azure", "18:17:04.03", "18:60:04.03", "f line 3: TIMESTAMP: got"},
		{"azure", "04.0319600", "04.0319600+00:00",
			"f line 3: TIMESTAMP: got \"2023-11-16 18:17:04.0319600+00:00\", want no zone, as the rows before"},
		{"azure", "4808", "4808.5", `f line 2: ContextTokens: got "4808.5", want an integer from 0 to 134217728`},
		{"azure", "4808", "-1", `f line 2: ContextTokens: got "-1", want an integer`},
		{"azure", "4808", "134217729", "f line 2: ContextTokens: got"},
		{"azure", "4808", "", `f line 2: ContextTokens: got "", want a number of tokens`},
		{"azure", ",8\n", ",8,9\n", "f line 3: got 4 columns, want 3 as in the header"},
		{"azure", ",8\n", `,"8` + "\n", "f line 3: a quoted cell is broken"},
		{"azure", ",8\n", ",\xff\n", "f line 3: not valid UTF-8"},
		{"azure", "\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8", "", "f: holds no requests"},

		{"burstgpt", "\n5,", "\nfive,", `f line 2: Timestamp: got "five", want a number of seconds`},
		{"burstgpt", "\n5,", "\n1e300,", `f line 2: Timestamp: got "1e300", want a number of seconds`},
		{"burstgpt", ",1.5,", ",-1.5,", `f line 2: Elapsed time: got "-1.5", want a number of seconds >= 0`},
		{"burstgpt", ",472,", ",472 tokens,", `f line 2: Request tokens: got "472 tokens"`},
		{"burstgpt", ",18,490", ",x,490", `f line 2: Response tokens: got "x"`},
		{"burstgpt", "Response tokens", "Answer", "f line 1: Response tokens: no column has this name"},
		{"burstgpt", ",18,490", ",0,490", ""},

		{"splitwise", "0.052", "soon", `f line 3: arrived_at: got "soon", want a number of seconds`},
		{"splitwise", "0.052", "NaN", `f line 3: arrived_at: got "NaN"`},
		{"splitwise", "3180", "1e3", `f line 3: num_prefill_tokens: got "1e3", want an integer`},
		{"splitwise", "num_decode_tokens", "decode", "f line 1: num_decode_tokens: no column has this name, want a header " +
			"with num_prefill_tokens,num_decode_tokens"},

		{"weka", `"t": 0.0`, `"t": -1`, "f line 2: requests[0].t: got a negative time, want seconds >= 0"},
		{"weka", `"t": 0.0, `, "",
			"f line 2: requests[0].t: missing, want the time in seconds from the beginning of the session"},
		{"weka", `"n", "in": 130`, `"m", "in": 130`, `f line 2: requests[0].type: got "m", want n, s or subagent`},
		{"weka", `"in": 130, `, "", "f line 2: requests[0].in: missing, want the tokens of the prompt"},
		{"weka", `"in": 130`, `"in": "130"`, `f line 2: requests[0].in: got "130", want an integer from 0 to 134217728`},
		{"weka", `[1, 2]`, `[1, -2]`,
			"f line 2: requests[0].hash_ids[1]: got -2, want an integer from 0 to 18446744073709551615"},
		{"weka", `[1, 2]`, `{}`, "f line 2: requests[0].hash_ids: got {}, want a list"},
		{"weka", `"block_size": 64`, `"block_size": 0`, "f line 1: block_size: got 0, want an integer from 1 to 1048576"},
		{"weka", `"local"`, `"file"`, `f line 1: hash_id_scope: got "file", want local or global`},
		{"weka", `"requests": [` + "\n", `"turns": [` + "\n",
			"f line 4: requests: missing, want the list of requests of a session"},
		{"weka", `"type": "s"`, `"type": "subagent", "requests": []`,
			"f line 3: requests[1].requests[0]: type: got subagent inside a sub-agent, want n or s"},
		{"weka", `"agent_id": "y", "requests"`, `"agents"`,
			"f line 3: requests[1].requests: missing, want the requests of the sub-agent"},
		{"weka", `"out": 6`, `"out": 6, "out": 7`, "f line 4: requests[2].out: given twice, want it once"},
		{"weka", `7.5}]}`, `7.5}]`, "f line 4: broken JSON: the file ends too early"},
		{"weka", `7.5}]}`, `7.5}]]`, "f line 4: broken JSON: "},
		{"weka", "}]}\n", "}]}" + `{"id": "x", "requests": [{"t": 0, "in": 1, "out": 1}]}`,
			`f: id: got "x" for two sessions, want a name that no other session has`},
		{"weka", "}]}\n", "}]}" + `{"block_size": 16, "requests": []}`,
			"f line 4: block_size: got 16, want 64 as the session before has"},

		{"bailian", `"timestamp": 62.5`, `"timestamp": "62.5"`, `f line 2: timestamp: got "62.5", want a number of seconds`},
		{"bailian", `"timestamp": 62.5, `, "", "f line 2: timestamp: missing, want the arrival in seconds"},
		{"bailian", `"input_length": 40, `, "", "f line 2: input_length: missing, want the tokens of the prompt"},
		{"bailian", `"output_length": 8`, `"output_length": -8`,
			"f line 2: output_length: got -8, want an integer from 0 to 2147483647"},
		{"bailian", `1090, 7]`, `1090, 7.5]`, "f line 2: hash_ids[2]: got 7.5, want an integer"},
		{"bailian", `"chat_id": 160`, `"chat_id": []`, "f line 2: chat_id: got [], want a text"},
		{"bailian", `"turn": 2, `, `"turn": 2 `, "f line 2: broken JSON: "},
		{"bailian", `"output_length": 4, `, "", ""},

		{"llmservingsim", `"input_toks": 1034, `, "", "f line 2: input_toks: missing, want the tokens of the prompt"},
		{"llmservingsim", `, "arrival_time": 1787267980.3478317`, "",
			"f line 2: arrival_time: missing, want the time of the arrival"},
		{"llmservingsim", `1787267980.3478317`, `"now"`, `f line 2: arrival_time: got "now", want a number of seconds`},
		{"llmservingsim", `"output_toks": 769`, `"output_toks": true`, "f line 2: output_toks: got true, want an integer"},

		{"sharegpt", `{"input_toks": 9`, `{"conversations": [{"from": "human", "value": "hi"}], "input_toks": 9`,
			"f line 1: conversations: got texts, want token counts"},
		{"sharegpt", `1500000`, `1.5e300`, "f line 1: arrival_time_ns: got 1.5e300, want a whole number of nanoseconds"},
		{"sharegpt", "}\n", "}\n" + `{"input_toks": 9, "output_toks": 3}`,
			"f: 1 of 2 requests have no arrival time, want one for all or for none"},

		{"aiperf", `"request_start_ns"`, `"start"`,
			"f line 1: metadata.request_start_ns: missing, want the time at which the request was sent"},
		{"aiperf", `1759813207532900363`, `"1759813207532900363"`, "f line 1: metadata.request_start_ns: got"},
		{"aiperf", `{"value": 550, "unit": "tokens"}`, `550`,
			"f line 1: metrics.input_sequence_length: got 550, want an object"},
		{"aiperf", `"value": 550`, `"value": [550]`,
			"f line 1: metrics.input_sequence_length.value: got [550], want an integer"},
		{"aiperf", `"input_sequence_length"`, `"isl"`,
			"f line 1: metrics.input_sequence_length: missing, want the tokens of the prompt"},
		{"aiperf", `"was_cancelled": false`, `"was_cancelled": 0`,
			"f line 1: metadata.was_cancelled: got 0, want true or false"},
		{"aiperf", `"error": null`, `"error": {"code": 500}`,
			"f: holds no requests that can be replayed; 1 of 1 requests: failed, was cancelled or has no answer: left out"},

		{"vllm-bench", `"input_lens": [9, 4], `, "", "f line 1: input_lens: missing, want input_lens and output_lens of " +
			"each request: run vllm bench serve with --save-result --save-detailed"},
		{"vllm-bench", `"output_lens": [3, 2]`, `"output_lens": [3]`,
			"f line 1: output_lens: missing, want as many elements as input_lens, 2, and got 1"},
		{"vllm-bench", `[353399.725, 353400.485]`, `[353399.725]`,
			"f line 1: start_times: missing, want as many elements as input_lens, 2, and got 1"},
		{"vllm-bench", `[353399.725, `, `["x", `, `f line 1: start_times[0]: got "x", want a number of seconds`},
		{"vllm-bench", `"request_rate": 2.5`, `"request_rate": 0`, "f line 1: request_rate: got 0, want a number > 0 or inf"},
		{"vllm-bench", `"request_rate": 2.5`, `"request_rate": -Infinity`,
			"f line 1: request_rate: got -inf, want a number > 0 or inf"},
		{"vllm-bench", `"burstiness": 1.0`, `"burstiness": 0`,
			"f line 1: burstiness: got 0, want a number from 0.0001 to 10000"},
		{"vllm-bench", `[9, 4]`, `[9, NaN]`, `f line 1: input_lens[1]: got "", want an integer`},
		{"vllm-bench", "}\n", "}\n{}", "f line 2: more than one result, want a file with one of its lines"},
		{"sglang-bench", `Infinity`, `"trace"`, "f line 1: start_times: missing, want the times at which the requests " +
			"were sent: request_rate is no number"},
		{"sglang-bench", `Infinity`, `Infinite`, "f line 1: broken JSON"},

		{"guidellm", `"benchmarks"`, `"runs"`,
			"f line 1: benchmarks: missing, want the list of benchmarks of a GuideLLM report"},
		{"guidellm", `[{"requests": {`, `[{"statuses": {`,
			"f line 1: benchmarks[0].requests: missing, want the requests of the benchmark"},
		{"guidellm", `"prompt_tokens": 6, `, ``, "f line 1: benchmarks[0].requests.successful[0].prompt_tokens: missing, " +
			"want the tokens of the prompt"},
		{"guidellm", `"request_start_time": 1788561362.54, `, ``,
			"f line 1: benchmarks[0].requests.successful[0].request_start_time: missing"},
		{"guidellm", `1788561362.54`, `"2026-09-05"`, `f line 1: benchmarks[0].requests.successful[0].request_start_time: ` +
			`got "2026-09-05", want a number of seconds`},
		{"guidellm", `"successful": [`, `"successful": [[], `,
			"f line 1: benchmarks[0].requests.successful[0]: got [], want an object"},
		{"guidellm", "}\n", "}\n{}", "a second report, want one file for each"},
	} {
		text := trafficExamples[c.format]
		if !strings.Contains(text, c.old) {
			t.Fatalf("%s: the example has no %q", c.format, c.old)
		}
		_, err := loadText(t, c.format, strings.Replace(text, c.old, c.new, 1))
		switch {
		case err == nil && c.want != "":
			t.Errorf("%s with %q: no error, want %q", c.format, c.new, c.want)
		case err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s with %q: got %q, want %q", c.format, c.new, err, c.want)
		}
	}
}

func TestClientFaults(t *testing.T) {
	for _, c := range []struct {
		trace, dataset string // instead of the example's, "" for that
		names          [2]string
		want           string
	}{
		{trace: "0,x,1,Gamma,1,1\n", want: `c-trace.csv line 1: column 2: got "x", want a finite number >= 0`},
		{trace: "0,1\n", want: `c-trace.csv line 1: column 2: got "1", want rows of start,rate,cv,distribution`},
		{trace: "0,1,1,Zipf,1,1\n", want: `c-trace.csv line 1: column 4: got "Zipf", want Gamma, Weibull or nothing`},
		{trace: "0,1,0,Gamma,1,1\n", want: `c-trace.csv line 1: column 3: got "0", want a number from 0.01 to 100`},
		{trace: "0,2e6,1,Gamma,1,1\n",
			want: "c-trace.csv line 1: column 2: got \"2e6\", want at most 1e+06 requests per second"},
		{trace: "5,1,1,,0,0\n5,1,1,,0,0\n",
			want: `c-trace.csv line 2: column 1: got "5", want a time after that of the row before`},
		{trace: "\n", want: "c-trace.csv: is empty, want rows of start,rate,cv"},
		{trace: "0,1e5,1,,0,0\n1000000,0,0,,0,0\n",
			want: "the rates make 100000000000 requests, want at most 33554432: fewer clients"},
		{trace: "0,0,0,,0,0\n", want: "holds no requests"},
		{dataset: "{}", want: "c-dataset.json: has no lengths, want input_tokens and output_tokens for some period"},
		{dataset: `{"zero": {}}`,
			want: `c-dataset.json line 1: zero: got "zero" as a key, want the start of a period in seconds`},
		{dataset: `{"0": {"input_tokens": "{4: -1}"}}`,
			want: `c-dataset.json line 1: [0].input_tokens: got "{4: -1}", want a distribution like {18: 0.2, 1401: 0.8}`},
		{dataset: `{"0": {"input_tokens": {"4": 1}}}`,
			want: `c-dataset.json line 1: [0].input_tokens: got {"4": 1}, want a text`},
		{dataset: `{"0": {"input_tokens": "{1: 1}", "text_tokens": "{1: 1}"}}`,
			want: "c-dataset.json line 1: [0]: has input_tokens and text_tokens, want one of them"},
		{names: [2]string{"c-trace.csv", "d-dataset.json"}, want: "c-dataset.json: missing, want both files of each client"},
		{names: [2]string{"c-trace.csv", "c-trace.csv"}, want: "c-trace.csv: given twice, want it once"},
		{names: [2]string{"c-trace.csv", "c.json"},
			want: "c.json: the name of the file must end in -trace.csv or -dataset.json"},
	} {
		texts, names := clientFiles, c.names
		if c.trace != "" {
			texts[0] = c.trace
		}
		if c.dataset != "" {
			texts[1] = c.dataset
		}
		if names[0] == "" {
			names = [2]string{"c-trace.csv", "c-dataset.json"}
		}
		_, err := loadClient(names, texts, 0)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func loadClient(names, texts [2]string, seed uint64) (*Workload, error) {
	format, _ := ParseFormat("servegen")
	sources := []Source{{names[0], strings.NewReader(texts[0])}, {names[1], strings.NewReader(texts[1])}}
	return Load(format, sources, TraceSpec{EngineBlockSize: 64, Seed: seed})
}

// TestClientSeeds draws as many requests with each seed, at other times.
func TestClientSeeds(t *testing.T) {
	names := [2]string{"c-trace.csv", "c-dataset.json"}
	starts := func(seed uint64) (starts []float64) {
		w, err := loadClient(names, clientFiles, seed)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range w.Sessions {
			starts = append(starts, s.StartMs)
		}
		return starts
	}
	one, again, two := starts(1), starts(1), starts(2)
	if len(one) != 6 || len(two) != 6 {
		t.Fatalf("got %d and %d requests, want 0.04 x 100 + 0.02 x 100", len(one), len(two))
	}
	differ := false
	for i := range one {
		if one[i] != again[i] {
			t.Errorf("equal seeds: %v and %v", one[i], again[i])
		}
		differ = differ || one[i] != two[i]
	}
	if !differ {
		t.Error("seeds 1 and 2 draw the same times")
	}
}

// TestHint reads each example in each other format: an error says what the file looks like.
func TestHint(t *testing.T) {
	examples := map[string]string{
		"mooncake":                twoRows,
		"applied_compute_agentic": `{"num_turns":0,"input_prompt_length":900}`,
		"agentic_mooncake":        `{"request_id":"p","hash_ids":[1],"wait_for":["x"]}`,
		"dynamo":                  `{"schema":"dynamo.request.trace.v1"}`,
		"servegen":                clientFiles[0],
	}
	for name, text := range trafficExamples {
		examples[name] = text
	}
	for name, text := range examples {
		for _, other := range FormatNames() {
			format, _ := ParseFormat(other)
			// Some formats have the same rows, with other keys beside.
			if format.String() == name || format < AppliedCompute && (name == "mooncake" || name == "bailian") ||
				format < Dynamo && name == "agentic_mooncake" ||
				strings.HasSuffix(name, "-bench") && strings.HasSuffix(other, "-bench") ||
				other == "sharegpt" && name == "llmservingsim" {
				continue
			}
			_, err := loadText(t, other, gzipped(t, text))
			if want := "(it looks like trace_format " + name + ")"; err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s read as %s: got %v, want %q", name, other, err, want)
			}
		}
	}
}

// TestTrafficInterrupted ends the reading with the error of Poll as it is.
func TestTrafficInterrupted(t *testing.T) {
	interrupted := errors.New("interrupted")
	for name, text := range map[string]string{
		"azure":   "TIMESTAMP,ContextTokens,GeneratedTokens\n" + strings.Repeat("2023-11-16 18:17:03,1,1\n", 300),
		"bailian": strings.Repeat(trafficExamples["bailian"], 200),
		"guidellm": `{"benchmarks": [{"requests": {"successful": [` +
			strings.Repeat(`{"prompt_tokens":1,"output_tokens":1,"start_time":1},`, 300) + `{}]}}]}`,
	} {
		format, _ := ParseFormat(name)
		_, err := Load(format, []Source{{Name: "f", Reader: strings.NewReader(text)}}, TraceSpec{
			EngineBlockSize: 64, Poll: func() error { return interrupted },
		})
		if err != interrupted {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestTurnNamesInSeveralFiles names the one file that a request is in.
func TestTurnNamesInSeveralFiles(t *testing.T) {
	format, _ := ParseFormat("weka")
	w, err := Load(format, []Source{
		{"a.json", strings.NewReader(`{"id": "a", "requests": [{"t": 0, "in": 64, "out": 1}, ` +
			`{"t": 1, "in": 64, "out": 1}]}`)},
		{"b.json", strings.NewReader(`{"id": "b", "requests": [{"t": 0, "in": 0, "out": 1}, {"t": 1, "in": 64, "out": 1}]}`)},
	}, TraceSpec{EngineBlockSize: 64})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a.json request 1", "a.json request 2", "b.json request 2"} {
		if got := w.TurnName(int32(i)); got != want || w.Turns[i].Row != int32(i) {
			t.Errorf("turn %d: got %q, row %d, want %q", i, got, w.Turns[i].Row, want)
		}
	}
	if w, err = loadClient([2]string{"c-trace.csv", "c-dataset.json"}, clientFiles, 1); err != nil ||
		w.TurnName(5) != "c-trace.csv request 6" {
		t.Errorf("got %v, %v", w.TurnName(5), err)
	}
}

// TestAIPerfPrompts: where the server has reported the tokens of a prompt, those count, not AIPerf's own.
func TestAIPerfPrompts(t *testing.T) {
	own := trafficExamples["aiperf"]
	reported := strings.Replace(own, `"metrics": {`,
		`"metrics": {"usage_prompt_tokens": {"value": 566, "unit": "tokens"}, `, 1)
	w, err := loadText(t, "aiperf", reported+strings.Replace(own, `"c"`, `"d"`, 1))
	if err != nil {
		t.Fatal(err)
	}
	if got := [2]int{w.Turns[0].InputTokens, w.Turns[1].InputTokens}; got != [2]int{566, 550} {
		t.Errorf("got prompts of %v tokens, want 566 and 550", got)
	}
}

// TestNewerRows: what Dynamo 1.6 adds to traces is read: a first row with the version, and rows with the text of
// requests.
func TestNewerRows(t *testing.T) {
	const header = `{"schema":"dynamo.agentic_mooncake","version":2}` + "\n"
	const rows = `{"request_id":"a","timestamp":0,"hash_ids":[1],"output_length":2}` + "\n" +
		`{"request_id":"b","wait_for":["a"],"hash_ids":[1,2],"output_length":2}` + "\n"
	with, err := loadText(t, "agentic_mooncake", "\n"+header+rows)
	if err != nil {
		t.Fatal(err)
	}
	if len(with.Turns) != 2 || with.TurnName(1) != "f line 4" || len(with.WaitFor[1]) != 1 {
		t.Errorf("got %d requests, the second in %s", len(with.Turns), with.TurnName(1))
	}
	for change, want := range map[string]string{
		`"version":3`: "f line 1: version: got 3, want 2", `"other":2`: "f line 1: version: missing, want 2",
	} {
		if _, err := loadText(t, "agentic_mooncake", strings.Replace(header, `"version":2`, change, 1)+rows); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	const end = `{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":9,` +
		`"request":{"request_id":"r","output_tokens":1,` +
		`"request_received_ms":5,"replay":{"trace_block_size":4,"input_length":4,"input_sequence_hashes":[1]}}}` + "\n"
	const payload = `{"schema":"dynamo.request.trace.v1","event_type":"request_payload","request":{"request_id":"r",` +
		`"payload":{"messages":[]}}}` + "\n"
	w, err := loadText(t, "dynamo", payload+end+payload)
	if err != nil || len(w.Turns) != 1 {
		t.Errorf("got %v, %v", w, err)
	}
}
