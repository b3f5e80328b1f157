package openai

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"dynosim/gocore/strictjson"
)

// shape is the form of the answers of an endpoint.
type shape interface {
	// endpoint is how metrics call the endpoint.
	endpoint() string
	// appendPart appends what a client gets for tokens of a choice, as whole events.
	appendPart(b []byte, g *generation, c *choice, to int) []byte
	// appendEnd appends the end of a stream.
	appendEnd(b []byte, g *generation) []byte
	// appendFailure appends the end of a stream that fails after it has begun.
	appendFailure(b []byte, p *problem) []byte
	// logprobs is JSON for how likely tokens of a choice were.
	logprobs(g *generation, c *choice, from, to int) []byte
	// whole is the answer to a request without a stream.
	whole(g *generation) []byte
}

// frame is what all parts of a stream have in common: the beginning and the end of each.
type frame struct {
	head string // up to the choices
	tail string // after them
}

func newFrame(object string, g *generation) frame {
	b := append([]byte(`data: {"id":`), quote(g.id)...)
	b = append(b, `,"object":"`+object+`","created":`...)
	b = strconv.AppendInt(b, g.created, 10)
	b = append(append(b, `,"model":`...), quote(g.modelName())...)
	f := frame{head: string(b) + `,"choices":[`, tail: "]}\n\n"}
	if g.usage {
		f.tail = `],"usage":null}` + "\n\n"
	}
	return f
}

// close ends a part.
func (f *frame) close(b []byte, g *generation) []byte {
	if g.promptIDs != nil {
		tail := f.tail
		if g.running {
			tail = string(appendUsage([]byte("]"), g))
		}
		b = strictjson.AppendInts(append(b, `],"prompt_token_ids":`...), g.promptIDs)
		g.promptIDs = nil
		return append(b, tail[1:]...)
	}
	if !g.running {
		return append(b, f.tail...)
	}
	return appendUsage(append(b, ']'), g)
}

// appendDone appends the numbers of tokens, if they are wanted, and the mark at the end of a stream.
func (f *frame) appendDone(b []byte, g *generation) []byte {
	if g.usage {
		b = appendUsage(append(append(b, f.head...), ']'), g)
	}
	return append(b, "data: [DONE]\n\n"...)
}

// appendFailure implements [shape].
func (*frame) appendFailure(b []byte, p *problem) []byte {
	return append(append(append(b, "data: "...), p.body()...), "\n\ndata: [DONE]\n\n"...)
}

func appendUsage(b []byte, g *generation) []byte {
	text, _ := json.Marshal(g.usageOf())
	return append(append(append(b, `,"usage":`...), text...), "}\n\n"...)
}

func quote(text string) []byte {
	b, _ := jsontext.AppendQuote(nil, text)
	return b
}

func appendQuoted(b []byte, text string) []byte {
	b, _ = jsontext.AppendQuote(b, text)
	return b
}

// modelName returns how answers call the model: by the name that the client has used.
func (g *generation) modelName() string {
	if g.target.adapter.name != "" {
		return g.target.adapter.name
	}
	return g.target.model.Name
}

// chatShape is the form of /v1/chat/completions.
type chatShape struct{ frame }

func (*chatShape) endpoint() string { return "chat_completions" }

func newChatShape(g *generation) *chatShape { return &chatShape{newFrame("chat.completion.chunk", g)} }

func (s *chatShape) appendPart(b []byte, g *generation, c *choice, to int) []byte {
	if !c.begun {
		c.begun = true
		member := `"role":"assistant","content":""`
		if len(c.answer.Calls) > 0 {
			member = `"role":"assistant","content":null`
		}
		b = s.appendDelta(b, g, c, member, "", 0)
	}
	from := c.seen
	reasoning, text := c.spans(to)
	if reasoning != "" && !g.discreet {
		b = s.appendDelta(b, g, c, `"reasoning_content":`, reasoning, to)
	}
	switch {
	case len(c.answer.Calls) > 0:
		b = s.appendCalls(b, g, c, from, to)
	case text != "":
		b = s.appendDelta(b, g, c, `"content":`, text, to)
	}
	if c.answer.Complete(to) {
		b = append(b, s.head...)
		b = append(strconv.AppendInt(append(b, `{"index":`...), int64(c.index), 10), `,"delta":{},`...)
		b = c.appendDetails(b, g, to)
		b = s.close(c.appendFinish(b), g)
	}
	return b
}

// appendDelta appends an event. text is the value of the member, unless it is "". It has details of tokens up to number
// to.
func (s *chatShape) appendDelta(b []byte, g *generation, c *choice, member, text string, to int) []byte {
	b = append(b, s.head...)
	b = append(strconv.AppendInt(append(b, `{"index":`...), int64(c.index), 10), `,"delta":{`...)
	b = append(b, member...)
	if text != "" {
		b = appendQuoted(b, text)
	}
	b = c.appendDetails(append(b, "},"...), g, to)
	return s.close(append(b, `"finish_reason":null}`...), g)
}

// appendFinish appends why an answer has ended, and closes the choice.
func (c *choice) appendFinish(b []byte) []byte {
	b = append(append(append(b, `"finish_reason":"`...), c.answer.Finish...), `","stop_reason":`...)
	return append(append(b, c.stopReason()...), '}')
}

// stopReason returns JSON for the stop sequence or token that has ended the answer.
func (c *choice) stopReason() []byte {
	text, _ := json.Marshal(c.answer.StopReason)
	return text
}

func (s *chatShape) appendEnd(b []byte, g *generation) []byte { return s.appendDone(b, g) }

func (s *chatShape) whole(g *generation) []byte {
	type reply struct {
		Role      string     `json:"role"`
		Content   *string    `json:"content"`
		Refusal   *string    `json:"refusal"`
		Reasoning string     `json:"reasoning_content,omitempty"`
		Calls     []toolCall `json:"tool_calls,omitempty"`
	}
	type item struct {
		Index      int            `json:"index"`
		Message    reply          `json:"message"`
		Logprobs   jsontext.Value `json:"logprobs"`
		Finish     string         `json:"finish_reason"`
		StopReason jsontext.Value `json:"stop_reason"`
		TokenIDs   []uint32       `json:"token_ids,omitempty"`
	}
	var items []item
	for _, c := range g.choices {
		reasoning, text := c.spans(len(c.answer.Tokens))
		if g.discreet {
			reasoning = ""
		}
		said := reply{Role: "assistant", Content: &text, Reasoning: reasoning}
		if len(c.answer.Calls) > 0 {
			said.Content, said.Calls = nil, c.toolCalls()
		}
		items = append(items, item{
			Index: c.index, Message: said, Logprobs: c.allLogprobs(g), Finish: c.answer.Finish,
			StopReason: c.stopReason(), TokenIDs: c.ids(g),
		})
	}
	return g.envelope("chat.completion", items)
}

// envelope returns the answer around the choices.
func (g *generation) envelope(object string, choices any) []byte {
	text, _ := json.Marshal(struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		Model   string `json:"model"`
		Choices any    `json:"choices"`
		Usage   usage  `json:"usage"`

		PromptIDs []uint32    `json:"prompt_token_ids,omitempty"`
		Transfer  *kvTransfer `json:"kv_transfer_params,omitempty"`
	}{g.id, object, g.created, g.modelName(), choices, g.usageOf(), g.promptIDs, g.transfer})
	return text
}

// completionShape is the form of /v1/completions.
type completionShape struct{ frame }

func (*completionShape) endpoint() string { return "completions" }

func newCompletionShape(g *generation) *completionShape {
	return &completionShape{newFrame("text_completion", g)}
}

func (s *completionShape) appendPart(b []byte, g *generation, c *choice, to int) []byte {
	first := !c.begun
	text := c.text(to)
	finished := c.answer.Complete(to)
	if text == "" && !finished && c.begun {
		return b
	}
	c.begun = true
	b = append(b, s.head...)
	b = append(strconv.AppendInt(append(b, `{"index":`...), int64(c.index), 10), `,"text":`...)
	b = c.appendDetails(append(appendQuoted(b, text), ','), g, to)
	if first && g.details.ids {
		b = append(strictjson.AppendInts(append(b, `"prompt_token_ids":`...), g.prompts(c)), ',')
	}
	if finished {
		b = c.appendFinish(b)
	} else {
		b = append(b, `"finish_reason":null,"stop_reason":null}`...)
	}
	return s.close(b, g)
}

func (s *completionShape) appendEnd(b []byte, g *generation) []byte { return s.appendDone(b, g) }

// text returns the text that a choice has with its first to tokens, beyond what the client has seen, with the text in
// front of it.
func (c *choice) text(to int) string {
	end := min(c.answer.End(to), c.answer.Visible)
	text := c.answer.Text[c.seen:max(end, c.seen)]
	c.seen = max(end, c.seen)
	if !c.begun {
		text = c.lead + text
	}
	return text
}

// shown returns the text that the client has seen, without the text in front of it.
func (c *choice) shown() string { return c.answer.Text[:c.seen] }

func (s *completionShape) whole(g *generation) []byte {
	type item struct {
		Index      int            `json:"index"`
		Text       string         `json:"text"`
		Logprobs   jsontext.Value `json:"logprobs"`
		Finish     string         `json:"finish_reason"`
		StopReason jsontext.Value `json:"stop_reason"`
		TokenIDs   []uint32       `json:"token_ids,omitempty"`
		PromptIDs  []uint32       `json:"prompt_token_ids,omitempty"`
	}
	var items []item
	for _, c := range g.choices {
		items = append(items, item{
			Index: c.index, Text: c.text(len(c.answer.Tokens)), Logprobs: c.allLogprobs(g), Finish: c.answer.Finish,
			StopReason: c.stopReason(),
			TokenIDs:   c.ids(g), PromptIDs: g.prompts(c),
		})
	}
	return g.envelope("text_completion", items)
}
