package report

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/workload"
)

// threeRows returns a run of three requests: one completed, one rejected, and one that waits to run again when the run
// ends.
func threeRows(t *testing.T) *Rows {
	t.Helper()
	const trace = "\n" + `{"timestamp":0,"session_id":"<a> é","hash_ids":[1],"output_length":2}
{"timestamp":0,"hash_ids":[1],"output_length":1}
{"session_id":"<a> é","hash_ids":[1],"output_length":9}`
	w, err := workload.LoadMooncake(strings.NewReader(trace), "t",
		workload.TraceSpec{TraceBlockSize: 4, EngineBlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	c := NewCollector(3, 2)
	for id, output := range []int{2, 1, 9} {
		c.Arrival(engine.Request{ID: engine.RequestID(id), PromptTokens: 4, OutputTokens: output}, 0.5)
		c.Worker(engine.RequestID(id), id%2)
	}
	c.Pass(0, &engine.Pass{
		StartMs: 1, EndMs: 10, Tokens: 1,
		Admitted: []engine.Admission{{ID: 0, ReusedTokens: 4}},
		Started:  []engine.TokenRun{{ID: 0}},
	})
	c.Pass(0, &engine.Pass{StartMs: 10, EndMs: 15.25, Tokens: 1, Finished: []engine.RequestID{0}})
	c.Terminal(0, Completed, "")
	c.Pass(1, &engine.Pass{StartMs: 1, EndMs: 1, Rejected: []engine.Rejection{{ID: 1, Reason: "too \"large\""}}})
	c.Terminal(1, Rejected, "too \"large\"")
	c.Pass(0, &engine.Pass{StartMs: 20, EndMs: 21, Admitted: []engine.Admission{{ID: 2}}})
	c.Cut(engine.RequestState{ID: 2, State: "preempted"})
	return c.Rows(w)
}

func TestRowsText(t *testing.T) {
	var text strings.Builder
	if err := threeRows(t).WriteJSONL(&text); err != nil {
		t.Fatal(err)
	}
	const handoff = `"prefill_admit_ms":null,"source_held_ms":null,"destination_reserved_ms":null,` +
		`"destination_activated_ms":null,` +
		`"decode_admit_ms":null,"source_released_ms":null,"decode_reused_input_tokens":null,` +
		`"prefill_route_overlap_tokens":null,"decode_route_overlap_tokens":null,`
	want := `{"session_id":"<a> é","turn_index":0,"uuid":"00000000-0000-4000-8000-000000000001",` +
		`"arrival_time_ms":0.5,"first_admit_ms":1.0,"first_token_ms":10.0,"last_token_ms":15.25,` +
		`"ttft_ms":9.5,"ttst_ms":5.25,` +
		`"e2e_latency_ms":14.75,"itl_ms":5.25,"input_length":4,"output_length":2,"reused_input_tokens":4,` +
		`"prefill_worker_idx":null,"decode_worker_idx":0,` + handoff +
		`"terminal_status":"completed","rejection_reason":null,"trace_row":1,"state":"finished"}` + "\n" +
		`{"session_id":"request_3","turn_index":0,"uuid":"00000000-0000-4000-8000-000000000002",` +
		`"arrival_time_ms":0.5,"first_admit_ms":null,"first_token_ms":null,"last_token_ms":null,` +
		`"ttft_ms":null,"ttst_ms":null,` +
		`"e2e_latency_ms":null,"itl_ms":null,"input_length":4,"output_length":1,"reused_input_tokens":0,` +
		`"prefill_worker_idx":null,"decode_worker_idx":1,` + handoff +
		`"terminal_status":"rejected","rejection_reason":"too \"large\"","trace_row":2,"state":"rejected"}` + "\n" +
		`{"session_id":"<a> é","turn_index":1,"uuid":"00000000-0000-4000-8000-000000000003",` +
		`"arrival_time_ms":0.5,"first_admit_ms":20.0,"first_token_ms":null,"last_token_ms":null,` +
		`"ttft_ms":null,"ttst_ms":null,` +
		`"e2e_latency_ms":null,"itl_ms":null,"input_length":4,"output_length":9,"reused_input_tokens":0,` +
		`"prefill_worker_idx":null,"decode_worker_idx":0,` + handoff +
		`"terminal_status":null,"rejection_reason":null,"trace_row":3,"state":"waiting"}` + "\n"
	if text.String() != want {
		t.Errorf("got\n%swant\n%s", text.String(), want)
	}
	for line := range strings.Lines(text.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

func TestColumns(t *testing.T) {
	rows := threeRows(t)
	if rows.Len() != 3 {
		t.Fatalf("got %d rows", rows.Len())
	}
	if got, ok := rows.Strings("session_id"); !ok || !slices.Equal(got, []string{"<a> é", "request_3", "<a> é"}) {
		t.Errorf("got %q", got)
	}
	if got, ok := rows.Strings("rejection_reason"); !ok || !slices.Equal(got, []string{"", `too "large"`, ""}) {
		t.Errorf("got %q", got)
	}
	if got, ok := rows.Ints("prefill_worker_idx"); !ok || !slices.Equal(got, []int64{-1, -1, -1}) {
		t.Errorf("got %v", got)
	}
	if got, ok := rows.Ints("trace_row"); !ok || !slices.Equal(got, []int64{1, 2, 3}) {
		t.Errorf("got %v", got)
	}
	if got, ok := rows.Floats("first_admit_ms"); !ok || len(got) != 3 || got[0] != 1 || !math.IsNaN(got[1]) ||
		got[2] != 20 {
		t.Errorf("got %v", got)
	}
}

// TestEveryColumnIsFoundUnderItsTypeOnly asks for each column as each type.
func TestEveryColumnIsFoundUnderItsTypeOnly(t *testing.T) {
	rows := threeRows(t)
	floats, ints, texts := rows.ColumnNames()
	if n := len(floats) + len(ints) + len(texts); n != len(columns) {
		t.Errorf("%d names for %d columns", n, len(columns))
	}
	check := func(names []string, wantFloat, wantInt, wantText bool) {
		for _, name := range names {
			f, isFloat := rows.Floats(name)
			i, isInt := rows.Ints(name)
			s, isText := rows.Strings(name)
			if isFloat != wantFloat || isInt != wantInt || isText != wantText {
				t.Errorf("%s: float %v, int %v, text %v", name, isFloat, isInt, isText)
			}
			if len(f)+len(i)+len(s) != rows.Len() && (wantFloat || wantInt || wantText) {
				t.Errorf("%s: %d values", name, len(f)+len(i)+len(s))
			}
		}
	}
	check(floats, true, false, false)
	check(ints, false, true, false)
	check(texts, false, false, true)
	check([]string{"", "nothing"}, false, false, false)
}

func TestAppendFloat(t *testing.T) {
	if got := string(AppendFloat(AppendFloat([]byte("x="), math.NaN()), 1)); got != "x=null1.0" {
		t.Errorf("got %s", got)
	}
}

func TestAppendJSON(t *testing.T) {
	values := []Value{{Key: "n", Int: 3, IsInt: true}, {Key: "x", Float: 2}}
	if got := string(AppendJSON(nil, values)); got != `{"n":3,"x":2.0}` {
		t.Errorf("got %s", got)
	}
}

func TestUUIDsDiffer(t *testing.T) {
	for turn, want := range map[int32]string{0: "00000000-0000-4000-8000-000000000001",
		math.MaxInt32: "00000000-0000-4000-8000-000080000000"} {
		if got := requestUUID(turn); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestEmptySessionNameIsAName(t *testing.T) {
	w, err := workload.LoadMooncake(strings.NewReader(`{"session_id":"","hash_ids":[1],"output_length":1}`), "t",
		workload.TraceSpec{TraceBlockSize: 4, EngineBlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	c := NewCollector(1, 1)
	c.Arrival(engine.Request{ID: 0, PromptTokens: 4, OutputTokens: 1}, 0)
	c.Terminal(0, Rejected, "x")
	var text strings.Builder
	if err := c.Rows(w).WriteJSONL(&text); err != nil || !strings.HasPrefix(text.String(), `{"session_id":"",`) {
		t.Errorf("got %s (%v)", text.String(), err)
	}
}
