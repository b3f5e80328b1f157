package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// twoSessions starts a at 10 and b at -5.5; a has a second turn after 7.
const twoSessions = `{"timestamp":10,"session_id":"a","output_length":1,"hash_ids":[1]}
{"timestamp":-5.5,"session_id":"b","output_length":1,"hash_ids":[1]}
{"delay":7,"session_id":"a","output_length":1,"hash_ids":[1]}`

func TestScheduleMovesAndScalesTimes(t *testing.T) {
	for _, c := range []struct {
		name    string
		speedup float64
		want    []float64 // starts of a and b, delay of a's second turn
	}{
		{"the earliest start becomes 0", 1, []float64{15.5, 0, 7}},
		{"starts and delays are divided", 2, []float64{7.75, 0, 3.5}},
		{"slower", 0.5, []float64{31, 0, 14}},
	} {
		w := mustLoad(t, twoSessions)
		if err := w.Schedule(false, c.speedup); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := []float64{w.Sessions[0].StartMs, w.Sessions[1].StartMs, w.Turns[2].DelayMs}; !slices.Equal(got,
			c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestScheduleInConcurrencyModeChangesNothing(t *testing.T) {
	w := mustLoad(t, strings.Replace(twoSessions, "-5.5", "5.5", 1))
	if err := w.Schedule(true, 2); err != nil {
		t.Fatal(err)
	}
	want := []float64{10, 5.5, 7}
	if got := []float64{w.Sessions[0].StartMs, w.Sessions[1].StartMs, w.Turns[2].DelayMs}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	untimed := mustLoad(t, `{"output_length":1,"hash_ids":[1]}`)
	if err := untimed.Schedule(true, 1); err != nil {
		t.Errorf("no timestamps are needed: %v", err)
	}
}

func TestScheduleRefuses(t *testing.T) {
	const huge = `{"timestamp":0,"session_id":"a","output_length":1,"hash_ids":[1]}
{"delay":1e10,"session_id":"a","output_length":1,"hash_ids":[1]}`
	for _, c := range []struct {
		name, text  string
		concurrency bool
		speedup     float64
		want        string
	}{
		{"no timestamp", "\n" + `{"output_length":1,"hash_ids":[1]}`, false, 1,
			`t.jsonl line 2 (session "request_2"): timestamp: missing, the first turn of a session needs one unless ` +
				`replay_concurrency is given`},
		{"only a later turn has one", `{"session_id":"s","output_length":1,"hash_ids":[1]}
{"session_id":"s","timestamp":1,"delay":0,"output_length":1,"hash_ids":[1]}`, false, 1,
			`t.jsonl line 1 (session "s"): timestamp: missing`},
		{"negative time, though ignored", twoSessions, true, 1,
			`t.jsonl line 2 (session "b"): timestamp: got -5.5, want a finite number >= 0`},
		{"start beyond a double", `{"timestamp":0,"output_length":1,"hash_ids":[1]}
{"timestamp":1e10,"output_length":1,"hash_ids":[1]}`, false, 1e-300,
			`arrival_speedup_ratio: got 1e-300, want a number that leaves all times finite: t.jsonl line 2 starts at 1e+10 ms`},
		{"delay beyond a double", huge, false, 1e-300,
			`arrival_speedup_ratio: got 1e-300, want a number that leaves all times finite: t.jsonl ` +
				`line 2 has a delay of 1e+10 ms`},
		{"delays that add up beyond a double", strings.Replace(huge, "1e10", "1.5e308", 1) + "\n" +
			`{"delay":1.5e308,"session_id":"a","output_length":1,"hash_ids":[1]}`, true, 1,
			`t.jsonl line 3 (session "a"): delay: got 1.5e+308, which makes`},
	} {
		err := mustLoad(t, c.text).Schedule(c.concurrency, c.speedup)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	w := mustLoad(t, "\n"+twoSessions+"\n"+`{"output_length":1,"hash_ids":[1]}`)
	for turn, want := range []string{"a in t.jsonl line 2", "b in t.jsonl line 3", "a in t.jsonl line 4",
		"request_5 in t.jsonl line 5"} {
		if got := fmt.Sprintf("%s in %s", w.SessionName(int32(turn)), w.TurnName(int32(turn))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	generated, err := Synthetic(SyntheticSpec{InputTokens: 4, OutputTokens: 1, RequestCount: 2, TurnsPerSession: 2,
		EngineBlockSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	if got := generated.SessionName(3) + " in " + generated.TurnName(3); got != "request_3 in request 3" {
		t.Errorf("got %s", got)
	}
}
