package answers

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/server/tokens"
)

// arrive lets tokens arrive in pieces of random sizes, and checks what is visible meanwhile.
func arrive(t *testing.T, q *Question, marks *Marks, ids []uint32, finish string, rng *rand.Rand) *Arriving {
	t.Helper()
	a := Arrive(q, func() tokens.Decoder { return tokens.Bytes{}.Decoder(nil, true) }, marks)
	var visible []string
	for len(ids) > 0 {
		n := 1 + rng.IntN(min(3, len(ids)))
		last := ""
		if n == len(ids) && (len(a.Tokens)+n >= q.Most || rng.IntN(2) == 0) {
			last = finish
		}
		a.Add(ids[:n], last)
		visible = append(visible, a.Text[:a.Visible])
		ids = ids[n:]
	}
	a.Add(nil, finish)
	for _, v := range visible {
		if !strings.HasPrefix(a.Text[:a.Visible], v) {
			t.Fatalf("%q has been taken back: the answer is %q", v, a.Text[:a.Visible])
		}
	}
	if len(a.Ends) != len(a.Tokens) || !a.Complete(len(a.Tokens)) {
		t.Fatalf("got %d ends of %d tokens, finish %q", len(a.Ends), len(a.Tokens), a.Finish)
	}
	return a
}

// TestArrivingIsDecided: an answer that arrives in whatever pieces is what is decided when all of it is known.
func TestArrivingIsDecided(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	word := func(n int) string {
		var text strings.Builder
		for range n {
			text.WriteString([]string{"a", "b", "é", "ab"}[rng.IntN(4)])
		}
		return text.String()
	}
	for range 20000 {
		q := Question{Said: word(1 + rng.IntN(20)), Limited: true, Most: 1 + rng.IntN(30), Fewest: rng.IntN(8)}
		q.Fewest = min(q.Fewest, q.Most)
		for range rng.IntN(4) {
			q.Stop = append(q.Stop, word(1+rng.IntN(4)))
		}
		if rng.IntN(4) == 0 {
			q.StopTokens = []uint32{uint32("ab\xa9"[rng.IntN(3)])}
		}
		want := decide(t, Source{Mode: Echo}, q)
		whole, _ := tokens.Bytes{}.Answer(t.Context(), q.Said)
		if len(whole.Tokens) < q.Fewest {
			whole = whole.Repeat(q.Fewest)
		}
		a := arrive(t, &q, nil, whole.Tokens, "stop", rng)
		// of a character that is cut, which a decided answer leaves out
		shown := strings.TrimSuffix(a.Text[:a.Visible], "\uFFFD")
		if !slices.Equal(a.Tokens, want.Tokens) || shown != want.Text[:want.Visible] || a.Finish != want.Finish ||
			a.StopReason != want.StopReason {
			t.Fatalf("%+v: got %q of %d tokens, %s, %v, want %q of %d tokens, %s, %v", q, shown, len(a.Tokens),
				a.Finish, a.StopReason,
				want.Text[:want.Visible], len(want.Tokens), want.Finish, want.StopReason)
		}
	}
}

func TestArrivingReasoning(t *testing.T) {
	marks := &Marks{Begin: '<', End: '>'}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		said, reasoning, speech string
		thought                 int
		stop                    []string
	}{
		{"<abc>def", "abc", "def", 5, nil},
		{"<>def", "", "def", 2, nil},
		{"<abc", "abc", "", 4, nil},
		{"<", "", "", 1, nil},
		{"abc>d", "", "abc>d", 0, nil},
		{"<\xc3>\xa9", "\uFFFD", "\uFFFD", 3, nil},
		{"<abc>dabcd", "abc", "d", 5, []string{"abc", "c>"}},
		{"<ab", "ab", "", 3, []string{"bc"}},
		{"<ab\xc3!", "ab\uFFFD", "", 5, nil}, // a token that ends the answer within the reasoning
	} {
		ids := make([]uint32, len(c.said))
		for i := range ids {
			ids[i] = uint32(c.said[i])
		}
		a := arrive(t, &Question{Most: 100, Reasoning: true, Stop: c.stop, StopTokens: []uint32{'!'}}, marks, ids,
			"stop", rng)
		begins, ends, speech := a.Reasoning()
		if a.Text[begins:ends] != c.reasoning || a.Text[speech:a.Visible] != c.speech || a.Thought != c.thought {
			t.Errorf("%q: got %q and %q, %d tokens", c.said, a.Text[begins:ends], a.Text[speech:a.Visible], a.Thought)
		}
	}
}

// TestArrivingEnds: the tokens with which a model ends its texts say nothing, and tokens after the end are dropped.
func TestArrivingEnds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name   string
		q      Question
		ids    []uint32
		text   string
		tokens int
		finish string
	}{
		{"by itself", Question{Most: 9, EndTokens: []uint32{7}}, []uint32{'a', 7, 'b'}, "a", 2, "stop"},
		{"too early", Question{Most: 9, Fewest: 3, EndTokens: []uint32{7}}, []uint32{'a', 7, 'b', 7}, "a\ab", 4,
			"stop"},
		{"ignored", Question{Most: 9, IgnoreEnd: true, EndTokens: []uint32{7}}, []uint32{'a', 7, 'b'}, "a\ab", 3,
			"content_filter"},
		{"too many", Question{Most: 2}, []uint32{'a', 'b', 'c'}, "ab", 2, "length"},
		{"none", Question{Most: 2}, nil, "", 0, "content_filter"},
		{"held back", Question{Most: 9, Stop: []string{"bcd"}}, []uint32{'a', 'b', 'c'}, "abc", 3, "content_filter"},
	} {
		a := arrive(t, &c.q, nil, c.ids, "content_filter", rng)
		if a.Text[:a.Visible] != c.text || len(a.Tokens) != c.tokens || a.Finish != c.finish || a.StopReason != nil {
			t.Errorf("%s: got %q, %d tokens, %s, %v", c.name, a.Text[:a.Visible], len(a.Tokens), a.Finish, a.StopReason)
		}
	}
}
