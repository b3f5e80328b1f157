// Package answers decides what a model says. An answer of simulated engines is known when its request arrives: what
// remains is when its tokens come. An [Arriving] one becomes known with its tokens.
package answers

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sort"
	"strings"

	"github.com/zeebo/xxh3"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/server/conform"
	"dynosim/gocore/server/tokens"
)

// Mode is where answers come from.
type Mode int

// The modes.
const (
	Random   Mode = iota // made up
	Echo                 // what the client has said
	Recorded             // from a file, made up where it has none
)

// Source decides the answers of one model.
type Source struct {
	Mode      Mode
	Tokenizer tokens.Tokenizer
	Seed      uint64
	Recorded  *Recording // for that mode
	// Standard is the number of tokens of an answer that is made up for a request that names none.
	Standard int
	// ToolCalls is the probability of an answer that calls tools, where it need not, and MostCalls how many calls there
	// are at most.
	ToolCalls float64
	MostCalls int
	// Thinking is the fraction of each answer of a chat that is reasoning, with its two marks.
	Thinking float64
}

// Question is what an answer follows from.
type Question struct {
	Said   string   // the last message of the client, or the prompt
	Prompt []uint32 // all of it
	Seed   uint64   // of the request
	Choice int      // which of several answers to the same question this is
	Most   int      // tokens at most; Limited says whether the client has asked for this number
	// Limited tells that the client has named the number of tokens.
	Limited bool
	Fewest  int // tokens that are generated even if a stop sequence comes earlier
	Stop    []string
	// IncludeStop shows the stop sequence that ends the answer.
	IncludeStop bool
	// StopTokens end an answer, unless they come too early; so does the end of a text unless IgnoreEnd.
	StopTokens []uint32
	IgnoreEnd  bool
	// EndTokens are those with which the model of a backend ends its texts.
	EndTokens []uint32
	Reasoning bool // whether the answer may begin with reasoning
	// Form is what an answer that is made up has to be like, nil for anything.
	Form conform.Form
	// Tools are what an answer may call, nil for none.
	Tools *Tools
	// AfterResult tells that the client has sent the results of calls, the last of which is Result.
	AfterResult bool
	Result      string

	recorded *recordedAnswer // once it is decided; nil for none
}

// Answer is what a model says to one request.
type Answer struct {
	tokens.Spoken
	// Visible is the length of the text that the client sees: a stop sequence is left out.
	Visible int
	Finish  string // "stop", "length" or another reason of a backend; "" while tokens may follow
	// StopReason is the stop sequence or the token that has ended the answer, nil for none.
	StopReason any
	// Thought is the number of leading tokens that are reasoning, with the two marks. Thinking tells that the second
	// mark is missing.
	Thought  int
	Thinking bool
	// Calls are those of which the answer consists after the reasoning, none for a text.
	Calls []Call
}

// Decide returns the answer to a question.
func (s *Source) Decide(ctx context.Context, q *Question) (Answer, error) {
	if recorded, found := s.recorded(q); found {
		q.recorded = &recorded
	}
	if a, called, err := s.call(ctx, q); called || err != nil {
		return a, err
	}
	if q.Form != nil && (q.recorded == nil || q.recorded.Text == "") {
		return s.conforming(ctx, q, nil)
	}
	spoken, whole, err := s.speak(ctx, q)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Spoken: spoken, Finish: "length"}
	if whole {
		a.Finish = "stop"
	}
	a.Visible = len(a.Text)
	if q.Reasoning {
		a.Thought = s.thought(len(a.Tokens))
	}
	a.stop(q)
	return a, nil
}

// AtMost returns the largest number of tokens that the answer to a question can have.
func (s *Source) AtMost(q *Question) int {
	if q.Limited {
		return q.Most
	}
	longest := max(s.Standard, q.Fewest)
	if q.Form != nil || q.Tools != nil {
		longest += max(s.MostCalls, 1) * 2 * conform.Slack
	}
	switch s.Mode {
	case Echo:
		longest = max(longest, len(q.Said))
	case Recorded:
		longest = max(longest, s.Recorded.longest)
	}
	return min(q.Most, longest)
}

// speak returns the text of an answer before stop conditions. whole tells that the model has said all that it wanted
// to.
func (s *Source) speak(ctx context.Context, q *Question) (spoken tokens.Spoken, whole bool, err error) {
	text, found := "", false
	switch s.Mode {
	case Echo:
		text, found = q.Said, true
	case Recorded:
		if q.recorded != nil {
			text, found = q.recorded.Text, q.recorded.Text != ""
		}
	}
	if found {
		if spoken, err = s.Tokenizer.Answer(ctx, text); err != nil {
			return spoken, false, err
		}
	}
	if len(spoken.Tokens) == 0 {
		return s.Tokenizer.Draw(s.length(q), s.draw(q)), !q.Limited && !q.IgnoreEnd, nil
	}
	if fewest := min(q.Fewest, q.Most); len(spoken.Tokens) < fewest {
		spoken = spoken.Repeat(fewest)
	}
	if q.IgnoreEnd && q.Limited {
		return spoken.Repeat(q.Most), false, nil
	}
	return spoken.Cut(q.Most), len(spoken.Tokens) <= q.Most, nil
}

// length returns the number of tokens of an answer that is made up.
func (s *Source) length(q *Question) int {
	if q.Limited {
		return q.Most
	}
	return min(q.Most, max(s.Standard, q.Fewest))
}

// draw returns the seed of an answer that is made up: equal questions get equal answers.
func (s *Source) draw(q *Question) uint64 {
	h := xxh3.New()
	var word [4]byte
	for _, token := range q.Prompt {
		binary.LittleEndian.PutUint32(word[:], token)
		_, _ = h.Write(word[:])
	}
	return rand.NewPCG(s.Seed^h.Sum64(), q.Seed+uint64(q.Choice)<<32).Uint64()
}

// thought returns the number of tokens of an answer that are reasoning.
func (s *Source) thought(length int) int {
	return engineargs.Reasoning{Ratio: s.Thinking}.Tokens(length)
}

// stop ends the answer at the first stop sequence or stop token that does not come too early.
func (a *Answer) stop(q *Question) {
	end, visible := len(a.Tokens), a.Visible
	for _, sequence := range q.Stop {
		if n, at := a.findStop(sequence, q.Fewest); n < end || n == end && at < visible && n > 0 {
			end, visible, a.Finish, a.StopReason = n, at, "stop", sequence
		}
	}
	for i := max(q.Fewest-1, 0); i < end && len(q.StopTokens) > 0; i++ {
		for _, token := range q.StopTokens {
			if a.Tokens[i] == token {
				before := 0
				if i > 0 {
					before = int(a.Ends[i-1])
				}
				end, visible, a.Finish, a.StopReason = i+1, before, "stop", token
				break
			}
		}
	}
	a.Spoken = a.Cut(end)
	if sequence, is := a.StopReason.(string); is && q.IncludeStop {
		visible += len(sequence)
	}
	a.Visible = min(visible, len(a.Text))
	if end < a.Thought {
		a.Thought, a.Thinking = end, true
	}
}

// findStop returns the number of tokens with which a stop sequence is complete, and where in the text it begins. It
// looks for it after the reasoning, and it is complete with the token number fewest at the earliest. Without one it
// returns more than all tokens.
func (a *Answer) findStop(sequence string, fewest int) (tokenCount, at int) {
	from := 0
	if a.Thought > 0 {
		from = int(a.Ends[a.Thought-1])
	}
	for sequence != "" {
		i := strings.Index(a.Text[from:], sequence)
		if i < 0 {
			break
		}
		at = from + i
		n := a.tokensFor(at + len(sequence))
		if n >= fewest {
			return n, at
		}
		from = at + 1
	}
	return len(a.Tokens) + 1, len(a.Text)
}

// tokensFor returns the number of tokens with which that part of the text is known.
func (a *Answer) tokensFor(length int) int {
	return 1 + sort.Search(len(a.Ends), func(i int) bool { return int(a.Ends[i]) >= length })
}

// Reasoning says where in the text the reasoning is, without its two marks; speech is where the text after it begins.
func (a *Answer) Reasoning() (begins, ends, speech int) {
	if a.Thought == 0 {
		return 0, 0, 0
	}
	speech = a.End(a.Thought)
	if a.Thinking {
		return a.End(1), speech, speech
	}
	return a.End(1), a.End(a.Thought - 1), speech
}

// End returns the length of the text that is known with a number of tokens.
func (a *Answer) End(count int) int {
	if count == 0 {
		return 0
	}
	return int(a.Ends[count-1])
}

// Complete reports whether nothing follows after a number of tokens.
func (a *Answer) Complete(count int) bool { return a.Finish != "" && count == len(a.Tokens) }
