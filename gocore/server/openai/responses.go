package openai

import (
	"fmt"
	"net/http"
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
	Previous     string           `json:"previous_response_id"`
	Background   bool             `json:"background"`
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
	var items []struct {
		Type string `json:"type"`
		message
	}
	if err := json.Unmarshal(text, &items); err != nil {
		return badRequest("", "got %s, want a text or a list of messages", shortened(text))
	}
	for n, item := range items {
		if item.Type != "" && item.Type != "message" {
			return badRequest("", "item %d has the type %q, want message: this server reads nothing else", n, item.Type)
		}
		*i = append(*i, item.message)
	}
	return nil
}

// chat is the same as a request for a chat.
func (r *responsesRequest) chat() (*chatRequest, error) {
	switch {
	case r.Previous != "":
		return nil, badRequest("previous_response_id", "this server keeps no responses; send the whole conversation as input")
	case r.Background:
		return nil, badRequest("background", "this server keeps no responses; leave it out")
	case len(r.Input) == 0:
		return nil, badRequest("input", "missing, want a text or a list of messages")
	}
	if err := checkMost("max_output_tokens", r.MaxTokens); err != nil {
		return nil, err
	}
	c := &chatRequest{sampling: r.sampling, Tools: r.Tools, ToolChoice: r.ToolChoice, MaxTokens: r.MaxTokens}
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
	chat, err := body.chat()
	if err != nil {
		return err
	}
	if err := chat.check(); err != nil {
		return err
	}
	chat.N = nil
	g, err := s.newReply(r.Context(), t, chat, false)
	if err != nil {
		return err
	}
	g.id = newID("resp_", "")
	g.shape = &responseShape{item: newID("msg_", "")}
	return g.answer(r.Context(), w)
}

// responseShape is the form of /v1/responses: each part of a stream is an event with a type and a number.
type responseShape struct {
	item string // the id of the message
	sent int    // events
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

// place is the members that say where in the response a text is.
func (s *responseShape) place() string {
	return fmt.Sprintf(`"item_id":%s,"output_index":0,"content_index":0`, quote(s.item))
}

func (s *responseShape) appendPart(b []byte, g *generation, c *choice, to int) []byte {
	if !c.begun {
		c.begun = true
		begun := `"response":` + string(s.response(g, "in_progress"))
		b = s.event(b, "response.created", begun)
		b = s.event(b, "response.in_progress", begun)
		b = s.event(b, "response.output_item.added", `"output_index":0,"item":`+string(s.message("in_progress")))
		b = s.event(b, "response.content_part.added", s.place()+`,"part":`+s.part(""))
	}
	if text := c.text(to); text != "" {
		b = s.event(b, "response.output_text.delta", s.place()+`,"delta":`+string(quote(text))+`,"logprobs":[]`)
	}
	if c.answer.Complete(to) {
		b = s.event(b, "response.output_text.done", s.place()+`,"text":`+string(quote(c.shown()))+`,"logprobs":[]`)
		b = s.event(b, "response.content_part.done", s.place()+`,"part":`+s.part(c.shown()))
		b = s.event(b, "response.output_item.done", `"output_index":0,"item":`+string(s.message(s.ended(g), s.part(c.shown()))))
	}
	return b
}

func (s *responseShape) part(text string) string {
	return `{"type":"output_text","text":` + string(quote(text)) + `,"annotations":[],"logprobs":[]}`
}

func (s *responseShape) message(status string, parts ...string) []byte {
	return fmt.Appendf(nil, `{"id":%s,"type":"message","status":%q,"role":"assistant","content":[%s]}`, quote(s.item), status, strings.Join(parts, ","))
}

// ended is the status of a response that is over.
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

// response is the response as a whole.
func (s *responseShape) response(g *generation, status string) []byte {
	output, counts, incomplete := "[]", "null", "null"
	if status != "in_progress" {
		u := g.usageOf()
		output = "[" + string(s.message(status, s.part(g.choices[0].shown()))) + "]"
		counts = fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":%d}`,
			u.PromptTokens, u.PromptTokensDetails.CachedTokens, u.CompletionTokens, u.TotalTokens)
	}
	if status == "incomplete" {
		incomplete = `{"reason":"max_output_tokens"}`
	}
	return fmt.Appendf(nil, `{"id":%s,"object":"response","created_at":%d,"status":%q,"model":%s,"output":%s,"usage":%s,"error":null,"incomplete_details":%s,`+
		`"instructions":null,"metadata":{},"parallel_tool_calls":true,"temperature":null,"top_p":null,"tool_choice":"auto","tools":[]}`,
		quote(g.id), g.created, status, quote(g.modelName()), output, counts, incomplete)
}
