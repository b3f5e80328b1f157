package openai

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json"

	"dynosim/gocore/server/answers"
)

// chat answers /v1/chat/completions.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) error {
	var body chatRequest
	t, r, err := s.read(w, r, &body, &body.sampling)
	if err != nil {
		return err
	}
	if err := body.check(); err != nil {
		return err
	}
	if given(body.Budget) && t.model.reasons() {
		return badRequest("thinking_token_budget", "not supported: --reasoning says how long reasoning is")
	}
	g, err := s.newReply(r.Context(), t, &body, true)
	if err != nil {
		return err
	}
	g.discreet = body.Reasoning != nil && !*body.Reasoning
	if err := g.tell(body.details()); err != nil {
		return err
	}
	if g.details.ids {
		g.promptIDs = g.promptTokens[0]
	}
	g.id = newID("chatcmpl-", body.RequestID)
	g.shape = newChatShape(g)
	return g.answer(r.Context(), w)
}

// newReply decides the answers to a chat that has been checked. reasoning says whether they may begin with reasoning.
func (s *Server) newReply(ctx context.Context, t target, chat *chatRequest, reasoning bool) (*generation, error) {
	tools, err := chat.callable(t.model)
	if err != nil {
		return nil, err
	}
	prompt, err := t.model.chatTokens(ctx, chat.conversation())
	if err != nil {
		return nil, err
	}
	if prompt, err = chat.truncate(t.model, prompt); err != nil {
		return nil, err
	}
	if f := chat.ResponseFormat; f != nil && f.Type == "json_object" {
		chat.promised = schemaIn(chat.Messages)
	}
	q := question{tokens: prompt, said: chat.said(), tools: tools}
	q.result, q.afterResult = chat.result()
	return s.newGeneration(ctx, t, &chat.sampling, []question{q}, chat.most(), reasoning)
}

// completions answers /v1/completions.
func (s *Server) completions(w http.ResponseWriter, r *http.Request) error {
	var body completionRequest
	t, r, err := s.read(w, r, &body, &body.sampling)
	if err != nil {
		return err
	}
	if err := body.check(); err != nil {
		return err
	}
	questions, err := t.model.questions(r.Context(), &body)
	if err != nil {
		return err
	}
	most := body.MaxTokens
	if body.silent() && t.model.elsewhere() {
		return badRequest("max_tokens", "got 0, want at least 1: workers elsewhere make an answer")
	}
	if body.silent() { // the engine makes a token all the same, as vLLM's does
		one := 1
		most = &one
	}
	g, err := s.newGeneration(r.Context(), t, &body.sampling, questions, most, false)
	if err != nil {
		return err
	}
	if err := g.tell(body.details()); err != nil {
		return err
	}
	for _, c := range g.choices {
		if c.silent = body.silent(); c.silent {
			c.answer.Visible, c.answer.Finish = 0, "length"
		}
		if body.Echo {
			c.echoed = g.promptTokens[c.index/body.choices()]
		}
	}
	g.id = newID("cmpl-", body.RequestID)
	g.shape = newCompletionShape(g)
	return g.answer(r.Context(), w)
}

// read reads a request for an answer, finds its model, and lets it meet its faults.
func (s *Server) read(w http.ResponseWriter, r *http.Request, into any, common *sampling) (target, *http.Request,
	error) {
	if err := s.body(w, r, into); err != nil {
		return target{}, r, err
	}
	return s.meet(r, common.Model, common.Adapter)
}

// questions returns the prompts of a request for completions.
func (m *Model) questions(ctx context.Context, body *completionRequest) ([]question, error) {
	var all []question
	special := body.AddSpecialTokens == nil || *body.AddSpecialTokens
	for _, text := range body.Prompt.texts {
		tokens, err := m.Tokenizer.Prompt(ctx, text, special)
		if err != nil {
			return nil, err
		}
		all = append(all, question{tokens: tokens, said: text})
	}
	for _, tokens := range body.Prompt.tokens {
		if err := m.checkTokens("prompt", tokens); err != nil {
			return nil, err
		}
		q := question{tokens: tokens}
		if body.Echo || m.Answers.Mode != answers.Random {
			text, err := m.Tokenizer.Text(tokens)
			if err != nil {
				return nil, err
			}
			q.said = text
		}
		all = append(all, q)
	}
	for i := range all {
		whole := len(all[i].tokens)
		var err error
		if all[i].tokens, err = body.truncate(m, all[i].tokens); err != nil {
			return nil, err
		}
		if body.Echo && len(all[i].tokens) < whole {
			if all[i].said, err = m.Tokenizer.Text(all[i].tokens); err != nil {
				return nil, err
			}
		}
		if body.Echo {
			all[i].lead = all[i].said
		}
	}
	return all, nil
}

// checkTokens refuses tokens that the model does not have.
func (m *Model) checkTokens(param string, tokens []uint32) error {
	for _, token := range tokens {
		if int64(token) >= int64(m.Tokenizer.Size()) {
			return badRequest(param, "token %d is out of the vocabulary, want numbers below %d", token,
				m.Tokenizer.Size())
		}
	}
	return nil
}

// tokenize answers /tokenize.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		chatRequest      `json:",inline"`
		Prompt           *string `json:"prompt"`
		AddSpecialTokens *bool   `json:"add_special_tokens"`
		Names            bool    `json:"return_token_strs"`
	}
	t, err := s.readPlain(w, r, &body, &body.Model)
	if err != nil {
		return err
	}
	var tokens []uint32
	switch {
	case body.Prompt != nil:
		tokens, err = t.model.Tokenizer.Prompt(r.Context(), *body.Prompt,
			body.AddSpecialTokens == nil || *body.AddSpecialTokens)
	case len(body.Messages) > 0:
		if err := body.checkRoles(); err != nil {
			return err
		}
		if err := body.checkConversation(); err != nil {
			return err
		}
		tokens, err = t.model.chatTokens(r.Context(), body.conversation())
	default:
		return badRequest("prompt", "missing, want a text, or messages")
	}
	if err != nil {
		return err
	}
	var names *[]string
	if body.Names {
		names = &[]string{}
		for _, token := range tokens {
			*names = append(*names, t.model.Tokenizer.Name(token))
		}
	}
	return respond(w, struct {
		Count     int       `json:"count"`
		MaxLength int       `json:"max_model_len"`
		Tokens    []uint32  `json:"tokens"`
		Names     *[]string `json:"token_strs"`
	}{len(tokens), t.model.MaxLength, tokens, names})
}

// detokenize answers /detokenize.
func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Model  string   `json:"model"`
		Tokens []uint32 `json:"tokens"`
	}
	t, err := s.readPlain(w, r, &body, &body.Model)
	if err != nil {
		return err
	}
	if body.Tokens == nil {
		return badRequest("tokens", "missing, want a list of tokens")
	}
	if err := t.model.checkTokens("tokens", body.Tokens); err != nil {
		return err
	}
	text, err := t.model.Tokenizer.Text(body.Tokens)
	if err != nil {
		return err
	}
	return respond(w, map[string]string{"prompt": text})
}

// tokenizerInfo answers /tokenizer_info.
func (s *Server) tokenizerInfo(w http.ResponseWriter, r *http.Request) error {
	t, err := s.only(r)
	if err != nil {
		return err
	}
	info, err := t.model.Tokenizer.Info()
	if err != nil {
		return failed("%v", err)
	}
	return respond(w, info)
}

// readPlain reads a request that asks for no answer of a model, and finds the model.
func (s *Server) readPlain(w http.ResponseWriter, r *http.Request, into any, model *string) (target, error) {
	if err := s.body(w, r, into); err != nil {
		return target{}, err
	}
	if *model == "" {
		return s.first(r.Context())
	}
	return s.resolve(r.Context(), *model)
}

func respond(w http.ResponseWriter, value any) error {
	text, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, text)
	return nil
}
