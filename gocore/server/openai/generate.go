package openai

import (
	"context"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"dynosim/gocore/server/answers"
	"dynosim/gocore/server/cluster"
	"dynosim/gocore/server/conform"
	"dynosim/gocore/server/deployment"
)

// generation is the answering of one request: one or more choices, which all are calls of one deployment or backend.
type generation struct {
	server   *Server
	target   target
	id       string
	created  int64
	received time.Time
	choices  []*choice
	wake     chan struct{} // one of the calls has come further
	prompt   int           // tokens of all prompts
	shape    shape
	injected *injected // faults on purpose, nil for none
	stream   bool
	usage    bool // a stream ends with the numbers of tokens
	running  bool // and has them in each part
	discreet bool // the client does not want the reasoning of a chat
	most     *int // tokens that the client asks for, nil for no number

	session      string      // that headers name, "" for none
	transfer     *kvTransfer // that the answer names, nil for none
	details      details
	promptTokens [][]uint32 // of each question, if the client may want to know them
	promptIDs    []uint32   // that the next part of the answer has, nil for none

	answering bool // there is a token
	counted   tokenMetrics
	now       time.Time // when tokens were last taken
	held      int64
}

// maxTokens bounds the tokens of all answers of a process, which are decided when their requests arrive and take about
// 12 bytes each. maxAnswers bounds the answers to one request.
const (
	maxTokens  = 32 << 20
	maxAnswers = 1024
)

// hold counts tokens until release. If there are too many it returns an error.
func (g *generation) hold(n int64) error {
	if g.held > 0 && g.held+n > maxTokens/4 { // one request is not to take the room of all others
		return badRequest("n", "want at most %d tokens in all answers to one request, and these have more", maxTokens/4)
	}
	if !g.server.tokens.TryAcquire(n) {
		return unavailable("the answers of this process have as many tokens as it can hold")
	}
	g.held += n
	return nil
}

// release gives back all but kept of the tokens that the generation holds.
func (g *generation) release(kept int64) {
	g.server.tokens.Release(g.held - kept)
	g.held = kept
}

// choice is one answer.
type choice struct {
	index    int
	prompt   int // tokens
	lead     string
	answer   answers.Answer // as far as it is known
	call     call
	arriving *arriving // nil for an answer that is decided
	sent     int       // tokens
	seen     int       // of the visible text
	first    time.Time // when its first token was sent, or its end if it has no tokens
	last     time.Time // and the last one
	begun    bool      // the client has got a part
	over     bool      // the client has got all
	calls    []calling // of tools, in which the client has got a part
	told     int       // tokens of which the client has got details
	offset   int       // characters before the next of these tokens
	echoed   []uint32  // the prompt, if it is a part of the text
	silent   bool      // the prompt is all of the text
}

// question is what a client asks of one prompt.
type question struct {
	tokens []uint32
	said   string
	lead   string       // text in front of the answer
	form   conform.Form // of the answer, nil for anything
	tools  *answers.Tools
	// afterResult tells that the client has sent results of calls, the last of which is result.
	afterResult bool
	result      string
}

// newGeneration decides the answers to a request, or prepares to ask for them. most is the number of tokens that the
// client asks for, nil for none; reasoning says whether answers may begin with reasoning.
func (s *Server) newGeneration(ctx context.Context, t target, r *sampling, questions []question, most *int,
	reasoning bool) (*generation, error) {
	g := &generation{
		server: s, target: t, created: time.Now().Unix(), received: receivedAt(ctx), wake: make(chan struct{}, 1),
		session: hintsOf(ctx).session, injected: injectedInto(ctx), most: most, stream: r.Stream,
		usage: r.StreamOptions != nil && r.StreamOptions.IncludeUsage,
	}
	g.running = g.usage && r.StreamOptions.ContinuousUsage
	if err := r.Transfer.check(t.model); err != nil {
		return nil, err
	}
	g.transfer = r.Transfer.offer(s, t, questions)
	if n := len(questions) * r.choices(); n > maxAnswers {
		return nil, badRequest("n", "got %d for %d prompts, want at most %d answers in all", r.choices(),
			len(questions), maxAnswers)
	}
	form, err := r.form.of(t.model)
	if err != nil {
		return nil, err
	}
	for i := range questions {
		q := &questions[i]
		q.form = form
		g.promptTokens = append(g.promptTokens, q.tokens)
		g.prompt += len(q.tokens)
		for range r.choices() {
			c, err := g.newChoice(ctx, r, q, reasoning)
			if err != nil {
				g.release(0)
				return nil, err
			}
			g.choices = append(g.choices, c)
		}
	}
	return g, nil
}

// newChoice makes one answer.
func (g *generation) newChoice(ctx context.Context, r *sampling, q *question, reasoning bool) (*choice, error) {
	m := g.target.model
	room, err := m.room(len(q.tokens), g.most, r.MinTokens)
	if err != nil {
		return nil, err
	}
	c := &choice{index: len(g.choices), prompt: len(q.tokens), lead: q.lead}
	ask := answers.Question{
		Said: q.said, Prompt: q.tokens, Seed: r.seed(), Choice: c.index, Most: room, Limited: g.most != nil,
		Fewest: r.MinTokens, Stop: r.Stop,
		StopTokens: r.StopTokenIDs, IncludeStop: r.IncludeStop, IgnoreEnd: r.IgnoreEOS, Reasoning: reasoning,
		Form:  q.form,
		Tools: q.tools, AfterResult: q.afterResult, Result: q.result,
	}
	if m.Backend != nil {
		return c, g.ask(ctx, c, r, q, &ask)
	}
	return c, g.decide(ctx, c, r, q, &ask)
}

// decide makes the answer of a choice whose tokens simulated engines release.
func (g *generation) decide(ctx context.Context, c *choice, r *sampling, q *question, ask *answers.Question) error {
	m := g.target.model
	before := g.held
	if err := g.hold(int64(m.Answers.AtMost(ask)) + blockTokens(len(q.tokens), m.Args.BlockSize)); err != nil {
		return err
	}
	var err error
	if c.answer, err = m.Answers.Decide(ctx, ask); err != nil {
		return err
	}
	g.release(before + int64(len(c.answer.Tokens)) + blockTokens(len(q.tokens), m.Args.BlockSize))
	all := append(q.tokens[:len(q.tokens):len(q.tokens)], c.answer.Tokens...)
	h := hintsOf(ctx)
	request := cluster.Request{
		Keys:         cluster.Keys(all, m.Args.BlockSize, g.target.adapter.salt+r.CacheSalt),
		PromptTokens: len(q.tokens), OutputTokens: len(c.answer.Tokens), Priority: r.Priority,
		Session: h.session, Tenant: h.tenant, DeadlineMs: h.deadlineMs, Imported: r.Transfer.imports(),
	}
	if m.TellsBlocks {
		request.Tokens = all
	}
	c.call = deployment.NewCall(request, g.wake)
	return nil
}

// blockTokens returns the number of tokens of an answer that take as much memory as the blocks of a prompt.
func blockTokens(prompt, blockSize int) int64 { return int64(prompt / blockSize * 4) }

// room returns the largest number of tokens that an answer may have. most is what the client asks for, nil for no
// bound.
func (m *Model) room(prompt int, most *int, fewest int) (int, error) {
	room := m.MaxLength - prompt
	switch {
	case prompt == 0:
		return 0, badRequest("prompt", "has no tokens, want at least one")
	case room < 1:
		return 0, tooLong("", "This model's maximum context length is %d tokens. However, your prompt has %d tokens. "+
			"Please shorten it.", m.MaxLength, prompt)
	case most != nil && *most > room:
		return 0, tooLong("max_tokens", "This model's maximum context length is %d tokens. However, you requested %d "+
			"tokens (%d in the prompt, %d in the answer).",
			m.MaxLength, prompt+*most, prompt, *most)
	}
	limit := room
	if most != nil {
		limit = *most
	}
	if fewest > limit {
		return 0, badRequest("min_tokens", "got %d, want at most %d, the number of tokens that the answer may have",
			fewest, limit)
	}
	return min(limit, m.Args.Output(prompt, min(limit, math.MaxInt32))), nil
}

// submit begins all calls. It is all or nothing.
func (g *generation) submit() error {
	if limit := g.server.config.MaxQueue; limit > 0 {
		if waiting := g.target.model.waiting(); waiting >= limit {
			return g.server.overloaded(waiting)
		}
	}
	for i, c := range g.choices {
		g.target.adapter.enter(c.call)
		if err := g.begin(c); err != nil {
			g.target.adapter.leave(c.call)
			g.abandon(g.choices[:i])
			return err
		}
	}
	return nil
}

// abandon gives up calls that are not over, which frees their blocks.
func (g *generation) abandon(choices []*choice) {
	for _, c := range choices {
		g.target.adapter.leave(c.call)
		if !c.over {
			c.call.Cancel()
		}
	}
}

// answer serves the request of which the generation was made, streamed or not.
func (g *generation) answer(ctx context.Context, w http.ResponseWriter) error {
	defer g.release(0)
	if err := g.submit(); err != nil {
		return err
	}
	if !g.details.ids {
		g.promptTokens = nil
	}
	holdOf(ctx).release() // the engines know the prompt by its blocks
	defer func() { g.abandon(g.choices) }()
	defer g.server.metrics.enter(g)()
	defer g.server.board.over(g)
	var into output
	if g.stream {
		into = newEventStream(w, g)
	} else {
		into = &document{w: w, g: g}
	}
	if err := g.follow(ctx, into); err != nil {
		return into.fail(err)
	}
	into.finish()
	return nil
}

// output is where the parts of answers go.
type output interface {
	// part takes the tokens from..to-1 of a choice, with which its answer may be complete.
	part(c *choice, from, to int)
	// flush sends what has been taken.
	flush() error
	// fail ends an answer that is on its way with an error; it returns the error if nothing has been sent.
	fail(error) error
	finish()
}

// follow hands on the tokens of all choices as they are released. It returns an error if one of them fails or the
// client goes away.
func (g *generation) follow(ctx context.Context, into output) error {
	gone := ctx.Done()
	for left := len(g.choices); left > 0; {
		select {
		case <-gone:
			return context.Cause(ctx)
		case <-g.wake:
		}
		var due time.Time
		g.now = time.Now()
		for _, c := range g.choices {
			if c.over {
				continue
			}
			failure := c.call.Failure() // before the tokens: none come after it
			known, err := g.known(c)
			known = g.injected.upTo(known, c, g.choices)
			switch {
			case err != nil:
				return err
			case known > c.sent || c.answer.Complete(known):
				due = c.call.DueAt()
				g.take(c, known, into)
				if c.over {
					left--
				}
			case failure != nil:
				return asFailure(failure)
			}
		}
		if left > 0 || g.injected != nil { // else the end is sent together with the last tokens
			if err := into.flush(); err != nil {
				return err
			}
		}
		if !due.IsZero() {
			g.target.model.Latencies.Sent(float64(time.Since(due)) / 1e6)
		}
		if g.injected.breaks(g.choices) {
			panic(http.ErrAbortHandler)
		}
	}
	return nil
}

// take hands on the tokens of a choice up to number known, which may have been sent already if the answer ends only
// now.
func (g *generation) take(c *choice, known int, into output) {
	now := g.now
	if c.sent == 0 {
		c.first = now
	}
	if known > c.sent {
		g.server.metrics.emitted(g, c, known-c.sent, now)
		g.server.board.emitted(known - c.sent)
	}
	into.part(c, c.sent, known)
	c.sent, c.last = known, now
	if c.answer.Complete(known) {
		c.over = true
		if c.arriving != nil { // a stop sequence may have ended it before its worker does
			c.call.Cancel()
		}
		g.server.metrics.finished(g, c, now)
	}
}

func asFailure(f *deployment.Failure) error {
	if f.Shutdown {
		return unavailable("%s", f.Reason)
	}
	if f.Reason == deployment.Refused {
		return tooMany("%s", f.Reason)
	}
	return badRequest("", "%s", f.Reason)
}

// spans returns the reasoning and the text that a choice has with its first to tokens, beyond what the client has seen.
func (c *choice) spans(to int) (reasoning, text string) {
	a := &c.answer
	from, end := c.seen, min(a.End(to), a.Visible)
	if end <= from {
		return "", ""
	}
	c.seen = end
	begins, ends, speech := a.Reasoning()
	return between(a.Text, max(from, begins), min(end, ends)), between(a.Text, max(from, speech), end)
}

func between(text string, from, to int) string {
	if to <= from {
		return ""
	}
	return text[from:to]
}

// usageOf counts the tokens that have been sent.
func (g *generation) usageOf() usage {
	u := usage{PromptTokens: g.prompt}
	cached := 0
	prompts := 0
	for _, c := range g.choices {
		u.CompletionTokens += c.sent
		u.CompletionTokensDetails.ReasoningTokens += min(c.sent, c.answer.Thought)
		cached += c.call.Reused()
		prompts += c.prompt
	}
	if prompts > g.prompt { // several answers to one prompt count it once
		cached = int(int64(cached) * int64(g.prompt) / int64(prompts))
	}
	u.PromptTokensDetails.CachedTokens = cached
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

// usage is the numbers of tokens of an answer.
type usage struct {
	PromptTokens        int `json:"prompt_tokens"`
	TotalTokens         int `json:"total_tokens"`
	CompletionTokens    int `json:"completion_tokens"`
	PromptTokensDetails struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionTokensDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// newID returns the id of an answer: that of the request if the client has given one.
func newID(prefix, given string) string {
	if given != "" {
		return prefix + given
	}
	return prefix + strings.ReplaceAll(uuid.NewString(), "-", "")
}
