package frontend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"dynosim/gocore/frontend/routing"
	"dynosim/gocore/guard"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/protocol/wire"
	"dynosim/gocore/server/backend"
	"dynosim/gocore/server/deployment"
)

// Submit implements [backend.Backend]. Failures are those of the call.
func (m *model) Submit(c *backend.Call) error {
	m.waiting.Add(1)
	m.calls.Add(1)
	a := &answering{model: m, frontend: m.frontend, call: c, prompt: c.Request.Prompt, most: m.most(&c.Request),
		endTokens: m.ends()}
	if c.Request.DeadlineMs > 0 {
		a.deadlineMs = m.frontend.nowMs() + c.Request.DeadlineMs
	}
	m.frontend.running.Go(guard.Func(func() {
		defer m.calls.Add(-1)
		defer a.begun()
		ctx, cancel := context.WithCancel(c.Context())
		defer cancel()
		defer context.AfterFunc(m.frontend.life, guard.Func(cancel))()
		a.run(ctx)
		if ctx.Err() != nil && c.Context().Err() == nil {
			c.Fail(deployment.Failure{Reason: "the server is shutting down", Shutdown: true})
		}
	}))
	return nil
}

// Waiting implements [backend.Backend].
func (m *model) Waiting() int { return int(m.waiting.Load()) }

// most returns the number of tokens that the answer to a request may have.
func (m *model) most(r *backend.Request) int {
	if r.Limited {
		return r.Most
	}
	return min(r.Most, max(m.frontend.config.Standard, r.Fewest))
}

// answering is the way of one call through one or several workers. One goroutine owns it.
type answering struct {
	model      *model
	frontend   *Frontend
	call       *backend.Call
	prompt     []uint32 // with the tokens of earlier attempts
	most       int      // tokens that are still wanted
	got        []uint32 // tokens of the answer
	endTokens  []uint32 // of the model
	deadlineMs float64  // on the clock of the frontend, 0 for none
	complete   atomic.Bool
	migrations int
	failures   int // before any token
	started    bool
}

// begun notes that the call does not wait any more.
func (a *answering) begun() {
	if !a.started {
		a.started = true
		a.model.waiting.Add(-1)
	}
}

// finalError is what is wrong with a request, whichever worker gets it.
type finalError struct{ reason string }

func (e *finalError) Error() string { return e.reason }

// lastError is the failure of a worker after which the request is not tried elsewhere.
type lastError struct{ error }

// Unwrap returns the failure itself.
func (e *lastError) Unwrap() error { return e.error }

// maxFailures is how many attempts may fail before any token; each worker is tried once at least.
const maxFailures = 3

// run makes attempts until the call has ended.
func (a *answering) run(ctx context.Context) {
	for ctx.Err() == nil {
		g := a.model.choose()
		if g == nil {
			a.fail(errNoWorkers)
			return
		}
		before := len(a.got)
		err := a.attempt(ctx, g)
		if err == nil || ctx.Err() != nil {
			return
		}
		var final *finalError
		if errors.As(err, &final) || errors.Is(err, errRefused) ||
			errors.Is(err, errNoWorkers) && a.model.choose() == nil {
			a.fail(err)
			return
		}
		if a.most <= 0 { // only the reason of the end is missing
			a.ended("length")
			return
		}
		if len(a.got) > before || a.frontend.config.Rules != routing.OwnRules {
			a.migrations++
			a.prompt = slices.Concat(a.call.Request.Prompt, a.got)
		} else {
			a.failures++
		}
		a.frontend.config.Log.Debug("an attempt failed", "request", a.call.Request.ID, "tokens", len(a.got), "cause",
			err)
		var last *lastError
		if a.migrations > a.frontend.config.MigrationLimit || errors.As(err, &last) ||
			a.failures > max(maxFailures, g.answer.size()) {
			a.fail(err)
			return
		}
	}
}

// fail ends the call with an error.
func (a *answering) fail(err error) {
	var final *finalError
	switch {
	case errors.As(err, &final):
		a.call.Fail(deployment.Failure{Reason: final.reason})
		return
	case errors.Is(err, errRefused):
		a.call.Fail(deployment.Failure{Reason: errRefused.Error()})
		return
	case errors.Is(err, errNoWorkers):
		err = fmt.Errorf("no worker serves %s now", a.model.name)
	case errors.Is(err, plane.ErrOverloaded):
		err = fmt.Errorf("the workers of %s have as many requests as they accept", a.model.name)
	case errors.Is(err, io.ErrUnexpectedEOF) && len(a.got) > 0:
		err = fmt.Errorf("the worker has broken the answer off after %d tokens, and --migration-limit is %d",
			len(a.got), a.frontend.config.MigrationLimit)
	}
	a.call.Fail(deployment.Failure{Reason: err.Error(), Shutdown: true})
}

// attempt gets the answer, or what is left of it, from a group of workers. A finalError would come from any worker.
func (a *answering) attempt(ctx context.Context, g *group) error {
	if g.prefill != nil {
		return a.attemptSplit(ctx, g)
	}
	b, err := g.answer.pick(ctx, a.routed())
	if err != nil {
		return err
	}
	defer b.free()
	a.call.Routed(b.worker.name(), b.overlap())
	return a.ask(ctx, b, newID(), a.request(b))
}

// routed returns what routers know of the request, whose prompt has the tokens of earlier attempts.
func (a *answering) routed() routing.Request {
	r := &a.call.Request
	return routing.Request{
		Prompt: a.prompt, CacheSalt: r.CacheSalt, Priority: r.Priority, Session: r.Session, Tenant: r.Tenant,
		DeadlineMs: a.deadlineMs,
	}
}

// newID returns how workers know an attempt. It is never what a client says, nor that of an earlier attempt: workers of
// Dynamo end all their requests when two have the same id.
func newID() string { return uuid.NewString() }

// request returns what a worker is asked.
func (a *answering) request(b *booking) *wire.Request {
	r := &a.call.Request
	most, fewest := uint32(min(a.most, math.MaxUint32)), uint32(max(0, r.Fewest-len(a.got)))
	now := float64(time.Now().UnixMicro()) / 1e3
	request := &wire.Request{
		Model: a.model.name, TokenIDs: a.prompt, RequestTimestampMs: &now, EOSTokenIDs: a.endTokens,
		StopConditions: wire.StopConditions{MaxTokens: &most, StopTokenIDs: r.StopTokens, IgnoreEOS: &r.IgnoreEnd},
		Routing:        &wire.Routing{LoRAName: r.Adapter}, CacheSalt: r.CacheSalt,
	}
	if fewest > 0 {
		request.StopConditions.MinTokens = &fewest
	}
	if b.choice.Ranked {
		rank := uint32(b.choice.Rank)
		request.Routing.DPRank = &rank
	}
	return request
}

// ask sends a request to the worker of a booking and hands its answer to the call.
func (a *answering) ask(ctx context.Context, b *booking, id string, request *wire.Request) error {
	return a.exchange(ctx, b, id, request, func(answer *plane.Answer) error { return a.take(b, answer) })
}

// take hands an answer to the call as it comes.
func (a *answering) take(b *booking, answer *plane.Answer) error {
	for {
		o, err := nextOutput(answer)
		if err != nil {
			return err
		}
		if len(o.TokenIDs) > 0 {
			a.arrived(b, o)
		}
		reason, err := ending(o.Finish, b.begun)
		if err != nil {
			return err
		}
		if reason != "" {
			a.ended(reason)
			return nil
		}
	}
}

// ended tells that the answer is complete.
func (a *answering) ended(reason string) {
	a.complete.Store(true)
	a.call.Arrived(nil, reason)
}

// arrived hands on tokens.
func (a *answering) arrived(b *booking, o *wire.Output) {
	if !b.begun {
		b.tokensCame()
		if len(a.got) == 0 {
			reused := min(cachedTokens(b, o), len(a.prompt))
			a.call.Admitted(reused)
			b.worker.load.lookedUp.Add(int64(len(a.prompt)))
			b.worker.load.reused.Add(int64(reused))
		}
		a.begun()
	}
	a.call.Arrived(o.TokenIDs, "")
	a.got = append(a.got, o.TokenIDs...)
	a.most -= len(o.TokenIDs)
}

// cachedTokens returns how much of a prompt the worker has found in its cache: what it says with the first tokens, else
// what the router knows.
func cachedTokens(b *booking, first *wire.Output) int {
	if first.Usage != nil {
		return max(0, first.Usage.Cached)
	}
	return b.choice.CachedBlocks * b.worker.card.KVCacheBlockSize
}
