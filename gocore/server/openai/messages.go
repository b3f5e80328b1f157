package openai

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// messagesRequest is the body of /v1/messages, Anthropic's API, as far as text and tools go.
type messagesRequest struct {
	Model       string           `json:"model"`
	MaxTokens   *int             `json:"max_tokens"`
	System      blocks           `json:"system"`
	Messages    []blockMessage   `json:"messages"`
	Stop        []string         `json:"stop_sequences"`
	Stream      bool             `json:"stream"`
	Temperature *float64         `json:"temperature"`
	TopP        *float64         `json:"top_p"`
	Tools       []jsontext.Value `json:"tools"`
	ToolChoice  *struct {
		Type      string `json:"type"`
		Name      string `json:"name"`
		OneAtOnce bool   `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	Thinking *struct {
		Type string `json:"type"`
	} `json:"thinking"`
}

type blockMessage struct {
	Role    string `json:"role"`
	Content blocks `json:"content"`
}

// block is a part of the content of a message.
type block struct {
	Type  string         `json:"type"`
	Text  string         `json:"text"`
	ID    string         `json:"id"`
	Name  string         `json:"name"`
	Input jsontext.Value `json:"input"`
	Call  string         `json:"tool_use_id"`
	// Source is that of an image.
	Source struct {
		Type  string `json:"type"`
		Media string `json:"media_type"`
		Data  string `json:"data"`
		URL   string `json:"url"`
	} `json:"source"`
	// Content is that of the result of a call.
	Content blocks `json:"content"`
}

// blocks are a text, or a list of parts.
type blocks []block

// UnmarshalJSON implements [json.Unmarshaler].
func (b *blocks) UnmarshalJSON(text []byte) error {
	switch jsontext.Value(text).Kind() {
	case 'n':
		return nil
	case '"':
		*b = blocks{{Type: "text"}}
		return json.Unmarshal(text, &(*b)[0].Text)
	case '[':
		return json.Unmarshal(text, (*[]block)(b))
	default:
		return badRequest("", "got %s, want a string or a list of blocks", shortened(text))
	}
}

// text returns the text of blocks of which none is anything else.
func (b blocks) text(param string) (string, error) {
	var text strings.Builder
	for _, part := range b {
		if part.Type == "image" && param == "messages" {
			mark, err := part.image()
			if err != nil {
				return "", err
			}
			text.WriteString(mark)
			continue
		}
		if part.Type != "text" {
			return "", badRequest(param, "got a block of type %q, want text: this server reads nothing else there",
				shortened([]byte(part.Type)))
		}
		text.WriteString(part.Text)
	}
	return text.String(), nil
}

// image returns the mark of an image.
func (b *block) image() (string, error) {
	if b.Source.Type == "base64" {
		return markImage("messages", "data:"+b.Source.Media+";base64,"+b.Source.Data, "")
	}
	return markImage("messages", b.Source.URL, "")
}

// chat returns the same as a request of /v1/chat/completions.
func (r *messagesRequest) chat() (*chatRequest, error) {
	c := &chatRequest{MaxTokens: r.MaxTokens}
	c.Model, c.Stop, c.Stream, c.Temperature, c.TopP = r.Model, r.Stop, r.Stream, r.Temperature, r.TopP
	system, err := r.System.text("system")
	if err != nil {
		return nil, err
	}
	if system != "" {
		c.Messages = append(c.Messages, message{Role: "system", Content: content(system)})
	}
	for i := range r.Messages {
		if err := r.Messages[i].add(c); err != nil {
			return nil, err
		}
	}
	if err := r.addTools(c); err != nil {
		return nil, err
	}
	return c, nil
}

// add adds a message to a chat: results of calls are messages of their own there.
func (m *blockMessage) add(c *chatRequest) error {
	own := message{Role: m.Role}
	only := true // results
	for _, part := range m.Content {
		switch part.Type {
		case "text":
			own.Content += content(part.Text)
			only = false
		case "image":
			mark, err := part.image()
			if err != nil {
				return err
			}
			own.Content += content(mark)
			only = false
		case "thinking", "redacted_thinking":
			only = false
		case "tool_use":
			call, err := json.Marshal(map[string]any{
				"id": part.ID, "type": "function",
				"function": map[string]string{"name": part.Name, "arguments": string(part.Input)},
			}, json.Deterministic(true))
			if err != nil {
				return err
			}
			own.ToolCalls, only = append(own.ToolCalls, call), false
		case "tool_result":
			text, err := part.Content.text("messages")
			if err != nil {
				return err
			}
			c.Messages = append(c.Messages, message{Role: "tool", ToolCallID: part.Call, Content: content(text)})
		default:
			return badRequest("messages", "got a block of type %q, want text, image, tool_use or tool_result: this "+
				"server reads nothing else", shortened([]byte(part.Type)))
		}
	}
	if !only || len(m.Content) == 0 {
		c.Messages = append(c.Messages, own)
	}
	return nil
}

// addTools adds the tools of a request, and what it says about calls.
func (r *messagesRequest) addTools(c *chatRequest) error {
	for i, value := range r.Tools {
		var t struct {
			Name        string         `json:"name"`
			Description string         `json:"description,omitempty"`
			Schema      jsontext.Value `json:"input_schema"`
		}
		if err := json.Unmarshal(value, &t); err != nil {
			return badRequest("tools", "tool %d: got %s, want name and input_schema", i, shortened(value))
		}
		if !given(t.Schema) { // a tool of a provider, which is not called here
			c.Tools = append(c.Tools, value)
			continue
		}
		same, err := json.Marshal(map[string]any{
			"type": "function", "function": map[string]any{"name": t.Name, "description": t.Description,
				"parameters": t.Schema},
		}, json.Deterministic(true))
		if err != nil {
			return err
		}
		c.Tools = append(c.Tools, same)
	}
	if r.ToolChoice == nil {
		return nil
	}
	parallel := !r.ToolChoice.OneAtOnce
	c.Parallel = &parallel
	switch r.ToolChoice.Type {
	case "auto", "none":
		c.ToolChoice = jsontext.Value(quote(r.ToolChoice.Type))
	case "any":
		c.ToolChoice = jsontext.Value(`"required"`)
	case "tool":
		c.ToolChoice = fmt.Appendf(nil, `{"type":"function","name":%s}`, quote(r.ToolChoice.Name))
	default:
		return badRequest("tool_choice", "got the type %q, want auto, any, tool or none",
			shortened([]byte(r.ToolChoice.Type)))
	}
	return nil
}

// messages answers /v1/messages.
func (s *Server) messages(w http.ResponseWriter, r *http.Request) error {
	var body messagesRequest
	if err := s.body(w, r, &body); err != nil {
		return err
	}
	t, r, err := s.meet(r, body.Model, "")
	if err != nil {
		return err
	}
	if body.MaxTokens == nil {
		return badRequest("max_tokens", "missing, want the number of tokens that the answer may have")
	}
	chat, err := checked(body.chat())
	if err != nil {
		return err
	}
	g, err := s.newReply(r.Context(), t, chat, body.Thinking != nil && body.Thinking.Type != "disabled")
	if err != nil {
		return err
	}
	g.id = newID("msg_", "")
	g.shape = &messageShape{}
	return g.answer(r.Context(), w)
}

// countTokens answers /v1/messages/count_tokens.
func (s *Server) countTokens(w http.ResponseWriter, r *http.Request) error {
	var body messagesRequest
	t, err := s.readPlain(w, r, &body, &body.Model)
	if err != nil {
		return err
	}
	chat, err := checked(body.chat())
	if err != nil {
		return err
	}
	tokens, err := t.model.chatTokens(r.Context(), chat.conversation())
	if err != nil {
		return err
	}
	return respond(w, map[string]int{"input_tokens": len(tokens)})
}

// asMessages gives errors the schema of Anthropic.
func asMessages(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		err := h(w, r)
		if err == nil {
			return nil
		}
		p := *asProblem(err)
		p.messages = true
		return &p
	}
}

// messageKinds are the types of errors by their status.
var messageKinds = map[int]string{
	http.StatusBadRequest: "invalid_request_error", http.StatusUnauthorized: "authentication_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error",
	http.StatusServiceUnavailable: "overloaded_error", statusClientGone: "invalid_request_error",
}

// messagesBody returns the JSON text of a problem in the schema of Anthropic.
func (p *problem) messagesBody() []byte {
	kind := messageKinds[p.status]
	if kind == "" {
		kind = "api_error"
	}
	return fmt.Appendf(nil, `{"type":"error","error":{"type":%q,"message":%s}}`, kind, quote(p.message))
}

// messageShape is the form of /v1/messages: content is a list of blocks, and a stream has events about each.
type messageShape struct {
	blocks int    // that have begun
	open   string // the type of the one that has not ended, "" for none
}

func (*messageShape) endpoint() string { return "messages" }

func (*messageShape) event(b []byte, kind, members string) []byte {
	b = append(append(append(b, "event: "...), kind...), "\ndata: {\"type\":\""...)
	b = append(append(b, kind...), '"')
	if members != "" {
		b = append(append(b, ','), members...)
	}
	return append(b, "}\n\n"...)
}

// begin begins a block, after the end of the one before.
func (s *messageShape) begin(b []byte, kind, members string) []byte {
	b = s.end(b)
	s.open = kind
	b = s.event(b, "content_block_start",
		fmt.Sprintf(`"index":%d,"content_block":{"type":%q,%s}`, s.blocks, kind, members))
	s.blocks++
	return b
}

// end ends the block that is open.
func (s *messageShape) end(b []byte) []byte {
	if s.open == "" {
		return b
	}
	s.open = ""
	return s.event(b, "content_block_stop", fmt.Sprintf(`"index":%d`, s.blocks-1))
}

// more adds to the block that is open.
func (s *messageShape) more(b []byte, kind, member, text string) []byte {
	return s.event(b, "content_block_delta",
		fmt.Sprintf(`"index":%d,"delta":{"type":%q,%q:%s}`, s.blocks-1, kind, member, quote(text)))
}

func (s *messageShape) appendPart(b []byte, g *generation, c *choice, to int) []byte {
	if !c.begun {
		c.begun = true
		b = s.event(b, "message_start", `"message":`+string(s.message(g, "", true)))
	}
	from := c.seen
	thought, text := c.spans(to)
	if thought != "" {
		if s.open == "" {
			b = s.begin(b, "thinking", `"thinking":"","signature":""`)
		}
		b = s.more(b, "thinking_delta", "thinking", thought)
	}
	if len(c.answer.Calls) > 0 {
		c.eachCall(from, c.seen, func(i int, id string) {
			b = s.begin(b, "tool_use", fmt.Sprintf(`"id":%s,"name":%s,"input":{}`, quote(id),
				quote(c.answer.Calls[i].Name)))
		}, func(_ int, arguments string) {
			b = s.more(b, "input_json_delta", "partial_json", arguments)
		})
		return b
	}
	if text != "" {
		if s.open != "text" {
			b = s.begin(b, "text", `"text":""`)
		}
		b = s.more(b, "text_delta", "text", text)
	}
	return b
}

func (s *messageShape) appendEnd(b []byte, g *generation) []byte {
	b = s.end(b)
	reason, sequence := g.choices[0].stopped()
	b = s.event(b, "message_delta", fmt.Sprintf(`"delta":{"stop_reason":%q,"stop_sequence":%s},"usage":%s`, reason,
		sequence, g.messagesUsage()))
	return s.event(b, "message_stop", "")
}

func (s *messageShape) appendFailure(b []byte, p *problem) []byte {
	return append(append(append(b, "event: error\ndata: "...), p.messagesBody()...), "\n\n"...)
}

func (*messageShape) logprobs(*generation, *choice, int, int) []byte { return []byte("null") }

// stopped returns why an answer has ended, in the words of Anthropic, and JSON for the stop sequence.
func (c *choice) stopped() (reason string, sequence []byte) {
	text, is := c.answer.StopReason.(string)
	switch {
	case is:
		return "stop_sequence", quote(text)
	case c.answer.Finish == "length":
		reason = "max_tokens"
	case len(c.answer.Calls) > 0:
		reason = "tool_use"
	default:
		reason = "end_turn"
	}
	return reason, []byte("null")
}

// messagesUsage counts tokens as Anthropic does: those that were found in the cache are not among the others.
func (g *generation) messagesUsage() string {
	u := g.usageOf()
	cached := u.PromptTokensDetails.CachedTokens
	return fmt.Sprintf(`{"input_tokens":%d,"cache_creation_input_tokens":0,"cache_read_input_tokens":%d,`+
		`"output_tokens":%d}`,
		u.PromptTokens-cached, cached, u.CompletionTokens)
}

func (s *messageShape) whole(g *generation) []byte {
	c := g.choices[0]
	thought, text := c.spans(len(c.answer.Tokens))
	var parts []string
	if thought != "" {
		parts = append(parts, fmt.Sprintf(`{"type":"thinking","thinking":%s,"signature":""}`, quote(thought)))
	}
	if len(c.answer.Calls) == 0 {
		parts = append(parts, fmt.Sprintf(`{"type":"text","text":%s}`, quote(text)))
	}
	for _, call := range c.toolCalls() {
		input := jsontext.Value(call.Function.Arguments)
		if !input.IsValid() { // it was cut off
			input = jsontext.Value("{}")
		}
		parts = append(parts, fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":%s}`, quote(call.ID),
			quote(call.Function.Name), input))
	}
	return s.message(g, strings.Join(parts, ","), false)
}

// message returns the message as a whole, or as it begins.
func (*messageShape) message(g *generation, content string, begins bool) []byte {
	reason, sequence := "null", []byte("null")
	if !begins {
		reason, sequence = g.choices[0].stopped()
		reason = string(quote(reason))
	}
	return fmt.Appendf(nil, `{"id":%s,"type":"message","role":"assistant","model":%s,"content":[%s],"stop_reason":%s,`+
		`"stop_sequence":%s,"usage":%s}`,
		quote(g.id), quote(g.modelName()), content, reason, sequence, g.messagesUsage())
}

// meet finds the model of a request for an answer, and lets it meet its faults.
func (s *Server) meet(r *http.Request, model, adapterName string) (target, *http.Request, error) {
	t, err := s.resolve(r.Context(), model)
	if err != nil {
		return t, r, err
	}
	if t, err = t.with(adapterName); err != nil {
		return t, r, err
	}
	i, err := s.config.Faults.draw(r.URL.Path, model).asked(r.Header)
	if err != nil {
		return t, r, err
	}
	if i != nil {
		r = r.WithContext(context.WithValue(r.Context(), injectedKey{}, i))
		if err := i.meet(r.Context()); err != nil {
			return t, r, err
		}
	}
	return t, r, nil
}
