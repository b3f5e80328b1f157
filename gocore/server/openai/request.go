package openai

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"dynosim/gocore/server/tokens"
)

// sampling is what requests of all kinds may say. Members that have no effect here, such as top_k, are not even named:
// whatever a real server accepts is accepted.
type sampling struct {
	Model         string         `json:"model"`
	Adapter       string         `json:"lora_path"` // SGLang's
	MinTokens     int            `json:"min_tokens"`
	N             *int           `json:"n"`
	Stop          texts          `json:"stop"`
	StopTokenIDs  []uint32       `json:"stop_token_ids"`
	IncludeStop   bool           `json:"include_stop_str_in_output"`
	IgnoreEOS     bool           `json:"ignore_eos"`
	Stream        bool           `json:"stream"`
	StreamOptions *streamOptions `json:"stream_options"`
	Temperature   *float64       `json:"temperature"`
	TopP          *float64       `json:"top_p"`
	Seed          *int64         `json:"seed"`
	Priority      int64          `json:"priority"`
	CacheSalt     string         `json:"cache_salt"`
	RequestID     string         `json:"request_id"`
	// SkipSpecialTokens is for answers of backends; nil for yes.
	SkipSpecialTokens *bool `json:"skip_special_tokens"`
	// Truncate is how many tokens of the prompt are kept at most, the last ones.
	Truncate *int `json:"truncate_prompt_tokens"`
	TokenIDs bool `json:"return_token_ids"`
	// Transfer is what a router says of the hand-off of the KV.
	Transfer *kvTransfer `json:"kv_transfer_params"`
	// What follows is refused: nothing here could fulfil it.
	PromptLogprobs *int           `json:"prompt_logprobs"`
	BeamSearch     bool           `json:"use_beam_search"`
	AllowedTokens  []uint32       `json:"allowed_token_ids"`
	BadWords       []string       `json:"bad_words"`
	Processors     jsontext.Value `json:"logits_processors"`
	Embeds         jsontext.Value `json:"prompt_embeds"`
	TokensAsIDs    bool           `json:"return_tokens_as_token_ids"`
	form           `json:",inline"`
}

type streamOptions struct {
	IncludeUsage    bool `json:"include_usage"`
	ContinuousUsage bool `json:"continuous_usage_stats"`
}

// chatRequest is the body of /v1/chat/completions.
type chatRequest struct {
	sampling            `json:",inline"`
	Messages            []message        `json:"messages"`
	MaxTokens           *int             `json:"max_tokens"`
	MaxCompletionTokens *int             `json:"max_completion_tokens"`
	Logprobs            bool             `json:"logprobs"`
	TopLogprobs         *int             `json:"top_logprobs"`
	Tools               []jsontext.Value `json:"tools"`
	ToolChoice          jsontext.Value   `json:"tool_choice"`
	Parallel            *bool            `json:"parallel_tool_calls"`
	TemplateArguments   jsontext.Value   `json:"chat_template_kwargs"`
	Generate            *bool            `json:"add_generation_prompt"`
	Modalities          []string         `json:"modalities"`
	Audio               jsontext.Value   `json:"audio"`
	Template            *string          `json:"chat_template"`
	Continue            bool             `json:"continue_final_message"`
	Functions           jsontext.Value   `json:"functions"`
	FunctionCall        jsontext.Value   `json:"function_call"`
	Documents           jsontext.Value   `json:"documents"`
	Search              jsontext.Value   `json:"web_search_options"`
	Echo                bool             `json:"echo"`
	// Reasoning says whether the answer has its reasoning; nil for yes.
	Reasoning *bool          `json:"include_reasoning"`
	Budget    jsontext.Value `json:"thinking_token_budget"`
}

// completionRequest is the body of /v1/completions.
type completionRequest struct {
	sampling         `json:",inline"`
	Prompt           prompts `json:"prompt"`
	MaxTokens        *int    `json:"max_tokens"`
	Logprobs         *int    `json:"logprobs"`
	Echo             bool    `json:"echo"`
	BestOf           *int    `json:"best_of"`
	Suffix           string  `json:"suffix"`
	AddSpecialTokens *bool   `json:"add_special_tokens"`
}

// message is one message of a chat.
type message struct {
	Role       string           `json:"role"`
	Content    content          `json:"content"`
	Name       string           `json:"name"`
	ToolCalls  []jsontext.Value `json:"tool_calls"`
	ToolCallID string           `json:"tool_call_id"`
}

// content is the text of a message: a string, null, or a list of parts that are text.
type content string

// UnmarshalJSON implements [json.Unmarshaler].
func (c *content) UnmarshalJSON(text []byte) error {
	switch jsontext.Value(text).Kind() {
	case 'n':
		*c = ""
		return nil
	case '"':
		return json.Unmarshal(text, (*string)(c))
	case '[':
		return c.join(text)
	default:
		return badRequest("", "got %s, want a string or a list of parts", shortened(text))
	}
}

// join takes the text of a list of parts.
func (c *content) join(text []byte) error {
	var parts []struct {
		Type    string         `json:"type"`
		Text    string         `json:"text"`
		Refusal string         `json:"refusal"`
		Image   imageReference `json:"image_url"`
		Detail  string         `json:"detail"`
	}
	if err := json.Unmarshal(text, &parts); err != nil {
		return badRequest("", "got %s, want parts that are objects with type and text", shortened(text))
	}
	for _, p := range parts {
		switch p.Type {
		case "text", "input_text", "output_text":
			*c += content(p.Text)
		case "refusal":
			*c += content(p.Refusal)
		case "image_url", "input_image":
			mark, err := markImage("", p.Image.URL, cmp.Or(p.Image.Detail, p.Detail))
			if err != nil {
				return err
			}
			*c += content(mark)
		default:
			return badRequest("", "got a part of type %q, want text or an image: this server reads nothing else",
				p.Type)
		}
	}
	return nil
}

// imageReference is the URL of an image, or an object with it.
type imageReference struct {
	URL    string `json:"url"`
	Detail string `json:"detail"`
}

// UnmarshalJSON implements [json.Unmarshaler].
func (i *imageReference) UnmarshalJSON(text []byte) error {
	if jsontext.Value(text).Kind() == '"' {
		return json.Unmarshal(text, &i.URL)
	}
	type object imageReference
	if err := json.Unmarshal(text, (*object)(i)); err != nil {
		return badRequest("", "got %s, want the URL of an image or an object with it", shortened(text))
	}
	return nil
}

// texts is a string, null, or a list of strings.
type texts []string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *texts) UnmarshalJSON(text []byte) error {
	switch jsontext.Value(text).Kind() {
	case 'n':
		return nil
	case '"':
		*t = make(texts, 1)
		return json.Unmarshal(text, &(*t)[0])
	}
	if err := json.Unmarshal(text, (*[]string)(t)); err != nil {
		return badRequest("", "got %s, want a string or a list of strings", shortened(text))
	}
	return nil
}

// prompts is what completions begin with: a text, tokens, or a list of either.
type prompts struct {
	texts  []string
	tokens [][]uint32
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *prompts) UnmarshalJSON(text []byte) error {
	value := jsontext.Value(text)
	if value.Kind() == '"' {
		p.texts = make([]string, 1)
		return json.Unmarshal(text, &p.texts[0])
	}
	var one []uint32
	if json.Unmarshal(text, &one) == nil && len(one) > 0 {
		p.tokens = [][]uint32{one}
		return nil
	}
	if json.Unmarshal(text, &p.texts) == nil && len(p.texts) > 0 {
		return nil
	}
	p.texts = nil
	if json.Unmarshal(text, &p.tokens) == nil && len(p.tokens) > 0 {
		return nil
	}
	return badRequest("", "got %s, want a string, a list of tokens, or a list of either", shortened(text))
}

// count returns the number of prompts.
func (p *prompts) count() int { return len(p.texts) + len(p.tokens) }

// shortened returns a text as messages show it: its beginning, up to a whole character.
func shortened(text []byte) string {
	const shown = 40
	if len(text) <= shown {
		return string(text)
	}
	end := shown
	for end > shown-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return string(text[:end]) + "..."
}

// limits of what one request may ask for.
const (
	maxChoices    = 128
	maxPrompts    = 1024
	maxStops      = 64
	maxStopLength = 4096
	maxRequestID  = 256
)

// check finds values that no server accepts.
func (s *sampling) check() error {
	if err := refused([]refusal{
		{"prompt_logprobs", s.PromptLogprobs != nil,
			"not supported; /v1/completions with echo and logprobs has those of the prompt"},
		{"use_beam_search", s.BeamSearch, "not supported: no answer is better than another one"},
		{"allowed_token_ids", len(s.AllowedTokens) > 0, "not supported; want structured_outputs"},
		{"logits_processors", some(s.Processors), "not supported: there are no logits"},
		{"prompt_embeds", some(s.Embeds), "not supported: prompts are text or tokens"},
		{"return_tokens_as_token_ids", s.TokensAsIDs, "not supported; return_token_ids has the tokens"},
		{"bad_words", len(s.BadWords) > 0, "not supported: any word may be made up; leave it out"},
	}); err != nil {
		return err
	}
	switch {
	case s.N != nil && (*s.N < 1 || *s.N > maxChoices):
		return badRequest("n", "got %d, want an integer from 1 to %d", *s.N, maxChoices)
	case s.MinTokens < 0:
		return badRequest("min_tokens", "got %d, want an integer >= 0", s.MinTokens)
	case s.Temperature != nil && (*s.Temperature < 0 || math.IsNaN(*s.Temperature)):
		return badRequest("temperature", "got %v, want a number >= 0", *s.Temperature)
	case s.TopP != nil && (*s.TopP < 0 || *s.TopP > 1):
		return badRequest("top_p", "got %v, want a number from 0 to 1", *s.TopP)
	case len(s.RequestID) > maxRequestID: // each part of a stream has it
		return badRequest("request_id", "got %d bytes, want at most %d", len(s.RequestID), maxRequestID)
	case s.StreamOptions != nil && !s.Stream:
		return badRequest("stream_options", "allowed only with stream true")
	case len(s.Stop) > maxStops:
		return badRequest("stop", "got %d sequences, want at most %d", len(s.Stop), maxStops)
	case slices.ContainsFunc(s.Stop, func(t string) bool { return t == "" || len(t) > maxStopLength }):
		return badRequest("stop", "got an empty or a very long sequence, want 1 to %d bytes", maxStopLength)
	}
	return nil
}

// choices returns the number of answers to each prompt.
func (s *sampling) choices() int {
	if s.N == nil {
		return 1
	}
	return *s.N
}

func (s *sampling) seed() uint64 {
	if s.Seed == nil {
		return 0
	}
	return uint64(*s.Seed)
}

// checkMost checks the number of tokens that a client asks for.
func checkMost(name string, n *int) error {
	if n != nil && (*n < 1 || *n > math.MaxInt32) {
		return badRequest(name, "got %d, want an integer from 1 to %d", *n, math.MaxInt32)
	}
	return nil
}

// checked returns a chat that could be read and has no values that no server accepts.
func checked(chat *chatRequest, err error) (*chatRequest, error) {
	if err != nil {
		return nil, err
	}
	return chat, chat.check()
}

func (r *chatRequest) check() error {
	if len(r.Messages) == 0 {
		return badRequest("messages", "got none, want a list of at least one message")
	}
	if err := r.checkRoles(); err != nil {
		return err
	}
	if n := r.TopLogprobs; n != nil && (*n < 0 || *n > maxTop) {
		return badRequest("top_logprobs", "got %d, want an integer from 0 to %d", *n, maxTop)
	}
	if r.TopLogprobs != nil && *r.TopLogprobs > 0 && !r.Logprobs {
		return badRequest("top_logprobs", "allowed only with logprobs true")
	}
	if err := refused([]refusal{
		{"audio", given(r.Audio), "not supported: answers are text"},
		{"functions", some(r.Functions), "not supported, want tools"},
		{"function_call", some(r.FunctionCall), "not supported, want tool_choice"},
		{"documents", some(r.Documents), "not supported: want them in messages, or in chat_template_kwargs for a " +
			"template that reads them"},
		{"web_search_options", some(r.Search), "not supported: nothing is searched"},
		{"echo", r.Echo, "not supported: an answer is a message of its own"},
	}); err != nil {
		return err
	}
	if err := onlyText(r.Modalities); err != nil {
		return err
	}
	if err := checkMost("max_tokens", r.MaxTokens); err != nil {
		return err
	}
	if err := checkMost("max_completion_tokens", r.MaxCompletionTokens); err != nil {
		return err
	}
	if _, err := parseToolChoice(r.ToolChoice); err != nil {
		return err
	}
	if err := r.checkConversation(); err != nil {
		return err
	}
	return r.sampling.check()
}

// checkConversation looks at what the chat template gets.
func (r *chatRequest) checkConversation() error {
	if err := refused([]refusal{
		{"chat_template", r.Template != nil, "not supported: the model has its own"},
		{"continue_final_message", r.Continue, "not supported: an answer is a message of its own"},
	}); err != nil {
		return err
	}
	if err := r.checkJSON(); err != nil {
		return err
	}
	if err := checkNames(r.Tools); err != nil {
		return err
	}
	if kind := r.TemplateArguments.Kind(); len(r.TemplateArguments) > 0 && kind != '{' && kind != 'n' {
		return badRequest("chat_template_kwargs", "got %s, want an object", shortened(r.TemplateArguments))
	}
	return nil
}

// checkRoles refuses messages that do not say where they come from.
func (r *chatRequest) checkRoles() error {
	for i := range r.Messages {
		if r.Messages[i].Role == "" {
			return badRequest("messages", "message %d has no role", i)
		}
	}
	return nil
}

// checkNames refuses tools that are no objects, or whose type or name is no string, and functions without a name.
func checkNames(list []jsontext.Value) error {
	for i, tool := range list {
		var shape struct {
			Type     string `json:"type"`
			Name     string `json:"name"` // as /v1/responses has it
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		var wrong *problem
		if err := decode(tool, &shape); errors.As(err, &wrong) {
			at := fmt.Sprintf("tools.%d", i)
			if wrong.param == "" {
				return badRequest(at, "%s", wrong.message)
			}
			return badRequest(at+"."+wrong.param, "%s", strings.TrimPrefix(wrong.message, wrong.param+": "))
		}
		if (shape.Type == "" || shape.Type == "function") && shape.Name == "" && shape.Function.Name == "" {
			return badRequest(fmt.Sprintf("tools.%d.function.name", i), "missing, want the name of a function")
		}
	}
	return nil
}

// most returns the number of tokens that the client asks for, nil if it names none.
func (r *chatRequest) most() *int {
	if r.MaxCompletionTokens != nil {
		return r.MaxCompletionTokens
	}
	return r.MaxTokens
}

// conversation returns what the tokenizer makes a prompt of.
func (r *chatRequest) conversation() tokens.Chat {
	c := tokens.Chat{Tools: r.Tools, Generate: r.Generate == nil || *r.Generate, Extra: r.TemplateArguments}
	if string(r.ToolChoice) == `"none"` {
		c.Tools = nil
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		c.Messages = append(c.Messages, tokens.Message{
			Role: m.Role, Content: string(m.Content), Name: m.Name, ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID,
		})
	}
	return c
}

// result returns the last message if it has the result of a call.
func (r *chatRequest) result() (content string, found bool) {
	last := &r.Messages[len(r.Messages)-1]
	return withoutImages(string(last.Content)), last.Role == "tool" || last.Role == "function"
}

// said returns the last message of the client.
func (r *chatRequest) said() string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == "user" {
			return withoutImages(string(r.Messages[i].Content))
		}
	}
	return withoutImages(string(r.Messages[len(r.Messages)-1].Content))
}

func (r *completionRequest) check() error {
	switch {
	case r.Prompt.count() == 0:
		return badRequest("prompt", "missing, want a string, a list of tokens, or a list of either")
	case r.Prompt.count() > maxPrompts:
		return badRequest("prompt", "got %d prompts, want at most %d", r.Prompt.count(), maxPrompts)
	case r.Logprobs != nil && (*r.Logprobs < 0 || *r.Logprobs > maxTop):
		return badRequest("logprobs", "got %d, want an integer from 0 to %d", *r.Logprobs, maxTop)
	case r.BestOf != nil && *r.BestOf != r.choices():
		return badRequest("best_of", "got %d, want n (%d) or nothing: no answer is better than another one", *r.BestOf,
			r.choices())
	case r.Suffix != "":
		return badRequest("suffix", "not supported")
	}
	if !r.silent() {
		if err := checkMost("max_tokens", r.MaxTokens); err != nil {
			return err
		}
	}
	return r.sampling.check()
}

// silent tells that the client wants the prompt back, and no answer.
func (r *completionRequest) silent() bool { return r.Echo && r.MaxTokens != nil && *r.MaxTokens == 0 }

// details returns what the client wants to know of tokens.
func (r *completionRequest) details() details {
	d := details{ids: r.TokenIDs, logprobs: r.Logprobs != nil}
	if d.logprobs {
		d.top = *r.Logprobs
	}
	return d
}

// details returns what the client wants to know of tokens.
func (r *chatRequest) details() details {
	d := details{ids: r.TokenIDs, logprobs: r.Logprobs}
	if r.TopLogprobs != nil {
		d.top = *r.TopLogprobs
	}
	return d
}
