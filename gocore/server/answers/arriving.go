package answers

import (
	"slices"
	"strings"

	"dynosim/gocore/server/tokens"
)

// Marks are the tokens around the reasoning with which answers of a model may begin.
type Marks struct{ Begin, End uint32 }

// Arriving is an answer that a backend makes, whose tokens arrive one after the other. Its Answer is what is known of
// it: Text and Tokens grow, Visible leaves out the end of the text while that may be the beginning of a stop sequence,
// and Finish is "" until the answer is complete. It then is what [Source.Decide] makes of the same tokens.
type Arriving struct {
	Answer
	question *Question
	decoders func() tokens.Decoder
	decoder  tokens.Decoder
	marks    *Marks
	text     strings.Builder
	stops    []stopSearch
}

// Arrive returns an answer without tokens. decoders makes a decoder for its text, and another one for the text after
// its reasoning. marks is nil for a model that does not reason.
func Arrive(q *Question, decoders func() tokens.Decoder, marks *Marks) *Arriving {
	a := &Arriving{question: q, decoders: decoders, decoder: decoders()}
	if q.Reasoning {
		a.marks = marks
	}
	for _, sequence := range q.Stop {
		if sequence != "" {
			a.stops = append(a.stops, newStopSearch(sequence))
		}
	}
	return a
}

// Add takes the next tokens. finish is why the backend has ended the answer with them, "" if it has not. Tokens after
// the end of the answer, or beyond the number that it may have, are dropped.
func (a *Arriving) Add(ids []uint32, finish string) {
	for i := range ids {
		if a.Finish != "" {
			return
		}
		a.add(ids[i : i+1])
		if a.Finish == "" && len(a.Tokens) >= a.question.Most {
			if finish == "" || i+1 < len(ids) {
				finish = "length"
			}
			a.end(finish, nil)
		}
	}
	if finish != "" && a.Finish == "" {
		a.end(finish, nil)
	}
}

// add takes one token.
func (a *Arriving) add(one []uint32) {
	token, q := one[0], a.question
	a.Tokens = append(a.Tokens, token)
	n := len(a.Tokens)
	if a.Thinking {
		a.Thought = n // whatever the token is: it may end the reasoning or the answer
	}
	switch {
	case n >= q.Fewest && slices.Contains(q.StopTokens, token):
		a.end("stop", token)
		return
	case n >= q.Fewest && !q.IgnoreEnd && slices.Contains(q.EndTokens, token):
		a.end("stop", nil)
		return
	case n == 1 && a.marks != nil && token == a.marks.Begin:
		a.Thinking, a.Thought = true, 1
	case a.Thinking && token == a.marks.End:
		a.say(a.decoder.Close())
		if n > 1 {
			a.Ends[n-2] = int32(len(a.Text)) // the mark adds nothing
		}
		a.decoder = a.decoders()
		a.Thinking = false
	default:
		a.say(a.decoder.Push(one))
	}
	a.Ends = append(a.Ends, int32(len(a.Text)))
}

// say adds text, and ends the answer if a stop sequence is complete with it that does not come too early.
func (a *Arriving) say(text string) {
	from := len(a.Text)
	a.text.WriteString(text)
	a.Text = a.text.String()
	a.Visible = len(a.Text)
	if a.Thinking {
		return
	}
	held := 0
	for i := range a.stops {
		s := &a.stops[i]
		end, found := s.next(text, len(a.Tokens) >= a.question.Fewest)
		if at := from + end - len(s.sequence); found && (a.Finish == "" || at < a.Visible) {
			a.Finish, a.StopReason, a.Visible = "stop", s.sequence, at
		}
		held = max(held, s.matched)
	}
	if a.Finish == "" {
		a.Visible -= held
	} else if sequence, is := a.StopReason.(string); is && a.question.IncludeStop {
		a.Visible += len(sequence)
	}
}

// end ends the answer: nothing is held back any more, unless the last of its text is a stop sequence. A token that is
// the reason is no text.
func (a *Arriving) end(finish string, reason any) {
	a.say(a.decoder.Close())
	if a.Finish == "" {
		a.Finish, a.StopReason, a.Visible = finish, reason, len(a.Text)
	}
	if missing := len(a.Tokens) - len(a.Ends); missing > 0 {
		a.Ends = append(a.Ends, int32(len(a.Text)))
	} else if len(a.Ends) > 0 {
		a.Ends[len(a.Ends)-1] = int32(len(a.Text))
	}
}

// stopSearch looks for a stop sequence in text that comes in pieces, by the algorithm of Knuth, Morris and Pratt: no
// byte is looked at twice, whatever clients ask for.
type stopSearch struct {
	sequence string
	shorter  []int32 // how much of the sequence is still matched when the byte after that part of it is another one
	matched  int     // how much of the sequence the text ends with
}

func newStopSearch(sequence string) stopSearch {
	shorter := make([]int32, len(sequence)+1)
	k := int32(0)
	for i := 1; i < len(sequence); i++ {
		for k > 0 && sequence[i] != sequence[k] {
			k = shorter[k]
		}
		if sequence[i] == sequence[k] {
			k++
		}
		shorter[i+1] = k
	}
	return stopSearch{sequence: sequence, shorter: shorter}
}

// next takes the next piece. If the sequence is complete in it, and counts, end is where it ends in the piece for the
// first time.
func (s *stopSearch) next(text string, counts bool) (end int, found bool) {
	for i := range len(text) {
		for s.matched > 0 && text[i] != s.sequence[s.matched] {
			s.matched = int(s.shorter[s.matched])
		}
		if text[i] == s.sequence[s.matched] {
			s.matched++
		}
		if s.matched == len(s.sequence) {
			if counts {
				return i + 1, true
			}
			s.matched = int(s.shorter[s.matched])
		}
	}
	return 0, false
}
