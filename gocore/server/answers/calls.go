package answers

import (
	"context"
	"math/rand/v2"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"dynosim/gocore/server/conform"
	"dynosim/gocore/server/tokens"
)

// Tools are the functions that an answer may call.
type Tools struct {
	Functions []Function
	// Must says that the answer has to be a call, Named that it has to be one of the only function.
	Must, Named bool
	// Parallel allows several calls in an answer.
	Parallel bool
}

// Function is a function that may be called.
type Function struct {
	Name      string
	Arguments conform.Form
}

// Call is a call in an answer. Its arguments are Text[Begin:End].
type Call struct {
	Name       string
	Begin, End int
}

// wording is what models write around the arguments of calls, which is a part of the tokens of an answer.
type wording struct{ open, between, close, name, arguments, after string }

// vLLM makes models write a list if they must call something, and the arguments alone of a function that is named.
// Otherwise it is up to the model: this is what Hermes and Qwen write.
var (
	listWording = wording{open: "[", between: ", ", close: "]", name: `{"name": `, arguments: `, "parameters": `,
		after: "}"}
	aloneWording = wording{}
	tagWording   = wording{between: "\n", name: "<tool_call>\n{\"name\": ", arguments: `, "arguments": `,
		after: "}\n</tool_call>"}
)

// maxWording is at least the number of bytes that a model writes around a call.
const maxWording = 128

// ask is one call before it has arguments, or with those of a recording.
type ask struct {
	name      string
	arguments conform.Form
	recorded  string // "" for none
}

// calls is the form of a text that consists of calls.
type calls struct {
	wording
	asks []ask
	made map[string][]string // the arguments in texts
}

// Text implements [conform.Form].
func (c *calls) Text(seed uint64, size int) (text string, whole bool, err error) {
	var b strings.Builder
	var made []string
	whole = true
	left := size - len(c.open) - len(c.close) - (len(c.asks)-1)*len(c.between)
	for _, a := range c.asks {
		left -= len(c.before(a)) + len(c.after)
	}
	b.WriteString(c.open)
	for i, a := range c.asks {
		arguments := a.recorded
		if arguments == "" {
			var complete bool
			arguments, complete, err = a.arguments.Text(seed+uint64(i)<<32, max(left/(len(c.asks)-i), 1))
			if err != nil {
				return "", false, err
			}
			whole = whole && complete
		}
		left -= len(arguments)
		if i > 0 {
			b.WriteString(c.between)
		}
		b.WriteString(c.before(a))
		b.WriteString(arguments)
		b.WriteString(c.after)
		made = append(made, arguments)
	}
	b.WriteString(c.close)
	c.made[b.String()] = made
	return b.String(), whole, nil
}

// before returns what is in front of the arguments of a call.
func (w *wording) before(a ask) string {
	if w.name == "" {
		return ""
	}
	quoted, _ := jsontext.AppendQuote(nil, a.name)
	return w.name + string(quoted) + w.arguments
}

// places finds the calls in a text that was made.
func (c *calls) places(text string) ([]Call, error) {
	made, known := c.made[text]
	var list []Call
	at := 0
	for i, arguments := range made {
		at += strings.Index(text[at:], c.before(c.asks[i])+arguments) + len(c.before(c.asks[i]))
		list = append(list, Call{Name: c.asks[i].name, Begin: at, End: at + len(arguments)})
		at += len(arguments)
	}
	if !known {
		return nil, &tokens.InputError{Reason: "tools: the tokenizer of this model does not keep texts as they are"}
	}
	return list, nil
}

// call returns an answer that consists of calls, if that is what the question leads to.
func (s *Source) call(ctx context.Context, q *Question) (a Answer, called bool, err error) {
	if q.Tools == nil {
		return a, false, nil
	}
	form := s.asked(q)
	if form == nil {
		return a, false, nil
	}
	own := *q
	own.Form = form
	a, err = s.conforming(ctx, &own, form)
	return a, true, err
}

// asked decides whether an answer consists of calls, and of which; nil for an answer that does not.
func (s *Source) asked(q *Question) *calls {
	t := q.Tools
	form := &calls{made: map[string][]string{}, wording: tagWording}
	if q.recorded != nil && !t.Named {
		for _, call := range q.recorded.Calls {
			form.asks = append(form.asks, ask{name: call.Name, recorded: call.Arguments})
		}
		if len(form.asks) > 0 {
			return form
		}
		if !t.Must {
			return nil
		}
	}
	rng := rand.New(rand.NewPCG(s.draw(q), 1))
	if !t.Must && (q.AfterResult || rng.Float64() >= s.ToolCalls) {
		return nil
	}
	count := 1
	switch {
	case t.Named:
		form.wording = aloneWording
	case t.Must:
		form.wording = listWording
	}
	if t.Parallel && !t.Named && s.MostCalls > 1 {
		count += rng.IntN(s.MostCalls)
	}
	for range count {
		f := t.Functions[rng.IntN(len(t.Functions))]
		form.asks = append(form.asks, ask{name: f.Name, arguments: f.Arguments})
	}
	return form
}

// recordedCall is a call in a line of a recording. Its arguments are an object, or its text.
type recordedCall struct {
	Name      string
	Arguments string
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *recordedCall) UnmarshalJSON(text []byte) error {
	var shape struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if err := json.Unmarshal(text, &shape); err != nil {
		return err
	}
	c.Name, c.Arguments = shape.Name, string(shape.Arguments)
	if strings.HasPrefix(c.Arguments, `"`) {
		return json.Unmarshal(shape.Arguments, &c.Arguments)
	}
	return nil
}
