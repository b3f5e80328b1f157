package workload

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/kvcache"
)

// load reads a trace of 4-token blocks for an engine with blocks of 4.
func load(text string) (*Workload, error) {
	return LoadMooncake(strings.NewReader(text), "t.jsonl", TraceSpec{TraceBlockSize: 4, EngineBlockSize: 4})
}

func mustLoad(t testing.TB, text string) *Workload {
	t.Helper()
	w, err := load(text)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// fullBlocks lists the engine's full blocks of a turn.
func fullBlocks(turn *Turn, engineBlock int) []kvcache.BlockID {
	return turn.Prompt.AppendBlocks(nil, 0, turn.InputTokens/engineBlock)
}

// describe shows the turns in the order of the trace: session.index, line, start or delay, tokens in and out, full
// blocks.
func describe(w *Workload) []string {
	var lines []string
	for i := range w.Turns {
		turn := &w.Turns[i]
		session := &w.Sessions[turn.Session]
		when := fmt.Sprintf("+%v", turn.DelayMs)
		if session.First == int32(i) {
			when = "@-"
			if session.Timed {
				when = fmt.Sprintf("@%v", session.StartMs)
			}
		}
		lines = append(lines, fmt.Sprintf("%s.%d line %d %s %d->%d %v",
			w.SessionName(int32(i)), turn.Index, turn.Row+1, when, turn.InputTokens, turn.OutputTokens,
			fullBlocks(turn, 4)))
	}
	return lines
}

func TestMooncakeAccepts(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"every field", `{"timestamp":1.5,"input_length":6,"output_length":3,"hash_ids":[7,8],"session_id":"s","delay":0,` +
			`"request_id":"r","priority":-1,"strict_priority":4294967295,"policy_class":"p"}`,
			[]string{"s.0 line 1 @1.5 6->3 [0]"}},
		{"aliases", `{"created_time":2,"input_tokens":8,"output_tokens":1,"hash_ids":[7,8],"delay_ms":0}`,
			[]string{"request_1.0 line 1 @2 8->1 [0 1]"}},
		{"null is absent", `{"timestamp":null,"input_length":null,"output_length":1,"hash_ids":[7],"session_id":null,` +
			`"delay":null,"request_id":null,"output_token_ids":null,"priority":null,"strict_priority":null,"policy_class":null}`,
			[]string{"request_1.0 line 1 @- 4->1 [0]"}},
		{"unknown keys, even twice and nested",
			`{"type":"x","type":{"hash_ids":1,"a":[],"a":2},"output_length":1,"hash_ids":[7]}`,
			[]string{"request_1.0 line 1 @- 4->1 [0]"}},
		{"escaped key and text", `{"output\u005flength":2,"hash_ids":[7],"session_id":"\u00e9\n"}`,
			[]string{"é\n.0 line 1 @- 4->2 [0]"}},
		{"white space inside", "\t{ \"output_length\" : 1 , \"hash_ids\" : [ 7 ,\t8 ] } ",
			[]string{"request_1.0 line 1 @- 8->1 [0 1]"}},
		{"a length is cut to what the block ids cover",
			`{"input_length":9223372036854775807,"output_length":1,"hash_ids":[7,8]}`,
			[]string{"request_1.0 line 1 @- 8->1 [0 1]"}},
		{"surplus block ids", `{"input_length":3,"output_length":1,"hash_ids":[7,8]}`,
			[]string{"request_1.0 line 1 @- 3->1 []"}},
		{"exact 64-bit ids, of which the low half counts",
			`{"output_length":1,"hash_ids":[18446744073709551615,9007199254740993]}
{"output_length":1,"hash_ids":[4294967295,1]}
{"output_length":1,"hash_ids":[18446744073709551614]}`,
			[]string{"request_1.0 line 1 @- 8->1 [0 1]", "request_2.0 line 2 @- 8->1 [0 1]",
				"request_3.0 line 3 @- 4->1 [2]"}},
		{"blank lines count, CRLF, no newline at the end",
			"\n{\"output_length\":1,\"hash_ids\":[7]}\r\n \t\r\n{\"output_length\":1,\"hash_ids\":[7]}\r",
			[]string{"request_2.0 line 2 @- 4->1 [0]", "request_4.0 line 4 @- 4->1 [0]"}},
		{"sessions interleave, first appearance orders them",
			`{"timestamp":9,"session_id":"b","output_length":1,"hash_ids":[1]}
{"timestamp":1,"session_id":"a","output_length":2,"hash_ids":[2]}
{"delay":3,"session_id":"b","output_length":3,"hash_ids":[3]}
{"timestamp":4,"session_id":"a","output_length":4,"hash_ids":[4]}`,
			[]string{"b.0 line 1 @9 4->1 [0]", "a.0 line 2 @1 4->2 [1]", "b.1 line 3 +3 4->3 [2]",
				"a.1 line 4 +3 4->4 [3]"}},
		{"an empty session id is a name", `{"session_id":"","output_length":1,"hash_ids":[1]}
{"session_id":"","output_length":1,"hash_ids":[1]}`,
			[]string{".0 line 1 @- 4->1 [0]", ".1 line 2 +0 4->1 [0]"}},
		{"delays: given, inferred from the latest timestamp, none",
			`{"timestamp":10,"session_id":"a","output_length":1,"hash_ids":[1]}
{"timestamp":100,"delay":5,"session_id":"a","output_length":1,"hash_ids":[1]}
{"timestamp":107,"session_id":"a","output_length":1,"hash_ids":[1]}
{"session_id":"a","output_length":1,"hash_ids":[1]}
{"timestamp":110,"session_id":"a","output_length":1,"hash_ids":[1]}
{"timestamp":50,"delay":1,"session_id":"a","output_length":1,"hash_ids":[1]}
{"timestamp":51,"session_id":"a","output_length":1,"hash_ids":[1]}`,
			[]string{"a.0 line 1 @10 4->1 [0]", "a.1 line 2 +5 4->1 [0]", "a.2 line 3 +7 4->1 [0]",
				"a.3 line 4 +0 4->1 [0]",
				"a.4 line 5 +3 4->1 [0]", "a.5 line 6 +1 4->1 [0]", "a.6 line 7 +1 4->1 [0]"}},
		{"a delay needs no timestamps, and the first one seen later counts",
			`{"session_id":"a","output_length":1,"hash_ids":[1]}
{"session_id":"a","delay":2,"timestamp":5,"output_length":1,"hash_ids":[1]}
{"session_id":"a","timestamp":6,"output_length":1,"hash_ids":[1]}`,
			[]string{"a.0 line 1 @- 4->1 [0]", "a.1 line 2 +2 4->1 [0]", "a.2 line 3 +1 4->1 [0]"}},
		{"a row may continue a row without session by its line", `{"output_length":1,"hash_ids":[1]}
{"session_id":"request_1","output_length":1,"hash_ids":[1]}
{"session_id":"request_1","output_length":1,"hash_ids":[1]}`,
			[]string{"request_1.0 line 1 @- 4->1 [0]", "request_1.1 line 2 +0 4->1 [0]",
				"request_1.2 line 3 +0 4->1 [0]"}},
		{"and the other way round", `{"session_id":"request_2","output_length":1,"hash_ids":[1]}
{"output_length":1,"hash_ids":[1]}`,
			[]string{"request_2.0 line 1 @- 4->1 [0]", "request_2.1 line 2 +0 4->1 [0]"}},
		{"a continued row is no session of its own", `{"session_id":"request_2","output_length":1,"hash_ids":[1]}
{"output_length":1,"hash_ids":[1]}
{"output_length":1,"hash_ids":[1]}
{"session_id":"request_2","output_length":1,"hash_ids":[1]}
{"session_id":"request_3","output_length":1,"hash_ids":[1]}`,
			[]string{"request_2.0 line 1 @- 4->1 [0]", "request_2.1 line 2 +0 4->1 [0]",
				"request_3.0 line 3 @- 4->1 [0]",
				"request_2.2 line 4 +0 4->1 [0]", "request_3.1 line 5 +0 4->1 [0]"}},
		{"only the very name continues it", `{"output_length":1,"hash_ids":[1]}
{"session_id":"request_01","output_length":1,"hash_ids":[1]}
{"session_id":"request_+1","output_length":1,"hash_ids":[1]}
{"session_id":"request_-1","output_length":1,"hash_ids":[1]}
{"session_id":"request_0","output_length":1,"hash_ids":[1]}
{"session_id":"request_","output_length":1,"hash_ids":[1]}`,
			[]string{"request_1.0 line 1 @- 4->1 [0]", "request_01.0 line 2 @- 4->1 [0]",
				"request_+1.0 line 3 @- 4->1 [0]",
				"request_-1.0 line 4 @- 4->1 [0]", "request_0.0 line 5 @- 4->1 [0]", "request_.0 line 6 @- 4->1 [0]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := describe(mustLoad(t, c.text)); !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestMooncakeRefuses(t *testing.T) {
	const good = `{"output_length":1,"hash_ids":[7]}` + "\n"
	with := func(member string) string { return `{"output_length":1,"hash_ids":[7],` + member + `}` }
	for _, c := range []struct{ name, text, want string }{
		{"no rows", "", "t.jsonl: holds no requests"},
		{"only blank lines", "\n \r\n\n", "t.jsonl: holds no requests"},
		{"broken JSON", good + "\n{bad", "t.jsonl line 3: broken JSON at byte 2: "},
		{"cut off", `{"output_length":1`, "t.jsonl line 1: broken JSON"},
		{"byte order mark in the middle", good + "\ufeff" + good,
			"t.jsonl line 2: begins with a byte order mark, remove it"},
		{"list", "[1]", "t.jsonl line 1: got a list, want a JSON object"},
		{"number", "12", "t.jsonl line 1: got a number, want a JSON object"},
		{"text", `"x"`, "t.jsonl line 1: got a string, want a JSON object"},
		{"null", "null", "t.jsonl line 1: got null, want a JSON object"},
		{"two values", `{"output_length":1,"hash_ids":[7]} {}`, "t.jsonl line 1: more than one JSON value on the line"},
		{"text behind", `{"output_length":1,"hash_ids":[7]}x`, "t.jsonl line 1: more than one JSON value on the line"},
		{"not UTF-8", good + "{\"session_id\":\"\xff\",\"output_length\":1,\"hash_ids\":[7]}",
			"t.jsonl line 2: not valid UTF-8"},
		{"half a surrogate", with(`"session_id":"\ud800"`), "t.jsonl line 1: broken JSON"},

		{"duplicate", with(`"output_length":1`), "t.jsonl line 1: output_length: given twice"},
		{"duplicate null", with(`"timestamp":null,"timestamp":1`), "t.jsonl line 1: timestamp: given twice"},
		{"field and alias", with(`"timestamp":1,"created_time":1`), "t.jsonl line 1: created_time: given twice"},
		{"alias and field", with(`"output_tokens":1`), "t.jsonl line 1: output_tokens: given twice"},
		{"delay and delay_ms", with(`"delay":0,"delay_ms":0`), "t.jsonl line 1: delay_ms: given twice"},

		{"no hash_ids", `{"output_length":1}`, "t.jsonl line 1: hash_ids: missing"},
		{"null hash_ids", `{"output_length":1,"hash_ids":null}`, "t.jsonl line 1: hash_ids: missing"},
		{"empty hash_ids", `{"output_length":1,"hash_ids":[]}`,
			"t.jsonl line 1: hash_ids: got [], want at least one block id"},
		{"no output_length", `{"hash_ids":[7]}`, "t.jsonl line 1: output_length: missing"},
		{"null output_length", `{"hash_ids":[7],"output_length":null}`, "t.jsonl line 1: output_length: missing"},
		{"no output", `{"hash_ids":[7],"output_length":0}`,
			"t.jsonl line 1: output_length: got 0, want an integer >= 1"},
		{"no input", with(`"input_length":0`), "t.jsonl line 1: input_length: got 0, want an integer >= 1"},

		{"length with fraction", with(`"input_length":8.0`),
			"t.jsonl line 1: input_length: got 8.0, want an integer from 0 to 9223372036854775807"},
		{"length with exponent", with(`"input_length":1e1`), "input_length: got 1e1, want an integer"},
		{"negative length", with(`"input_length":-8`), "input_length: got -8, want an integer"},
		{"length as text", with(`"input_length":"8"`), `input_length: got "8", want an integer`},
		{"length as boolean", with(`"input_tokens":true`), `input_tokens: got true, want an integer`},
		{"length beyond 63 bits", with(`"input_length":18446744073709551615`),
			"input_length: got 18446744073709551615, want an integer from"},
		{"output beyond 31 bits", `{"hash_ids":[7],"output_length":2147483648}`,
			"output_length: got 2147483648, want an integer from 0 to 2147483647"},
		{"ids not a list", `{"output_length":1,"hash_ids":7}`,
			"hash_ids: got 7, want a list of integers from 0 to 18446744073709551615"},
		{"id negative", `{"output_length":1,"hash_ids":[1,-7]}`, "hash_ids: got [1,-7], want a list of integers"},
		{"id with fraction", `{"output_length":1,"hash_ids":[1.0]}`, "hash_ids: got [1.0], want a list of integers"},
		{"id with exponent", `{"output_length":1,"hash_ids":[1e2]}`, "hash_ids: got [1e2], want a list of integers"},
		{"id as text", `{"output_length":1,"hash_ids":["1"]}`, `hash_ids: got ["1"], want a list of integers`},
		{"id null", `{"output_length":1,"hash_ids":[null]}`, `hash_ids: got [null], want a list of integers`},
		{"id list", `{"output_length":1,"hash_ids":[[1]]}`, `hash_ids: got [[1]], want a list of integers`},
		{"id 2^64", `{"output_length":1,"hash_ids":[18446744073709551616]}`,
			"hash_ids: got [18446744073709551616], want a list of integers"},
		{"id far beyond", `{"output_length":1,"hash_ids":[99999999999999999999999]}`,
			"hash_ids: got [99999999999999999999999], want a list of integers"},
		{"long value is shortened", `{"output_length":1,"hash_ids":[` + strings.Repeat("1,", 500) + `-1]}`,
			"1,1,1..., want a list"},
		{"time as text", with(`"timestamp":"1"`), `timestamp: got "1", want a number`},
		{"time beyond a double", with(`"timestamp":1e999`),
			`timestamp: got 1e999, want a number within the range of a double`},
		{"delay as text", with(`"delay":"1"`), `delay: got "1", want a number`},
		{"session as number", with(`"session_id":1`), `session_id: got 1, want a string`},
		{"request as number", with(`"request_id":1`), `request_id: got 1, want a string`},
		{"priority beyond 31 bits", with(`"priority":2147483648`),
			`priority: got 2147483648, want an integer from -2147483648 to 2147483647`},
		{"priority with fraction", with(`"priority":1.5`), `priority: got 1.5, want an integer`},
		{"strict_priority negative", with(`"strict_priority":-1`),
			`strict_priority: got -1, want an integer from 0 to 4294967295`},
		{"tenant as number", with(`"tenant":1`), `tenant: got 1, want a string`},
		{"deadline 0", with(`"deadline_ms":0`), `deadline_ms: got 0, want a number above 0`},
		{"deadline as text", with(`"deadline_ms":"1"`), `deadline_ms: got "1", want a number`},
		{"policy_class as number", with(`"policy_class":1`), `policy_class: got 1, want a string`},
		{"fewer output tokens than there are", with(`"output_token_ids":[]`),
			`t.jsonl line 1: output_token_ids: got 0 tokens, want as many as output_length, 1`},
		{"more output tokens than there are", with(`"output_token_ids":[1,2]`),
			`t.jsonl line 1: output_token_ids: got 2 tokens, want as many as output_length, 1`},
		{"output token beyond 32 bits", with(`"output_token_ids":[4294967296]`),
			`output_token_ids: got [4294967296], want a list of integers from 0 to 4294967295`},

		{"delay on a first turn", with(`"session_id":"s","delay":5`),
			`t.jsonl line 1: delay: got 5 for the first turn of session "s"`},
		{"delay without a session", good + with(`"delay":5`),
			`t.jsonl line 2: delay: got 5 for the first turn of session "request_2"`},
		{"negative delay", with(`"session_id":"s"`) + "\n" + with(`"session_id":"s","delay":-1`),
			`t.jsonl line 2: delay: got -1, want a finite number >= 0`},
		{"time goes back", with(`"session_id":"s","timestamp":10`) + "\n" + with(`"session_id":"s","timestamp":5`),
			`t.jsonl line 2: timestamp: got 5, which is a delay of -5 ms after the session's previous timestamp, want >= 0`},
		{"nothing to infer from", with(`"session_id":"s"`) + "\n" + with(`"session_id":"s","timestamp":5`),
			`t.jsonl line 2: timestamp: cannot infer the delay of this turn, no earlier row of session "s" has a timestamp`},
		{"infinite distance", with(`"session_id":"s","timestamp":-1e308`) + "\n" +
			with(`"session_id":"s","timestamp":1e308`),
			`t.jsonl line 2: timestamp: got 1e+308, which is a delay of +Inf ms`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := load(c.text)
			switch {
			case err == nil:
				t.Errorf("accepted: %v", describe(w))
			case !strings.Contains(err.Error(), c.want):
				t.Errorf("got  %v\nwant %s", err, c.want)
			case strings.Contains(err.Error(), "\n"):
				t.Errorf("more than one line: %v", err)
			}
		})
	}
}

func TestMooncakeNotesRouterHints(t *testing.T) {
	for text, want := range map[string]bool{
		`{"output_length":1,"hash_ids":[7]}`:                        false,
		`{"output_length":1,"hash_ids":[7],"request_id":"x"}`:       false,
		`{"output_length":1,"hash_ids":[7],"priority":null}`:        false,
		`{"output_length":1,"hash_ids":[7],"priority":2}`:           true,
		`{"output_length":1,"hash_ids":[7],"strict_priority":2}`:    true,
		`{"output_length":1,"hash_ids":[7],"policy_class":"batch"}`: true,
	} {
		if got := mustLoad(t, text).RouterHints; got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

func TestMooncakePolls(t *testing.T) {
	stop := errors.New("stop")
	calls := 0
	spec := TraceSpec{TraceBlockSize: 4, EngineBlockSize: 4, Poll: func() error {
		if calls++; calls == 3 {
			return stop
		}
		return nil
	}}
	text := strings.Repeat(`{"output_length":1,"hash_ids":[7]}`+"\n", 10*pollEvery)
	if _, err := LoadMooncake(strings.NewReader(text), "t", spec); !errors.Is(err, stop) || calls != 3 {
		t.Errorf("got %v after %d calls", err, calls)
	}
}

// TestLengthsOnly: prompts of a trace without block ids share nothing, and a warning says so.
func TestLengthsOnly(t *testing.T) {
	w := mustLoad(t, `{"timestamp":0,"input_length":9,"output_length":1}
{"timestamp":1,"input_tokens":8,"output_length":1,"hash_ids":null}`)
	want := []string{"request_1.0 line 1 @0 9->1 [0 1]", "request_2.0 line 2 @1 8->1 [2 3]"}
	if got := describe(w); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	const note = "2 of 2 requests: there are no hash_ids, so that prompts share no prefixes"
	if got := w.Notes.Texts(2); !slices.Equal(got, []string{note}) {
		t.Errorf("got %q", got)
	}
	with, without := `{"output_length":1,"input_length":4,"hash_ids":[7]}`, `{"output_length":1,"input_length":4}`
	for text, want := range map[string]string{
		with + "\n" + without: "line 2: hash_ids: missing, want the list of the " +
			"prompt's block ids, as in line 1",
		without + "\n" + with: "line 2: hash_ids: got a list, want it in all lines",
		`{"output_length":1,"input_length":67108865}`: "line 1: input_length: got 67108865, want at most " +
			"67108864 without hash_ids",
		`{"output_length":1,"input_length":9223372036854775807}`: "line 1: input_length: got 9223372036854775807, " +
			"want at most",
		`{"output_length":1,"input_length":0}`: "line 1: hash_ids: missing",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// TestByteOrderMark: the mark that some programs write before text changes nothing, in compressed files, too.
func TestByteOrderMark(t *testing.T) {
	const row = `{"output_length":1,"hash_ids":[7]}` + "\n"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("\ufeff" + row)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	want := describe(mustLoad(t, row))
	for _, text := range []string{"\ufeff" + row, packed.String()} {
		if got := describe(mustLoad(t, text)); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
