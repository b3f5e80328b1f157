package workload

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestParseFormat(t *testing.T) {
	for name, want := range map[string]Format{
		"mooncake": Mooncake, "mooncake-delta": MooncakeDelta, "mooncake_delta": MooncakeDelta,
		"agentic_mooncake": Agentic,
		"agentic-mooncake": Agentic, "applied_compute_agentic": AppliedCompute, "dynamo": Dynamo,
	} {
		if got, known := ParseFormat(name); got != want || !known {
			t.Errorf("%s: got %v, %v", name, got, known)
		}
	}
	if _, known := ParseFormat("Mooncake"); known {
		t.Error("names are as they are written")
	}
}

func TestLoadWantsOneFile(t *testing.T) {
	for _, format := range []Format{Mooncake, MooncakeDelta, Agentic, AppliedCompute} {
		source := Source{Name: "t", Reader: strings.NewReader("")}
		for _, sources := range [][]Source{nil, {source, source}} {
			if _, err := Load(format, sources, TraceSpec{EngineBlockSize: 4}); err == nil ||
				!strings.Contains(err.Error(), "exactly one for trace_format "+format.String()) {
				t.Errorf("%v, %d files: %v", format, len(sources), err)
			}
		}
	}
}

func TestDefaultTraceBlockSize(t *testing.T) {
	w, err := Load(Mooncake, []Source{{Name: "t", Reader: strings.NewReader(`{"output_length":1,"hash_ids":[1,2]}`)}},
		TraceSpec{EngineBlockSize: 64})
	if err != nil || w.Turns[0].InputTokens != 1024 {
		t.Errorf("got %v, %v", w, err)
	}
}

func TestNotes(t *testing.T) {
	w := mustLoad(t, `{"output_length":1,"hash_ids":[1,2],"input_length":9}
{"output_length":1,"hash_ids":[1,2],"input_length":8}
{"output_length":1,"hash_ids":[1,2],"input_length":4,"priority":-7,"strict_priority":8}
{"output_length":1,"hash_ids":[1,4294967296,4294967297],"input_length":3,"policy_class":"x"}`)
	if want := (Notes{Shortened: 1, Surplus: 2, WideIDs: 1}); !reflect.DeepEqual(w.Notes, want) {
		t.Errorf("got %+v, want %+v", w.Notes, want)
	}
	if w.Hints[2] != (RouterHints{Priority: -7, StrictPriority: 8}) || w.Hints[3] != (RouterHints{PolicyClass: "x"}) ||
		len(w.Hints) != 2 {
		t.Errorf("got %+v", w.Hints)
	}
}

// TestNamesInRecordings checks that messages about a turn of a recording name its own file and line.
func TestNamesInRecordings(t *testing.T) {
	record := func(id string, ms int) string {
		return fmt.Sprintf(`{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":%d,`+
			`"request":{"request_id":%q,"output_tokens":1,`+
			`"request_received_ms":%d,"replay":{"trace_block_size":4,"input_length":4,"input_sequence_hashes":[1]}}}`+"\n",
			ms+1, id, ms)
	}
	w, err := Load(Dynamo, sources("-- a.jsonl\n\n"+record("late", 50)+"\n-- b.jsonl\n"+record("early", 20)),
		TraceSpec{EngineBlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.TurnName(0) + ", " + w.TurnName(1); got != "b.jsonl line 1, a.jsonl line 2" ||
		w.File != "a.jsonl, b.jsonl" {
		t.Errorf("got %s of %s", got, w.File)
	}
}

func TestConvertPolls(t *testing.T) {
	stop := errors.New("stop")
	text := strings.Repeat("\n", 2*pollEvery)
	if _, err := ConvertDynamo(io.Discard, sources(text), false, func() error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

// TestSaveReportsWriteErrors writes to something that is full.
func TestSaveReportsWriteErrors(t *testing.T) {
	w := mustLoad(t, strings.Repeat(`{"output_length":1,"hash_ids":[7]}`+"\n", 9000))
	full := errors.New("full")
	if _, err := w.Save(writerFunc(func([]byte) (int, error) { return 0, full }), 4); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
