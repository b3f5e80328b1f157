package workload

import (
	"bytes"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"dynosim/gocore/kvcache"
)

// FuzzMooncake reads arbitrary bytes as a trace. The reader must not panic, what it accepts must keep the promises of
// Workload, and reading it twice must give the same.
func FuzzMooncake(f *testing.F) {
	f.Add([]byte(`{"timestamp":1.5,"input_length":6,"output_length":3,"hash_ids":[7,8],"session_id":"s","delay":0}`),
		uint8(4), uint8(4))
	f.Add([]byte(twoSessions), uint8(6), uint8(4))
	f.Add([]byte("\n\r\n"+twoRows+`{"session_id":"request_3","delay_ms":2,"output_tokens":1,`+
		`"hash_ids":[18446744073709551615]}`), uint8(3), uint8(8))
	f.Add([]byte(gzipped(f, twoRows)), uint8(8), uint8(4))
	f.Add([]byte(zstandard(f, twoRows)), uint8(1), uint8(1))
	f.Add([]byte(`{"hash_ids":[1,2`), uint8(4), uint8(4))
	f.Fuzz(func(t *testing.T, trace []byte, traceBlock, engineBlock uint8) {
		spec := TraceSpec{TraceBlockSize: int(traceBlock) + 1, EngineBlockSize: int(engineBlock) + 1}
		w, err := LoadMooncake(bytes.NewReader(trace), "t", spec)
		again, errAgain := LoadMooncake(bytes.NewReader(trace), "t", spec)
		if !reflect.DeepEqual(w, again) || (err == nil) != (errAgain == nil) ||
			err != nil && err.Error() != errAgain.Error() {
			t.Fatalf("read twice: %v and %v", err, errAgain)
		}
		if err != nil {
			return
		}
		checkWorkload(t, w, spec.EngineBlockSize)
		if w.Schedule(false, 3) == nil {
			checkTimes(t, w)
		}
	})
}

// fuzzFormat reads arbitrary bytes as a trace of a format, as FuzzMooncake does.
func fuzzFormat(f *testing.F, format Format, check func(*testing.T, *Workload)) {
	f.Fuzz(func(t *testing.T, trace []byte, traceBlock, engineBlock uint8) {
		// A long prompt may be a single number in the trace: blocks of at least 64 tokens keep it small.
		spec := TraceSpec{TraceBlockSize: int(traceBlock) + 64, EngineBlockSize: int(engineBlock) + 64,
			SharedPrefixRatio: 0.5, NumPrefixGroups: 2}
		load := func() (*Workload, error) {
			return Load(format, []Source{{Name: "t", Reader: bytes.NewReader(trace)}}, spec)
		}
		w, err := load()
		again, errAgain := load()
		if !reflect.DeepEqual(w, again) || (err == nil) != (errAgain == nil) ||
			err != nil && err.Error() != errAgain.Error() {
			t.Fatalf("read twice: %v and %v", err, errAgain)
		}
		if err != nil {
			return
		}
		for i := range w.Turns {
			turn := &w.Turns[i]
			if turn.InputTokens > 1<<20 {
				continue // too long to look at each block
			}
			blocks := turn.Prompt.AppendBlocks(nil, 0, max(turn.InputTokens/spec.EngineBlockSize, turn.NamedBlocks))
			seen := make(map[kvcache.BlockID]bool)
			for _, id := range blocks {
				if seen[id] || id >= kvcache.PrivateIDs {
					t.Fatalf("turn %d: block %d occurs twice or is private", i, id)
				}
				seen[id] = true
			}
			if turn.InputTokens < 1 || turn.OutputTokens < 1 || !isDuration(turn.DelayMs) {
				t.Fatalf("turn %d: %+v", i, turn)
			}
		}
		check(t, w)
	})
}

// allServed checks that every turn is sent once, in the order of time.
func allServed(t *testing.T, w *Workload, maxSessions int) {
	t.Helper()
	if w.Schedule(maxSessions > 0, 2) != nil {
		return
	}
	sent, last := make(map[int32]bool), 0.0
	d := NewDriver(w, maxSessions)
	drive(d, 1, func(turn int32, arrivalMs float64) {
		if sent[turn] || arrivalMs < last {
			t.Fatalf("turn %d is sent at %v after %v", turn, arrivalMs, last)
		}
		sent[turn], last = true, arrivalMs
		d.Turn(turn)
	}, func(turn int32) bool { return turn%3 == 1 })
	if len(sent) != len(w.Turns) || d.Unreleased() != 0 {
		t.Fatalf("%d of %d turns were sent", len(sent), len(w.Turns))
	}
}

// FuzzDynamo reads recordings, converts them, and reads what that gives.
func FuzzDynamo(f *testing.F) {
	f.Add([]byte(`{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1140,` +
		`"agent_context":{"session_id":"P"},"request":{"request_id":"p2","output_tokens":1,"request_received_ms":1100,` +
		`"total_time_ms":40,"replay":{"trace_block_size":4,"input_length":12,"input_sequence_hashes":[901,902,905]}}}
{"event":{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1055,` +
		`"agent_context":{"session_id":"C","parent_session_id":"P"},"request":{"request_id":"c1","output_tokens":1,` +
		`"request_received_ms":1035,"replay":{"trace_block_size":4,"input_length":8,` +
		`"input_sequence_hashes":[18446744073709551615,7]}}}}
{"schema":"dynamo.request.trace.v1","event_type":"tool_end","event_time_unix_ms":1066,` +
		`"agent_context":{"session_id":"C","parent_session_id":"P"},"tool":{"tool_call_id":"t","tool_class":"shell",` +
		`"started_at_unix_ms":1058,"claude":{"source_request_id":"p2","consumer_request_id":"p2","child_session_id":"C"}}}`))
	f.Add([]byte(`{"schema":"dynamo.agent.trace.v1","event_type":"request_end","event_time_unix_ms":10,` +
		`"request":{"request_id":"r","output_tokens":2,"request_received_ms":0,"replay":{"trace_block_size":4,` +
		`"input_length":4,"input_sequence_hashes":[1,2]}}}`))
	f.Fuzz(func(t *testing.T, trace []byte) {
		source := func() []Source { return []Source{{Name: "t", Reader: bytes.NewReader(trace)}} }
		w, err := Load(Dynamo, source(), TraceSpec{EngineBlockSize: 4})
		if err != nil {
			return
		}
		allServed(t, w, 0)
		var rows bytes.Buffer
		converted, err := ConvertDynamo(&rows, source(), w.WaitFor != nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		format := Mooncake
		if w.WaitFor != nil {
			format = Agentic
		}
		again, err := Load(format, []Source{{Name: "t", Reader: &rows}},
			TraceSpec{TraceBlockSize: converted.TraceBlockSize, EngineBlockSize: 4})
		if err != nil {
			t.Fatal(err)
		}
		if len(again.Turns) != len(w.Turns) {
			t.Fatalf("%d turns, converted %d", len(w.Turns), len(again.Turns))
		}
	})
}

func FuzzMooncakeDelta(f *testing.F) {
	f.Add([]byte(twoSessions), uint8(6), uint8(4))
	f.Add([]byte(`{"timestamp":0,"session_id":"a","hash_ids":[1,2],"output_length":3,"output_token_ids":[2,2,9]}
{"session_id":"a","delay":5,"hash_ids":[3],"output_length":200}
{"session_id":"a","delay":5,"hash_ids":[4],"output_length":1}`), uint8(0), uint8(0))
	fuzzFormat(f, MooncakeDelta, func(t *testing.T, w *Workload) { allServed(t, w, 0) })
}

func FuzzAgentic(f *testing.F) {
	f.Add([]byte(`{"request_id":"p","timestamp":100,"hash_ids":[1,2],"output_length":2,"branches":["c"],`+
		`"prefix_reset":true}
{"request_id":"c","timestamp":130,"wait_for":["p","p"],"delay_ms":10,"tool_wait_ms":6,"hash_ids":[1,2,3],`+
		`"output_length":1}
{"request_id":"j","session_id":"s","wait_for":["p","c"],"hash_ids":[1,2],"output_length":1,"tool_events":[{}]}`),
		uint8(0), uint8(0))
	f.Add([]byte(`{"request_id":"p","wait_for":["q"],"hash_ids":[1],"output_length":2}
{"request_id":"q","wait_for":["p"],"hash_ids":[1],"output_length":2}`), uint8(0), uint8(0))
	fuzzFormat(f, Agentic, func(t *testing.T, w *Workload) { allServed(t, w, 0) })
}

func FuzzAppliedCompute(f *testing.F) {
	f.Add([]byte(`{"num_turns":2,"input_prompt_length":10,"assistant_response_length":[3,2],`+
		`"tool_call_output_length":[5,1],"tool_call_latency":[0.05,0.2],"final_assistant_response_length":4}
{"num_turns":0,"input_prompt_length":4000,"assistant_response_length":[],"tool_call_output_length":[],`+
		`"tool_call_latency":[],"final_assistant_response_length":1}`), uint8(0), uint8(0))
	fuzzFormat(f, AppliedCompute, func(t *testing.T, w *Workload) { allServed(t, w, 2) })
}

// checkWorkload checks that the sessions are chains that cover every turn once, and that the turns are sound.
func checkWorkload(t *testing.T, w *Workload, engineBlock int) {
	t.Helper()
	covered := 0
	for s := range w.Sessions {
		row := int32(-1)
		for turn, index := w.Sessions[s].First, int32(0); ; index++ {
			at := &w.Turns[turn]
			if at.Session != int32(s) || at.Index != index || at.Row <= row {
				t.Fatalf("session %d: turn %d is %+v", s, turn, at)
			}
			row = at.Row
			covered++
			if at.Next == 0 {
				break
			}
			turn = at.Next
		}
	}
	if covered != len(w.Turns) || covered == 0 {
		t.Fatalf("sessions cover %d of %d turns", covered, len(w.Turns))
	}
	for i := range w.Turns {
		turn := &w.Turns[i]
		if turn.InputTokens < 1 || turn.OutputTokens < 1 || !isDuration(turn.DelayMs) ||
			turn.Index == 0 && turn.DelayMs != 0 ||
			i > 0 && turn.Row <= w.Turns[i-1].Row {
			t.Fatalf("turn %d: %+v", i, turn)
		}
		for _, id := range fullBlocks(turn, engineBlock) {
			if id >= kvcache.PrivateIDs {
				t.Fatalf("turn %d: block %d is private", i, id)
			}
		}
	}
}

func checkTimes(t *testing.T, w *Workload) {
	t.Helper()
	earliest := math.Inf(1)
	for _, s := range w.Sessions {
		earliest = min(earliest, s.StartMs)
	}
	if earliest != 0 {
		t.Fatalf("the first session starts at %v", earliest)
	}
}

// The formats of package traffic: arbitrary bytes must not break the reader, and what it accepts is replayed whole.

func fuzzTraffic(f *testing.F, name string) {
	format, known := ParseFormat(name)
	if !known {
		f.Fatalf("no format %q", name)
	}
	f.Add([]byte(trafficExamples[name]), uint8(0), uint8(0))
	f.Add([]byte(gzipped(f, trafficExamples[name])), uint8(192), uint8(64))
	fuzzFormat(f, format, func(t *testing.T, w *Workload) {
		maxSessions := 0
		if w.WaitFor == nil {
			maxSessions = 2
		}
		allServed(t, w, maxSessions)
	})
}

func FuzzAzure(f *testing.F)         { fuzzTraffic(f, "azure") }
func FuzzBurstGPT(f *testing.F)      { fuzzTraffic(f, "burstgpt") }
func FuzzSplitwise(f *testing.F)     { fuzzTraffic(f, "splitwise") }
func FuzzWeka(f *testing.F)          { fuzzTraffic(f, "weka") }
func FuzzBailian(f *testing.F)       { fuzzTraffic(f, "bailian") }
func FuzzLLMServingSim(f *testing.F) { fuzzTraffic(f, "llmservingsim") }
func FuzzShareGPT(f *testing.F)      { fuzzTraffic(f, "sharegpt") }
func FuzzAIPerf(f *testing.F)        { fuzzTraffic(f, "aiperf") }
func FuzzVLLMBench(f *testing.F)     { fuzzTraffic(f, "vllm-bench") }
func FuzzSGLangBench(f *testing.F)   { fuzzTraffic(f, "sglang-bench") }
func FuzzGuideLLM(f *testing.F)      { fuzzTraffic(f, "guidellm") }

func FuzzServeGen(f *testing.F) {
	f.Add(clientFiles[0], clientFiles[1], uint64(1))
	f.Add("0,0.1,1,Weibull,1,1\n", `{"0": {"text_tokens": "{1: 1}", "image_count": "{2: 1}", "image_tokens": "{5: 1}", `+
		`"output_tokens": "{9: 1}"}}`, uint64(2))
	f.Fuzz(func(t *testing.T, trace, dataset string, seed uint64) {
		names, texts := [2]string{"c-trace.csv", "c-dataset.json"}, [2]string{trace, dataset}
		if !(drawnRequests(trace) < 10_000) {
			return // as many as the trace asks for would take too long
		}
		w, err := loadClient(names, texts, seed)
		again, errAgain := loadClient(names, texts, seed)
		if !reflect.DeepEqual(w, again) || (err == nil) != (errAgain == nil) {
			t.Fatalf("read twice: %v and %v", err, errAgain)
		}
		if err == nil {
			allServed(t, w, 0)
		}
	})
}

// drawnRequests bounds the requests of a client from above.
func drawnRequests(trace string) float64 {
	rates, end := 0.0, 0.0
	for line := range strings.Lines(trace) {
		if cells := strings.Split(line, ","); len(cells) > 1 {
			rates += cell(cells[1])
			end = max(end, cell(cells[0]))
		}
	}
	return rates * (end + 600)
}

// cell returns a number in a table, as a reader might see it.
func cell(text string) float64 {
	x, err := strconv.ParseFloat(strings.Trim(text, " \"\t\r\ufeff"), 64)
	if err != nil {
		return 0
	}
	return math.Abs(x)
}
