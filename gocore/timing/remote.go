package timing

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Remote asks a model in another language, in text. Questions are JSON objects with the key "timing"; it comes first,
// and marks questions for timing models. Its value is the pool: "", "prefill" or "decode".
//
//	{"timing":"","why":"begin"}                                the answer: {"pure": true}
//	{"timing":"","why":"parts","parts":[[0,3,512,0],[1,9,1,700]]}   the answer: [84.5, 11.25]
//
// A part is 1 if it is a decode part or else 0, how many requests it has, how many tokens each of them computes, and
// how many each has computed before. "failed" ends the run: who answers knows why.
type Remote struct {
	Ask   func(question string) (answer string, err error)
	Stage string

	room []byte
}

// ErrRemote ends a run whose timing model has failed.
var ErrRemote = errors.New("the timing model failed")

const failed = "failed"

// Model returns the model that is asked. ranks is that of [NewAsked].
func (t *Remote) Model(ranks int) (*Asked, error) {
	if t.Ask == nil {
		return nil, ErrRemote
	}
	answer, err := t.Ask(fmt.Sprintf(`{"timing":%q,"why":"begin"}`, t.Stage))
	if err != nil {
		return nil, err
	}
	if answer == failed {
		return nil, ErrRemote
	}
	var wishes struct{ Pure bool }
	if err := json.Unmarshal([]byte(answer), &wishes); err != nil {
		return nil, fmt.Errorf("timing model: got %q: %w", answer, err)
	}
	asked := NewAsked(ranks, t.predict)
	asked.anew, asked.leastDecode = !wishes.Pure, 0
	return asked, nil
}

// predict answers questions, all of which are about parts of passes.
func (t *Remote) predict(questions []Question) ([]Answer, error) {
	t.room = fmt.Appendf(t.room[:0], `{"timing":%q,"why":"parts","parts":[`, t.Stage)
	for _, q := range questions {
		if q.Kind == Decode {
			t.room = fmt.Appendf(t.room, "[1,%d,1,%d],", q.Batch, q.Tokens)
		} else {
			t.room = fmt.Appendf(t.room, "[0,%d,%d,%d],", q.Batch, q.Tokens, q.Prefix)
		}
	}
	t.room = append(t.room[:len(t.room)-1], "]}"...)
	answer, err := t.Ask(string(t.room))
	if err != nil {
		return nil, err
	}
	if answer == failed {
		return nil, ErrRemote
	}
	var ms []float64
	if err := json.Unmarshal([]byte(answer), &ms); err != nil {
		return nil, fmt.Errorf("got %q: %w", answer, err)
	}
	answers := make([]Answer, len(ms))
	for i, v := range ms {
		if answers[i].Ms = v; v < 0 {
			answers[i].Err = fmt.Errorf("got %v ms, want 0 or more", v)
		}
	}
	return answers, nil
}
