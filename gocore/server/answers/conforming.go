package answers

import (
	"context"
	"slices"

	"dynosim/gocore/server/tokens"
)

// recorded returns the recorded answer to a question: to the last result of calls if there is one, else to what the
// client has said, to which calls are no answer any more then.
func (s *Source) recorded(q *Question) (answer recordedAnswer, found bool) {
	if s.Mode != Recorded {
		return answer, false
	}
	if q.AfterResult {
		if known := s.Recorded.find(q.Result); known != nil {
			return known.take(false)
		}
	}
	if known := s.Recorded.find(q.Said); known != nil {
		return known.take(q.AfterResult)
	}
	return answer, false
}

// conforming returns an answer in the form of the question, after reasoning in no form if there is any. It ends by
// itself; one that would have to be longer than it may be is cut off. called is the form if it is that of calls, else
// nil.
func (s *Source) conforming(ctx context.Context, q *Question, called *calls) (Answer, error) {
	n, seed := s.length(q), s.draw(q)
	a := Answer{Finish: "stop"}
	if q.Reasoning {
		a.Thought = s.thought(n)
	}
	spoken, whole, err := s.shape(ctx, q, seed, n-a.Thought)
	if err != nil {
		return Answer{}, err
	}
	if called != nil {
		if a.Calls, err = called.places(spoken.Text); err != nil {
			return Answer{}, err
		}
		if !q.Tools.Named {
			a.Finish = "tool_calls"
		}
	}
	if a.Thought > 0 {
		thoughts := s.Tokenizer.Draw(a.Thought, seed)
		spoken = join(thoughts, spoken)
		for i := range a.Calls {
			a.Calls[i].Begin += len(thoughts.Text)
			a.Calls[i].End += len(thoughts.Text)
		}
	}
	if !whole || len(spoken.Tokens) > q.Most {
		a.Finish = "length"
	}
	a.Spoken = spoken.Cut(q.Most)
	a.Visible = len(a.Text)
	a.stop(q)
	return a, nil
}

// shapeTries is how often the length of a text is corrected until it has the wanted number of tokens.
const shapeTries = 6

// shape makes up a text in the form of the question, of n tokens as far as the form allows that. whole is false for the
// beginning of a text that has more tokens than the question allows.
func (s *Source) shape(ctx context.Context, q *Question, seed uint64, n int) (best tokens.Spoken, whole bool,
	err error) {
	size := n // in bytes
	for try := range shapeTries {
		text, complete, err := q.Form.Text(seed, size)
		if err != nil {
			return best, false, &tokens.InputError{Reason: err.Error()}
		}
		spoken, err := s.Tokenizer.Answer(ctx, text)
		if err != nil {
			return best, false, err
		}
		got := len(spoken.Tokens)
		if !complete && got <= q.Most {
			return best, false, &tokens.InputError{Reason: "the answer has to be in a form whose texts are too long"}
		}
		if try == 0 || closer(got, len(best.Tokens), n) {
			best, whole = spoken, complete
		}
		next := size + int(float64(n-got)*float64(len(text))/float64(max(got, 1)))
		if got == n || next == size || len(text) > size && next < size {
			break
		}
		size = max(next, 1)
	}
	return best, whole, nil
}

// closer reports whether a number of tokens is a better one than another: at most n if possible, and as many as
// possible then.
func closer(got, other, n int) bool {
	if got > n || other > n {
		return got < other
	}
	return got > other
}

// join returns one text after another.
func join(a, b tokens.Spoken) tokens.Spoken {
	joined := tokens.Spoken{Tokens: slices.Concat(a.Tokens, b.Tokens), Text: a.Text + b.Text,
		Ends: slices.Concat(a.Ends, b.Ends)}
	for i := len(a.Ends); i < len(joined.Ends); i++ {
		joined.Ends[i] += int32(len(a.Text))
	}
	return joined
}
