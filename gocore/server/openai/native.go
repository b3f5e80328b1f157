package openai

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// nativePath is the endpoint of SGLang's own API that makes answers.
const nativePath = "/generate"

// nativeMost is the number of tokens that an answer of SGLang's API has at most if the request says nothing.
const nativeMost = 128

// nativeRequest is the body of /generate.
type nativeRequest struct {
	Text       texts          `json:"text"`
	IDs        jsontext.Value `json:"input_ids"`
	Sampling   nativeSampling `json:"sampling_params"`
	Stream     bool           `json:"stream"`
	ID         jsontext.Value `json:"rid"`
	Model      string         `json:"model"` // as gateways send it
	Adapter    string         `json:"lora_path"`
	Priority   int64          `json:"priority"`
	Salt       string         `json:"extra_key"`
	Logprob    bool           `json:"return_logprob"`
	Images     jsontext.Value `json:"image_data"`
	Audio      jsontext.Value `json:"audio_data"`
	Video      jsontext.Value `json:"video_data"`
	Embeddings jsontext.Value `json:"input_embeds"`
	Hidden     bool           `json:"return_hidden_states"`
	Bootstrap  jsontext.Value `json:"bootstrap_room"`
}

type nativeSampling struct {
	Most       *int           `json:"max_new_tokens"`
	Fewest     int            `json:"min_new_tokens"`
	Stop       texts          `json:"stop"`
	StopTokens []uint32       `json:"stop_token_ids"`
	IgnoreEnd  bool           `json:"ignore_eos"`
	N          *int           `json:"n"`
	Schema     jsontext.Value `json:"json_schema"`
	Regex      *string        `json:"regex"`
	Grammar    *string        `json:"ebnf"`
	Tag        jsontext.Value `json:"structural_tag"`
	Special    *bool          `json:"skip_special_tokens"`
	NoTrim     bool           `json:"no_stop_trim"`
	Seed       *int64         `json:"sampling_seed"`
}

// completion returns the same request to /v1/completions.
func (r *nativeRequest) completion() (*completionRequest, error) {
	if err := refused([]refusal{
		{"return_logprob", r.Logprob, "not supported here: /v1/completions has logprobs"},
		{"image_data", given(r.Images), "not supported: prompts are text"},
		{"audio_data", given(r.Audio), "not supported: prompts are text"},
		{"video_data", given(r.Video), "not supported: prompts are text"},
		{"input_embeds", given(r.Embeddings), "not supported: prompts are text or tokens"},
		{"return_hidden_states", r.Hidden, "not supported: there are none"},
		{"bootstrap_room", given(r.Bootstrap),
			"not supported: KV moves between the workers of one server only, see --num-prefill-workers"},
		{"sampling_params.ebnf", r.Sampling.Grammar != nil, "not supported, want json_schema or regex"},
		{"sampling_params.structural_tag", given(r.Sampling.Tag), "not supported, want json_schema or regex"},
	}); err != nil {
		return nil, err
	}
	p := &r.Sampling
	most := nativeMost
	if p.Most != nil {
		most = *p.Most
	}
	c := &completionRequest{MaxTokens: &most}
	c.sampling = sampling{
		MinTokens: p.Fewest, N: p.N, Stop: p.Stop, StopTokenIDs: p.StopTokens, IncludeStop: p.NoTrim,
		IgnoreEOS: p.IgnoreEnd, Stream: r.Stream,
		Seed: p.Seed, Priority: r.Priority, CacheSalt: r.Salt, SkipSpecialTokens: p.Special,
		Model: r.Model, Adapter: r.Adapter,
	}
	if given(p.Schema) || p.Regex != nil {
		c.StructuredOutputs = &structuredOutputs{JSON: p.Schema, Regex: p.Regex}
	}
	switch {
	case len(r.Text) > 0 && given(r.IDs):
		return nil, badRequest("text, input_ids", "got both, want one of them")
	case len(r.Text) > 0:
		c.Prompt.texts = r.Text
	case given(r.IDs):
		if err := decode(r.IDs, &c.Prompt); err != nil || len(c.Prompt.texts) > 0 {
			return nil, badRequest("input_ids", "want a list of tokens, or a list of such lists")
		}
	default:
		return nil, badRequest("text", "missing, want a text or a list of texts, or input_ids")
	}
	return c, c.check()
}

// native answers /generate.
func (s *Server) native(w http.ResponseWriter, r *http.Request) error {
	text, err := s.bodyText(w, r)
	if err != nil {
		return err
	}
	var body nativeRequest
	if err := decode(text, &body); err != nil {
		return err
	}
	asked, err := body.completion()
	if err != nil {
		return err
	}
	if asked.Model == "" {
		asked.Model = asked.Adapter
	}
	if asked.Model == "" {
		t, err := s.only(r)
		if err != nil {
			return err
		}
		asked.Model = t.name()
	}
	t, r, err := s.meet(r, asked.Model, asked.Adapter)
	if err != nil {
		return err
	}
	questions, err := t.model.questions(r.Context(), asked)
	if err != nil {
		return err
	}
	g, err := s.newGeneration(r.Context(), t, &asked.sampling, questions, asked.MaxTokens, false)
	if err != nil {
		return err
	}
	var id string
	if json.Unmarshal(body.ID, &id) != nil || id == "" {
		id = newID("", "")
	}
	g.id, g.shape = id, &nativeShape{list: len(g.choices) > 1 || isList(text), begun: time.Now()}
	return g.answer(r.Context(), w)
}

// isList reports whether a request has its prompts in a list: then the answer is a list, too.
func isList(text []byte) bool {
	var kinds struct {
		Text jsontext.Value `json:"text"`
		IDs  jsontext.Value `json:"input_ids"`
	}
	if json.Unmarshal(text, &kinds) != nil {
		return false
	}
	var lists [][]uint32
	return kinds.Text.Kind() == '[' || len(kinds.IDs) > 0 && json.Unmarshal(kinds.IDs, &lists) == nil
}

// nativeShape is the form of SGLang's own API. Each part of a stream has the text so far.
type nativeShape struct {
	list  bool
	begun time.Time
}

type nativeAnswer struct {
	Text string     `json:"text"`
	IDs  []uint32   `json:"output_ids"`
	Meta nativeMeta `json:"meta_info"`
	// Index is the number of the prompt or choice, in streams of several.
	Index *int `json:"index,omitempty"`
}

type nativeMeta struct {
	ID       string  `json:"id"`
	Finish   any     `json:"finish_reason"`
	Prompt   int     `json:"prompt_tokens"`
	Answer   int     `json:"completion_tokens"`
	Cached   int     `json:"cached_tokens"`
	Weights  string  `json:"weight_version"`
	Duration float64 `json:"e2e_latency,omitzero"`
}

func (*nativeShape) endpoint() string { return "generate" }

func (s *nativeShape) answer(g *generation, c *choice, to int) nativeAnswer {
	c.text(to)
	a := nativeAnswer{Text: c.shown(), IDs: slices.Clip(c.answer.Tokens[:to])}
	a.Meta = nativeMeta{ID: g.id, Prompt: c.prompt, Answer: to, Cached: c.call.Reused(), Weights: "default"}
	if len(g.choices) > 1 {
		a.Meta.ID += "_" + strconv.Itoa(c.index)
	}
	if c.answer.Complete(to) {
		a.Meta.Finish = reason(&c.answer)
		if !s.begun.IsZero() {
			a.Meta.Duration = time.Since(s.begun).Seconds()
		}
	}
	return a
}

func (s *nativeShape) appendPart(b []byte, g *generation, c *choice, to int) []byte {
	a := s.answer(g, c, to)
	if s.list {
		a.Index = &c.index
	}
	text, _ := json.Marshal(a, json.Deterministic(true))
	return append(append(append(b, "data: "...), text...), "\n\n"...)
}

func (*nativeShape) appendEnd(b []byte, _ *generation) []byte {
	return append(b, "data: [DONE]\n\n"...)
}

func (*nativeShape) appendFailure(b []byte, p *problem) []byte {
	return (&frame{}).appendFailure(b, p)
}

func (*nativeShape) logprobs(*generation, *choice, int, int) []byte { return []byte("null") }

func (s *nativeShape) whole(g *generation) []byte {
	var all []nativeAnswer
	for _, c := range g.choices {
		all = append(all, s.answer(g, c, len(c.answer.Tokens)))
	}
	var text []byte
	if s.list {
		text, _ = json.Marshal(all, json.Deterministic(true))
	} else {
		text, _ = json.Marshal(all[0], json.Deterministic(true))
	}
	return text
}
