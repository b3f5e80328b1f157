package answers

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"dynosim/gocore/server/conform"
	"dynosim/gocore/server/tokens"
)

func decide(t *testing.T, s Source, q Question) Answer {
	t.Helper()
	s.Tokenizer = tokens.Bytes{}
	a, err := s.Decide(context.Background(), &q)
	if err != nil {
		t.Fatal(err)
	}
	if most := s.AtMost(&q); len(a.Tokens) > most {
		t.Fatalf("got %d tokens, at most %d were expected", len(a.Tokens), most)
	}
	if len(a.Tokens) != len(a.Ends) || a.Visible > len(a.Text) ||
		len(a.Tokens) > 0 && int(a.Ends[len(a.Ends)-1]) != len(a.Text) {
		t.Fatalf("got %+v", a)
	}
	return a
}

// TestLengths: an answer has as many tokens as the client asks for; without a number it ends by itself.
func TestLengths(t *testing.T) {
	random := Source{Standard: 16}
	for _, c := range []struct {
		name   string
		source Source
		q      Question
		tokens int
		finish string
	}{
		{"asked for", random, Question{Most: 5, Limited: true}, 5, "length"},
		{"by itself", random, Question{Most: 100}, 16, "stop"},
		{"little room", random, Question{Most: 7}, 7, "stop"},
		{"at least", random, Question{Most: 100, Fewest: 30}, 30, "stop"},
		{"without an end", random, Question{Most: 100, IgnoreEnd: true}, 16, "length"},
		{"echo", Source{Mode: Echo}, Question{Said: "hello", Most: 100, Limited: true}, 5, "stop"},
		{"a part of it", Source{Mode: Echo}, Question{Said: "hello", Most: 3, Limited: true}, 3, "length"},
		{"all of it", Source{Mode: Echo}, Question{Said: "hello", Most: 5, Limited: true}, 5, "stop"},
		{"again and again", Source{Mode: Echo}, Question{Said: "hello", Most: 12, Limited: true, IgnoreEnd: true}, 12,
			"length"},
		{"at least, again", Source{Mode: Echo}, Question{Said: "hello", Most: 12, Limited: true, Fewest: 8}, 8, "stop"},
		{"nothing to echo", Source{Mode: Echo, Standard: 4}, Question{Most: 12}, 4, "stop"},
	} {
		if a := decide(t, c.source, c.q); len(a.Tokens) != c.tokens || a.Finish != c.finish {
			t.Errorf("%s: got %d tokens, %s, want %d, %s", c.name, len(a.Tokens), a.Finish, c.tokens, c.finish)
		}
	}
}

func TestStops(t *testing.T) {
	const said = "one two three two"
	for _, c := range []struct {
		name    string
		q       Question
		visible string
		tokens  int
		reason  any
	}{
		{"none", Question{}, said, 17, nil},
		{"not there", Question{Stop: []string{"four"}}, said, 17, nil},
		{"one", Question{Stop: []string{"two"}}, "one ", 7, "two"},
		{"the first of several", Question{Stop: []string{"three", "two"}}, "one ", 7, "two"},
		{"complete first", Question{Stop: []string{"e two three", "two"}}, "one ", 7, "two"},
		{"at the same token", Question{Stop: []string{"two", "one two"}}, "", 7, "one two"},
		{"at the end", Question{Stop: []string{"e two"}}, "on", 7, "e two"},
		{"too early", Question{Stop: []string{"two"}, Fewest: 8}, "one two three ", 17, "two"},
		{"just late enough", Question{Stop: []string{"two"}, Fewest: 7}, "one ", 7, "two"},
		{"token", Question{StopTokens: []uint32{'t'}}, "one ", 5, uint32('t')},
		{"token, too early", Question{StopTokens: []uint32{'t'}, Fewest: 6}, "one two ", 9, uint32('t')},
		{"first token", Question{StopTokens: []uint32{'o'}}, "", 1, uint32('o')},
		{"token before text", Question{StopTokens: []uint32{'n'}, Stop: []string{"two"}}, "o", 2, uint32('n')},
	} {
		c.q.Said, c.q.Most, c.q.Limited = said, 100, true
		a := decide(t, Source{Mode: Echo}, c.q)
		if a.Text[:a.Visible] != c.visible || len(a.Tokens) != c.tokens || a.StopReason != c.reason ||
			a.Finish != "stop" {
			t.Errorf("%s: got %q, %d tokens, %v, %s", c.name, a.Text[:a.Visible], len(a.Tokens), a.StopReason, a.Finish)
		}
	}
}

// TestSeeds: equal questions get equal answers; another seed, prompt or choice gets another one.
func TestSeeds(t *testing.T) {
	q := Question{Prompt: []uint32{1, 2, 3}, Most: 50, Limited: true}
	first := decide(t, Source{Seed: 1}, q).Text
	if again := decide(t, Source{Seed: 1}, q).Text; again != first {
		t.Errorf("got %q and %q", first, again)
	}
	seed, prompt, choice := q, q, q
	seed.Seed, prompt.Prompt, choice.Choice = 5, []uint32{1, 2, 4}, 1
	for name, other := range map[string]string{
		"source": decide(t, Source{Seed: 2}, q).Text, "request": decide(t, Source{Seed: 1}, seed).Text,
		"prompt": decide(t, Source{Seed: 1}, prompt).Text, "choice": decide(t, Source{Seed: 1}, choice).Text,
	} {
		if other == first {
			t.Errorf("another %s gives the same answer", name)
		}
	}
}

func TestThought(t *testing.T) {
	s := Source{Mode: Echo, Thinking: 0.5}
	a := decide(t, s, Question{Said: "0123456789", Most: 10, Limited: true, Reasoning: true})
	begins, ends, speech := a.Reasoning()
	if a.Thought != 5 || a.Text[begins:ends] != "123" || a.Text[speech:] != "56789" {
		t.Errorf("got %d, %q, %q", a.Thought, a.Text[begins:ends], a.Text[speech:])
	}
	stopped := decide(t, s, Question{Said: "01234x6x89", Most: 10, Limited: true, Reasoning: true,
		Stop: []string{"1", "x"}})
	if stopped.Text[:stopped.Visible] != "01234" || stopped.StopReason != "x" {
		t.Errorf("got %q: a stop sequence in the reasoning counts", stopped.Text[:stopped.Visible])
	}
	cut := decide(t, s, Question{Said: "0123456789", Most: 10, Limited: true, Reasoning: true,
		StopTokens: []uint32{'2'}})
	if begins, ends, speech := cut.Reasoning(); cut.Text[begins:ends] != "12" || speech != 3 || cut.Thought != 3 {
		t.Errorf("got %q, %d tokens: a stop token ends the answer inside the reasoning", cut.Text[begins:ends],
			cut.Thought)
	}
}

// TestRecording compares the look-up with a search through all prompts.
func TestRecording(t *testing.T) {
	var rows []string
	prompts := []string{"", "a", "ab", "abc", "abx", "b", "ba", "bab", "é", "éa", "zz"}
	for _, p := range prompts[1:] {
		rows = append(rows, `{"prompt": "`+p+`", "response": "to `+p+`", "more": 1}`, "")
	}
	r, err := ReadRecording(strings.NewReader(strings.Join(rows, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{"", "a", "aa", "abcd", "abxy", "aby", "bb", "babab", "c", "éab", "z", "zzz"} {
		want := ""
		for _, p := range prompts[1:] {
			if strings.HasPrefix(said, p) && len(p) >= len(want) {
				want = p
			}
		}
		got := r.find(said)
		if (got != nil) != (want != "") || got != nil && got.list[0].Text != "to "+want {
			t.Errorf("%q: got %+v, want the answer to %q", said, got, want)
		}
	}
	if !slices.IsSorted(r.prompts) {
		t.Errorf("got %q", r.prompts)
	}
	for _, bad := range []string{"", "{", `{"prompt": "x"}`, `{"response": "x"}`, `{"prompt": "x", "response": ""}`,
		`{"prompt": 1, "response": "x"}`,
		`{"prompt": "x", "response": "y", "tool_calls": [{"name": "f", "arguments": {}}]}`,
		`{"prompt": "x", "tool_calls": []}`,
		`{"prompt": "x", "tool_calls": [{"name": "f", "arguments": []}]}`,
		`{"prompt": "x", "tool_calls": [{"arguments": {}}]}`,
		`{"prompt": "x", "tool_calls": [{"name": "f", "arguments": "{"}]}`} {
		if _, err := ReadRecording(strings.NewReader(bad)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// TestOrder: answers to one prompt are given in the order of the file, again and again; so an agent with the same words
// in each turn gets its calls and its end.
func TestOrder(t *testing.T) {
	recording, err := ReadRecording(strings.NewReader(`{"prompt": "", "tool_calls": [{"name": "f", "arguments": {"x": 1}}]}
		{"prompt": "", "tool_calls": [{"name": "f", "arguments": {"x": 2}}]}
		{"prompt": "", "response": "done"}`))
	if err != nil {
		t.Fatal(err)
	}
	source := Source{Mode: Recorded, Tokenizer: tokens.Bytes{}, Standard: 16, Recorded: recording}
	for round := range 2 {
		for turn, want := range []string{`{"x":1}`, `{"x":2}`, "done"} {
			q := Question{Said: "go", Prompt: []uint32{1}, Most: 200, AfterResult: turn > 0, Result: "ok",
				Tools: &Tools{Functions: []Function{{Name: "f"}}}}
			a, err := source.Decide(t.Context(), &q)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(a.Text, " ", "")
			if turn < 2 && (len(a.Calls) != 1 || !strings.Contains(got, want)) || turn == 2 && got != want {
				t.Errorf("round %d, turn %d: got %q, want %s", round, turn, a.Text, want)
			}
		}
	}
}

// TestForms: an answer in a form ends by itself, is cut off where it may not be longer, and comes after the reasoning.
func TestForms(t *testing.T) {
	form, err := conform.Schema([]byte(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],` +
		`"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		source  Source
		q       Question
		tokens  int
		thought int
		finish  string
	}{
		{"asked for", Source{Standard: 16}, Question{Most: 50, Limited: true}, 50, 0, "stop"},
		{"by itself", Source{Standard: 30}, Question{Most: 100}, 30, 0, "stop"},
		{"at least", Source{Standard: 16}, Question{Most: 100, Fewest: 40}, 40, 0, "stop"},
		{"cut off", Source{Standard: 16}, Question{Most: 5, Limited: true}, 5, 0, "length"},
		{"reasoning", Source{Standard: 16, Thinking: 0.5}, Question{Most: 50, Limited: true, Reasoning: true}, 50, 25,
			"stop"},
		{"echo", Source{Mode: Echo, Standard: 30}, Question{Said: "hello", Most: 100}, 30, 0, "stop"},
	} {
		c.q.Form = form
		a := decide(t, c.source, c.q)
		if len(a.Tokens) != c.tokens || a.Thought != c.thought || a.Finish != c.finish {
			t.Errorf("%s: got %d tokens, %d of them reasoning, %s: %q", c.name, len(a.Tokens), a.Thought, a.Finish,
				a.Text)
		}
		if said := a.Text[a.End(a.Thought):]; !strings.HasPrefix(said, `{"a"`) ||
			c.finish == "stop" && !strings.HasSuffix(said, `"}`) {
			t.Errorf("%s: got %s", c.name, said)
		}
	}
}

// TestCalls: answers that consist of calls have their arguments where they say, whatever the model writes around them.
func TestCalls(t *testing.T) {
	form, err := conform.Schema([]byte(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],` +
		`"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	two := []Function{{"one", form}, {"two", form}}
	recording, err := ReadRecording(strings.NewReader(`{"prompt": "call", "tool_calls": [{"name": "f", ` +
		`"arguments": {"x": 1}}, {"name": "g", "arguments": "{}"}]}
		{"prompt": "42", "response": "It is 42."}`))
	if err != nil {
		t.Fatal(err)
	}
	recorded := Source{Mode: Recorded, Standard: 16, Recorded: recording}
	for _, c := range []struct {
		name   string
		source Source
		q      Question
		calls  int // at most
		tokens int // 0 for any
		begin  string
		finish string
	}{
		{"required", Source{}, Question{Most: 90, Limited: true, Tools: &Tools{Functions: two, Must: true}}, 1, 90,
			`[{"name": "`, "tool_calls"},
		{"named", Source{}, Question{Most: 90, Limited: true, Tools: &Tools{Functions: two[:1], Must: true, Named: true}}, 1,
			90, `{"a": "`, "stop"},
		{"several", Source{MostCalls: 4}, Question{Most: 300, Limited: true,
			Tools: &Tools{Functions: two, Must: true, Parallel: true}}, 4, 300, `[{"name": "`, "tool_calls"},
		{"by itself", Source{ToolCalls: 1}, Question{Most: 90, Limited: true, Tools: &Tools{Functions: two}}, 1, 90,
			"<tool_call>\n", "tool_calls"},
		{"not by itself", Source{Standard: 16}, Question{Most: 90, Tools: &Tools{Functions: two}}, 0, 16, "", "stop"},
		{"after a result", Source{ToolCalls: 1, Standard: 16}, Question{Most: 90, AfterResult: true,
			Tools: &Tools{Functions: two}}, 0, 16, "", "stop"},
		{"reasoning", Source{Thinking: 0.5}, Question{Most: 99, Limited: true, Reasoning: true,
			Tools: &Tools{Functions: two, Must: true}}, 1, 99, `[{"name": "`, "tool_calls"},
		{"cut off", Source{}, Question{Most: 30, Limited: true, Tools: &Tools{Functions: two, Must: true}}, 1, 30,
			`[{"name": "`, "length"},
		{"recorded", recorded, Question{Said: "call it", Most: 999, Tools: &Tools{Functions: two}}, 2, 0, "<tool_call>\n",
			"tool_calls"},
		{"recorded result", recorded, Question{Said: "call it", AfterResult: true, Result: "42 degrees", Most: 999,
			Tools: &Tools{Functions: two}}, 0, 9, "It is 42.", "stop"},
		{"no recorded result", recorded, Question{Said: "call it", AfterResult: true, Result: "43", Most: 999,
			Tools: &Tools{Functions: two}}, 0, 16, "", "stop"},
	} {
		most := 0
		for seed := range uint64(20) {
			c.q.Seed = seed
			a := decide(t, c.source, c.q)
			most = max(most, len(a.Calls))
			said := a.Text[a.End(a.Thought):]
			if c.tokens > 0 && len(a.Tokens) != c.tokens || !strings.HasPrefix(said, c.begin) || a.Finish != c.finish {
				t.Errorf("%s: got %d tokens, %s: %s", c.name, len(a.Tokens), a.Finish, said)
			}
			for i, call := range a.Calls {
				arguments := a.Text[min(call.Begin, len(a.Text)):min(call.End, len(a.Text))]
				if !jsontext.Value(arguments).IsValid() && c.finish != "length" || i > 0 && call.Begin < a.Calls[i-1].End ||
					call.Name == "" {
					t.Errorf("%s: call %d is %+v: %s", c.name, i, call, arguments)
				}
			}
		}
		if most != c.calls {
			t.Errorf("%s: got at most %d calls, want %d", c.name, most, c.calls)
		}
	}
}
