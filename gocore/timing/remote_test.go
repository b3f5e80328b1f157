package timing

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// remote returns a model whose answers are the given ones, in their order, and the questions that it gets.
func remote(t *testing.T, answers ...string) (*Asked, *[]string) {
	t.Helper()
	questions := &[]string{}
	said := Remote{Stage: "decode", Ask: func(question string) (string, error) {
		*questions = append(*questions, question)
		if len(answers) == 0 {
			t.Fatalf("there is no answer to %s", question)
		}
		answer := answers[0]
		answers = answers[1:]
		return answer, nil
	}}
	m, err := said.Model(1)
	if err != nil {
		t.Fatal(err)
	}
	return m, questions
}

// TestToldPure: a pure model is asked once about equal parts, and about several decode parts at a time.
func TestToldPure(t *testing.T) {
	m, questions := remote(t, `{"pure": true}`, `[7.5]`, `[0.25]`, `[0.5, 0.75]`)
	for range 2 {
		if ms := m.PrefillMs(PrefillShape{Requests: 3, MeanISL: 50, MeanPrefix: 20}); ms != 7.5 {
			t.Errorf("prefill: got %v", ms)
		}
	}
	for i, want := range []float64{0.25, 0.5, 0.75} {
		if ms := m.DecodeMs(DecodeShape{Requests: 2, MeanContext: 100 + i}); ms != want {
			t.Errorf("decode: got %v, want %v", ms, want)
		}
	}
	want := []string{
		`{"timing":"decode","why":"begin"}`,
		`{"timing":"decode","why":"parts","parts":[[0,3,30,20]]}`,
		`{"timing":"decode","why":"parts","parts":[[1,2,1,100]]}`,
		`{"timing":"decode","why":"parts","parts":[[1,2,1,101],[1,2,1,102]]}`,
	}
	if !slices.Equal(*questions, want) || m.Err() != nil {
		t.Errorf("got %q, %v", *questions, m.Err())
	}
}

// TestToldAnew: a model that is not pure is asked about every part, also if an equal one was there before.
func TestToldAnew(t *testing.T) {
	m, questions := remote(t, `{"pure": false}`, `[1]`, `[2]`, `[3]`, `[0]`)
	for i, want := range []float64{1, 2, 3, 0} {
		if ms := m.DecodeMs(DecodeShape{Requests: 2, MeanContext: 100 + i/2}); ms != want {
			t.Errorf("got %v, want %v", ms, want)
		}
	}
	if len(*questions) != 5 || m.Err() != nil {
		t.Errorf("got %q, %v", *questions, m.Err())
	}
}

// TestToldWrong: what cannot be a duration ends the run, and says of which part.
func TestToldWrong(t *testing.T) {
	for answer, want := range map[string]string{
		`[-1]`:   "decode of 2 requests of 9 tokens: got -1 ms, want 0 or more",
		`[1, 2]`: "decode of 2 requests of 9 tokens: got 2 answers to 1 questions",
		`{}`:     "decode of 2 requests of 9 tokens: got \"{}\": json: ",
		`failed`: "decode of 2 requests of 9 tokens: the timing model failed",
	} {
		m, _ := remote(t, `{"pure": false}`, answer)
		if ms := m.DecodeMs(DecodeShape{Requests: 2, MeanContext: 9}); ms != 0 {
			t.Errorf("%s: got %v ms", answer, ms)
		}
		if m.Err() == nil || !strings.HasPrefix(m.Err().Error(), want) {
			t.Errorf("%s: got %v, want %s", answer, m.Err(), want)
		}
	}
	failing := Remote{Ask: func(string) (string, error) { return "failed", nil }}
	if _, err := failing.Model(1); !errors.Is(err, ErrRemote) {
		t.Errorf("got %v", err)
	}
}
