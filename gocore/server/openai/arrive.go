package openai

import (
	"context"
	"strconv"
	"time"

	"dynosim/gocore/server/answers"
	"dynosim/gocore/server/backend"
	"dynosim/gocore/server/deployment"
	"dynosim/gocore/server/tokens"
)

// call is an answer on its way: a *[deployment.Call], whose tokens are known and are released, or a *[backend.Call],
// whose tokens arrive.
type call interface {
	// Failure is why the call has ended without all its tokens, nil if it has not. No tokens come after it.
	Failure() *deployment.Failure
	// Reused is the number of tokens of the prompt that were found in the cache.
	Reused() int
	// AdmittedAt is when the prompt began to be computed; the zero time if it has not, or if that is not known.
	AdmittedAt() time.Time
	// DueAt is when the last of the tokens that may be sent was due.
	DueAt() time.Time
	// Begun reports whether the prompt has begun to be computed.
	Begun() bool
	// Cancel gives the call up. Nothing happens if it is over.
	Cancel()
}

// arriving is what a choice has whose tokens arrive from a backend.
type arriving struct {
	call   *backend.Call
	answer *answers.Arriving
	buffer []uint32
}

// ask makes a choice whose answer a backend makes.
func (g *generation) ask(ctx context.Context, c *choice, r *sampling, q *question, a *answers.Question) error {
	m := g.target.model
	if err := g.hold(int64(len(q.tokens))); err != nil {
		return err
	}
	if !r.IgnoreEOS {
		a.EndTokens = m.EndTokens
	}
	special := r.SkipSpecialTokens != nil && !*r.SkipSpecialTokens
	answer := answers.Arrive(a, func() tokens.Decoder { return m.Tokenizer.Decoder(q.tokens, special) }, m.Marks)
	h := hintsOf(ctx)
	call := backend.NewCall(backend.Request{
		Adapter: g.target.adapter.name, Prompt: q.tokens, CacheSalt: r.CacheSalt, Most: a.Most, Limited: a.Limited,
		Fewest:     a.Fewest,
		StopTokens: r.StopTokenIDs, IgnoreEnd: r.IgnoreEOS, Priority: r.Priority,
		Session: h.session, Tenant: h.tenant, DeadlineMs: h.deadlineMs,
	}, g.wake)
	c.call, c.arriving = call, &arriving{call: call, answer: answer}
	return nil
}

// begin hands a call to what answers it.
func (g *generation) begin(c *choice) error {
	m := g.target.model
	switch call := c.call.(type) {
	case *deployment.Call:
		call.Label = deployment.Label{ID: g.id, Model: g.modelName(), Session: g.session}
		if !m.Deployment.Submit(call) {
			return unavailable("the engines have ended")
		}
	case *backend.Call:
		call.Request.ID = g.id
		if len(g.choices) > 1 {
			call.Request.ID += "-" + strconv.Itoa(c.index)
		}
		if err := m.Backend.Submit(call); err != nil {
			call.Cancel()
			return err
		}
	}
	return nil
}

// waiting returns the number of calls whose prompts have not begun to be computed.
func (m *Model) waiting() int {
	if m.Backend != nil {
		return m.Backend.Waiting()
	}
	return m.Deployment.Waiting()
}

// known returns the number of tokens of a choice that may be sent now.
func (g *generation) known(c *choice) (int, error) {
	a := c.arriving
	if a == nil {
		return c.call.(*deployment.Call).Released(), nil
	}
	var finish string
	a.buffer, finish = a.call.Take(a.buffer[:0])
	if err := g.hold(int64(len(a.buffer))); err != nil {
		return 0, err
	}
	a.answer.Add(a.buffer, finish)
	c.answer = a.answer.Answer
	return len(c.answer.Tokens), nil
}
