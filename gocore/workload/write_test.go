package workload

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/kvcache"
)

// shape returns a workload without what a saved trace may change: numbers of blocks go by first appearance.
func shape(w *Workload, engineBlock int) []string {
	numbers := map[kvcache.BlockID]int{}
	lines := make([]string, len(w.Turns))
	for i := range w.Turns {
		turn := &w.Turns[i]
		session := &w.Sessions[turn.Session]
		var blocks []int
		for _, id := range turn.Prompt.AppendBlocks(nil, 0, max(turn.InputTokens/engineBlock, turn.NamedBlocks)) {
			if _, met := numbers[id]; !met {
				numbers[id] = len(numbers)
			}
			blocks = append(blocks, numbers[id])
		}
		lines[i] = fmt.Sprintf("%s.%d start %v %v delay %v %d->%d %v named %d next %d hints %+v",
			w.SessionName(int32(i)), turn.Index,
			session.StartMs, session.Timed, turn.DelayMs, turn.InputTokens, turn.OutputTokens, blocks, len(blocks),
			turn.Next, w.Hints[int32(i)])
		if w.WaitFor != nil {
			lines[i] += fmt.Sprintf(" %s after %v", w.RequestIDs[i], w.WaitFor[i])
		}
	}
	return lines
}

// checkSaved saves a workload and reads it back.
func checkSaved(t *testing.T, w *Workload, engineBlock int) {
	t.Helper()
	var saved bytes.Buffer
	how, err := w.Save(&saved, engineBlock)
	if err != nil {
		t.Fatal(err)
	}
	text := saved.String()
	again, err := Load(how.Format, []Source{{Name: "saved", Reader: &saved}},
		TraceSpec{TraceBlockSize: how.TraceBlockSize, EngineBlockSize: engineBlock})
	if err != nil {
		t.Fatalf("%v, blocks of %d: %v\n%s", how.Format, how.TraceBlockSize, err, text)
	}
	got, want := shape(again, engineBlock), shape(w, engineBlock)
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("%v, blocks of %d, turn %d: got\n%s\nwant\n%s\nsaved\n%s", how.Format, how.TraceBlockSize, i,
				got[i], want[i], text)
		}
	}
	for i := range again.Turns {
		if w.Format != AppliedCompute && again.Turns[i].Row != w.Turns[i].Row {
			t.Fatalf("turn %d is on line %d, want %d", i, again.Turns[i].Row+1, w.Turns[i].Row+1)
		}
	}
}

func TestSavedTracesAreTheSame(t *testing.T) {
	sizes := [][2]int{{8, 4}, {4, 8}, {4, 4}, {6, 4}, {3, 8}, {4, 1}, {16, 2}}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		size := sizes[rng.IntN(len(sizes))]
		spec := TraceSpec{TraceBlockSize: size[0], EngineBlockSize: size[1]}
		rows := strings.SplitAfter(jsonl(randomDelta(rng, size[0])), "\n")
		for i := range rows {
			if rng.IntN(5) == 0 {
				rows[i] = "\n" + rows[i]
			}
			if rng.IntN(4) == 0 {
				rows[i] = strings.Replace(rows[i], `"hash_ids"`, `"priority":3,"hash_ids"`, 1)
			}
		}
		for _, format := range []Format{Mooncake, MooncakeDelta, Agentic} {
			text := strings.Join(rows, "")
			if format == Agentic {
				text = agenticOf(rng, rows)
			}
			w, err := Load(format, []Source{{Name: "t", Reader: strings.NewReader(text)}}, spec)
			if err != nil {
				t.Fatal(err)
			}
			checkSaved(t, w, spec.EngineBlockSize)
		}
	}
}

// agenticOf makes rows of sessions rows that wait for earlier ones.
func agenticOf(rng *rand.Rand, rows []string) string {
	var b strings.Builder
	for i, row := range rows {
		head := fmt.Sprintf(`{"request_id":"r%d",`, i)
		if i > 0 && rng.IntN(2) == 0 {
			head += fmt.Sprintf(`"wait_for":["r%d"],`, rng.IntN(i))
		}
		if rng.IntN(3) == 0 {
			row = strings.Replace(row, `"session_id"`, `"label"`, 1)
		}
		b.WriteString(strings.Replace(row, "{", head, 1))
	}
	return b.String()
}

func TestSavedGeneratedWorkloadsAreTheSame(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		spec := SyntheticSpec{
			InputTokens: 1 + rng.IntN(90), OutputTokens: 1 + rng.IntN(9), RequestCount: 1 + rng.IntN(9),
			ArrivalIntervalMs: rng.Float64() * 9,
			TurnsPerSession:   1 + rng.IntN(3), EngineBlockSize: 1 << rng.IntN(6),
			InterTurnDelayMs: float64(rng.IntN(2)) * 7.5,
		}
		if rng.IntN(2) == 0 {
			spec.SharedPrefixRatio, spec.NumPrefixGroups = rng.Float64(), rng.IntN(3)
		}
		checkSaved(t, mustGenerate(t, spec), spec.EngineBlockSize)
	}
}

func TestSaveAppliedCompute(t *testing.T) {
	const text = `{"num_turns":2,"input_prompt_length":10,"assistant_response_length":[3,2],` +
		`"tool_call_output_length":[5,1],"tool_call_latency":[0.05,0.2],"final_assistant_response_length":4}
{"num_turns":0,"input_prompt_length":9,"assistant_response_length":[],"tool_call_output_length":[],` +
		`"tool_call_latency":[],"final_assistant_response_length":1}`
	for _, size := range [][2]int{{4, 4}, {8, 4}, {3, 4}} {
		w, err := Load(AppliedCompute, []Source{{Name: "t", Reader: strings.NewReader(text)}},
			TraceSpec{TraceBlockSize: size[0], EngineBlockSize: size[1], SharedPrefixRatio: 0.5, NumPrefixGroups: 1})
		if err != nil {
			t.Fatal(err)
		}
		checkSaved(t, w, size[1])
	}
}

// TestSaveLongPrompts saves prompts whose segments are longer than the blocks of a trace may be.
func TestSaveLongPrompts(t *testing.T) {
	w := mustGenerate(t, SyntheticSpec{InputTokens: 3 << 20, OutputTokens: 1, RequestCount: 3, TurnsPerSession: 1,
		EngineBlockSize: 1 << 14})
	checkSaved(t, w, 1<<14)
	var out bytes.Buffer
	if how, err := w.Save(&out, 1<<14); err != nil || how.TraceBlockSize != 1<<14 {
		t.Errorf("got %+v, %v", how, err)
	}
}

// TestCounts: the most frequent comes first, equals are in the order of their names.
func TestCounts(t *testing.T) {
	if got := list(counts(map[string]int{"b": 2, "a": 2, "c": 3})); !slices.Equal(strings.Split(got, ", "),
		[]string{"c 3", "a 2", "b 2"}) {
		t.Errorf("got %s", got)
	}
}
