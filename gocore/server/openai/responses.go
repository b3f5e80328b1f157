package openai

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// responsesRequest is the body of /v1/responses, as far as text goes.
type responsesRequest struct {
	sampling     `json:",inline"`
	Input        inputs           `json:"input"`
	Instructions string           `json:"instructions"`
	MaxTokens    *int             `json:"max_output_tokens"`
	Tools        []jsontext.Value `json:"tools"`
	ToolChoice   jsontext.Value   `json:"tool_choice"`
	Parallel     *bool            `json:"parallel_tool_calls"`
	Previous     string           `json:"previous_response_id"`
	Background   bool             `json:"background"`
	Include      []string         `json:"include"`
	Conversation jsontext.Value   `json:"conversation"`
	Template     jsontext.Value   `json:"prompt"`
	TopLogprobs  *int             `json:"top_logprobs"`
	Text         *struct {
		Format *responsesFormat `json:"format"`
	} `json:"text"`
}

// inputs is a text, or a list of messages.
type inputs []message

// UnmarshalJSON implements [json.Unmarshaler].
func (i *inputs) UnmarshalJSON(text []byte) error {
	if jsontext.Value(text).Kind() == '"' {
		*i = inputs{{Role: "user"}}
		return json.Unmarshal(text, (*string)(&(*i)[0].Content))
	}
	var items []inputItem
	if err := json.Unmarshal(text, &items); err != nil {
		return badRequest("", "got %s, want a text or a list of messages", shortened(text))
	}
	for n := range items {
		m, err := items[n].said(n)
		if err != nil {
			return err
		}
		if m != nil {
			*i = append(*i, *m)
		}
	}
	return nil
}

// inputItem is a message, a call, or the result of a call.
type inputItem struct {
	Type      string `json:"type"`
	message   `json:",inline"`
	CallID    string  `json:"call_id"`
	Arguments string  `json:"arguments"`
	Output    content `json:"output"`
}

// said returns the item as a message of a chat, nil for reasoning, which models are not shown again.
func (i *inputItem) said(place int) (*message, error) {
	switch i.Type {
	case "", "message":
		return &i.message, nil
	case "reasoning":
		return nil, nil
	case "function_call":
		call, err := json.Marshal(map[string]any{
			"id": i.CallID, "type": "function", "function": map[string]string{"name": i.Name, "arguments": i.Arguments},
		}, json.Deterministic(true))
		return &message{Role: "assistant", ToolCalls: []jsontext.Value{call}}, err
	case "function_call_output":
		return &message{Role: "tool", ToolCallID: i.CallID, Content: i.Output}, nil
	default:
		return nil, badRequest("", "item %d has the type %q, want message, function_call or function_call_output: "+
			"this server reads nothing else", place, i.Type)
	}
}

// chat returns the same as a request for a chat.
func (r *responsesRequest) chat() (*chatRequest, error) {
	switch {
	case r.Previous != "":
		return nil, badRequest("previous_response_id",
			"this server keeps no responses; send the whole conversation as input")
	case given(r.Conversation):
		return nil, badRequest("conversation", "this server keeps none; send all of it as input")
	case given(r.Template):
		return nil, badRequest("prompt", "this server keeps no templates of prompts; send the text as input")
	case r.Background:
		return nil, badRequest("background", "this server keeps no responses; leave it out")
	case slices.Contains(r.Include, "message.output_text.logprobs") || r.TopLogprobs != nil && *r.TopLogprobs > 0:
		return nil, badRequest("top_logprobs", "not supported by /v1/responses; /v1/chat/completions has logprobs")
	case len(r.Input) == 0:
		return nil, badRequest("input", "missing, want a text or a list of messages")
	}
	if err := checkMost("max_output_tokens", r.MaxTokens); err != nil {
		return nil, err
	}
	c := &chatRequest{sampling: r.sampling, Tools: r.Tools, ToolChoice: r.ToolChoice, Parallel: r.Parallel,
		MaxTokens: r.MaxTokens}
	if r.Text != nil && r.Text.Format != nil {
		c.form.formatAt = "text.format"
		c.form.ResponseFormat = r.Text.Format.same()
	}
	if r.Instructions != "" {
		c.Messages = append(c.Messages, message{Role: "system", Content: content(r.Instructions)})
	}
	c.Messages = append(c.Messages, r.Input...)
	return c, nil
}

// responses answers /v1/responses.
func (s *Server) responses(w http.ResponseWriter, r *http.Request) error {
	var body responsesRequest
	t, r, err := s.read(w, r, &body, &body.sampling)
	if err != nil {
		return err
	}
	chat, err := checked(body.chat())
	if err != nil {
		return err
	}
	chat.N = nil
	g, err := s.newReply(r.Context(), t, chat, false)
	if err != nil {
		return err
	}
	g.id = newID("resp_", "")
	g.shape = &responseShape{item: newID("msg_", ""), tools: body.tooling()}
	return g.answer(r.Context(), w)
}

// tooling returns what the response repeats about tools.
func (r *responsesRequest) tooling() string {
	choice, list, parallel := []byte(`"auto"`), []byte("[]"), r.Parallel == nil || *r.Parallel
	if given(r.ToolChoice) {
		choice = r.ToolChoice
	}
	if len(r.Tools) > 0 {
		list, _ = json.Marshal(r.Tools)
	}
	return fmt.Sprintf(`"parallel_tool_calls":%t,"temperature":null,"top_p":null,"tool_choice":%s,"tools":%s`, parallel,
		choice, list)
}

// responseShape is the form of /v1/responses: each part of a stream is an event with a type and a number.
type responseShape struct {
	item  string   // the id of the message
	sent  int      // events
	tools string   // members about them
	items []string // of calls: their ids
}

func (*responseShape) endpoint() string { return "responses" }

// event appends an event whose members besides type and number are given as JSON.
func (s *responseShape) event(b []byte, kind, members string) []byte {
	b = append(append(append(b, "event: "...), kind...), "\ndata: {\"type\":\""...)
	b = append(append(b, kind...), `","sequence_number":`...)
	b = strconv.AppendInt(b, int64(s.sent), 10)
	s.sent++
	return append(append(append(b, ','), members...), "}\n\n"...)
}

// place returns the members that say where in the response a text is.
func (s *responseShape) place() string {
	return fmt.Sprintf(`"item_id":%s,"output_index":0,"content_index":0`, quote(s.item))
}

func (s *responseShape) appendPart(b []byte, g *generation, c *choice, to int) []byte {
	if !c.begun {
		c.begun = true
		begun := `"response":` + string(s.response(g, "in_progress"))
		b = s.event(b, "response.created", begun)
		b = s.event(b, "response.in_progress", begun)
		if len(c.answer.Calls) == 0 {
			b = s.event(b, "response.output_item.added", `"output_index":0,"item":`+string(s.message("in_progress")))
			b = s.event(b, "response.content_part.added", s.place()+`,"part":`+s.part(""))
		}
	}
	if len(c.answer.Calls) > 0 {
		return s.appendCalls(b, g, c, to)
	}
	if text := c.text(to); text != "" {
		b = s.event(b, "response.output_text.delta", s.place()+`,"delta":`+string(quote(text))+`,"logprobs":[]`)
	}
	if c.answer.Complete(to) {
		b = s.event(b, "response.output_text.done", s.place()+`,"text":`+string(quote(c.shown()))+`,"logprobs":[]`)
		b = s.event(b, "response.content_part.done", s.place()+`,"part":`+s.part(c.shown()))
		b = s.event(b, "response.output_item.done",
			`"output_index":0,"item":`+string(s.message(s.ended(g), s.part(c.shown()))))
	}
	return b
}

// appendCalls appends the events of calls that a choice has more.
func (s *responseShape) appendCalls(b []byte, g *generation, c *choice, to int) []byte {
	from := c.seen
	c.text(to)
	open := -1
	if n := len(s.items); n > 0 {
		open = n - 1
	}
	done := func() {
		if open >= 0 {
			b = s.event(b, "response.function_call_arguments.done",
				s.callPlace(open)+fmt.Sprintf(`,"name":%s,"arguments":%s`, quote(c.answer.Calls[open].Name),
					quote(c.arguments(open))))
			b = s.event(b, "response.output_item.done",
				fmt.Sprintf(`"output_index":%d,"item":%s`, open, s.call(c, open, "completed")))
		}
	}
	c.eachCall(from, c.seen, func(i int, _ string) {
		done()
		open, s.items = i, append(s.items, newID("fc_", ""))
		b = s.event(b, "response.output_item.added",
			fmt.Sprintf(`"output_index":%d,"item":%s`, i, s.call(c, i, "in_progress")))
	}, func(i int, arguments string) {
		b = s.event(b, "response.function_call_arguments.delta", s.callPlace(i)+`,"delta":`+string(quote(arguments)))
	})
	if c.answer.Complete(to) {
		done()
	}
	return b
}

// callPlace returns the members that say where in the response a call is.
func (s *responseShape) callPlace(i int) string {
	return fmt.Sprintf(`"item_id":%s,"output_index":%d`, quote(s.items[i]), i)
}

// call returns a call as an item of the response.
func (s *responseShape) call(c *choice, i int, status string) string {
	arguments := ""
	if status != "in_progress" {
		arguments = c.arguments(i)
	}
	return fmt.Sprintf(`{"id":%s,"type":"function_call","status":%q,"call_id":%s,"name":%s,"arguments":%s}`,
		quote(s.items[i]), status, quote(c.calls[i].id), quote(c.answer.Calls[i].Name), quote(arguments))
}

// output returns all items of a response that is over.
func (s *responseShape) output(c *choice, status string) string {
	if len(c.answer.Calls) == 0 {
		return string(s.message(status, s.part(c.shown())))
	}
	c.eachCall(c.seen, c.seen, func(int, string) { s.items = append(s.items, newID("fc_", "")) }, func(int, string) {})
	var list []string
	for i := range s.items {
		list = append(list, s.call(c, i, status))
	}
	return strings.Join(list, ",")
}

func (s *responseShape) part(text string) string {
	return `{"type":"output_text","text":` + string(quote(text)) + `,"annotations":[],"logprobs":[]}`
}

func (s *responseShape) message(status string, parts ...string) []byte {
	return fmt.Appendf(nil, `{"id":%s,"type":"message","status":%q,"role":"assistant","content":[%s]}`, quote(s.item),
		status, strings.Join(parts, ","))
}

// ended returns the status of a response that is over.
func (s *responseShape) ended(g *generation) string {
	if g.choices[0].answer.Finish == "length" {
		return "incomplete"
	}
	return "completed"
}

func (s *responseShape) appendEnd(b []byte, g *generation) []byte {
	status := s.ended(g)
	return s.event(b, "response."+status, `"response":`+string(s.response(g, status)))
}

func (s *responseShape) appendFailure(b []byte, p *problem) []byte {
	return s.event(b, "error", fmt.Sprintf(`"code":%s,"message":%s,"param":null`, quote(p.code), quote(p.message)))
}

func (s *responseShape) whole(g *generation) []byte {
	c := g.choices[0]
	c.text(len(c.answer.Tokens)) // all of it is shown
	return s.response(g, s.ended(g))
}

// response returns the response as a whole.
func (s *responseShape) response(g *generation, status string) []byte {
	output, counts, incomplete := "[]", "null", "null"
	if status != "in_progress" {
		u := g.usageOf()
		output = "[" + s.output(g.choices[0], status) + "]"
		counts = fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,`+
			`"output_tokens_details":{"reasoning_tokens":0},"total_tokens":%d}`,
			u.PromptTokens, u.PromptTokensDetails.CachedTokens, u.CompletionTokens, u.TotalTokens)
	}
	if status == "incomplete" {
		incomplete = `{"reason":"max_output_tokens"}`
	}
	return fmt.Appendf(nil, `{"id":%s,"object":"response","created_at":%d,"status":%q,"model":%s,"output":%s,`+
		`"usage":%s,"error":null,"incomplete_details":%s,"instructions":null,"metadata":{},%s}`,
		quote(g.id), g.created, status, quote(g.modelName()), output, counts, incomplete, s.tools)
}
