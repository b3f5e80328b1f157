package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/enginemetrics"
	"dynosim/gocore/guard"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/live/rendezvous"
	"dynosim/gocore/protocol/wire"
)

// generator answers requests to generate; it implements [plane.Handler].
type generator struct {
	args     *engineargs.Args
	handoffs *handoffs
	log      *slog.Logger
	outputs  *outputs
	tokens   tokens
	runners  []*runner     // one for each rank, or one for all
	seed     uint64        // of this worker
	drawn    atomic.Uint64 // answers so far
	turn     atomic.Uint64 // of requests that are for no particular rank
}

// Serve implements [plane.Handler].
func (g *generator) Serve(ctx context.Context, call *plane.Call, reply plane.Reply) {
	if call.Decoding(ctx) != nil {
		return
	}
	request, err := wire.DecodeRequest(call.Codec, call.Body)
	call.Decoded()
	if err != nil {
		fail(reply, err.Error())
		return
	}
	dpRank, err := g.rank(&request)
	if err != nil {
		fail(reply, err.Error())
		return
	}
	if info := request.BootstrapInfo; info != nil {
		if reason := g.handoffs.check(info); reason != "" {
			fail(reply, reason)
			return
		}
	}
	if g.args.Role == engine.Prefill {
		onlyPrefill(&request)
	}
	if reason := g.outputs.check(&request, g.args); reason != "" {
		fail(reply, reason)
		return
	}
	size := len(request.TokenIDs) + g.outputs.length(&request)
	if !g.tokens.take(size, reply) {
		return
	}
	defer g.tokens.free(size)
	rng := rand.New(rand.NewPCG(g.seed, g.drawn.Add(1)))
	q := newRequest(request.TokenIDs, g.outputs.decide(&request, rng))
	q.salt, q.onRank = request.CacheSalt, dpRank+1
	r := g.runnerOf(dpRank)
	s := &sending{request: q, reply: reply, runner: r, received: call.ReceivedAt}
	if g.args.Role == engine.Prefill {
		s.params = "dummy" // the decode worker does not look at it
	}
	if request.BootstrapInfo != nil {
		g.handOver(ctx, call.ID, &request, dpRank, s)
		return
	}
	s.delay = g.transferTime(&request)
	if !r.submit(q) {
		_ = reply.Refuse(shuttingDown)
		return
	}
	if err := reply.Accept(); err != nil || !s.run(ctx) {
		r.cancel(q)
	}
}

// onlyPrefill reduces a request to the part of a prefill worker: the prompt, and one token that marks its end.
func onlyPrefill(request *wire.Request) {
	one := uint32(1)
	request.StopConditions = wire.StopConditions{MaxTokens: &one}
	request.EOSTokenIDs, request.Annotations = nil, nil
}

// transferTime returns how long a prefill worker takes to send the KV of a prompt if no hand-off waits for it.
func (g *generator) transferTime(request *wire.Request) time.Duration {
	if g.args.Role != engine.Prefill {
		return 0
	}
	prompt := len(request.TokenIDs)
	return time.Duration(min(g.handoffs.transfer.DelayMs(prompt, prompt)*1e6, math.MaxInt64/2))
}

// handOver serves a request together with another worker. It returns when the answer has been sent and the hand-off is
// over.
func (g *generator) handOver(ctx context.Context, callID string, request *wire.Request, dpRank int, s *sending) {
	handoffCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	info, id := request.BootstrapInfo, identify(request.BootstrapInfo, callID)
	over := make(chan error, 1)
	s.handoff = over
	go guard.Func(func() {
		over <- g.handoffs.run(handoffCtx, info, id, dpRank, len(request.TokenIDs),
			handoffPart{s.runner, s.request})
	})()
	served := s.reply.Accept() == nil && s.run(ctx)
	if s.handoff != nil {
		cancel(errClientGone)
		s.handoffErr = <-over
	}
	if err := s.handoffErr; err != nil && !errors.Is(err, errClientGone) {
		g.log.Warn("a hand-off failed", "handoff", id.HandoffID, "request", id.RequestID, "cause", err)
	}
	if !served && s.handoffErr == nil {
		s.runner.cancel(s.request)
	}
}

// fail answers a request that cannot be served by any worker. A frontend takes a refusal for a fault of the worker,
// which it then does not use for some seconds; so the request is accepted before it fails.
func fail(reply plane.Reply, reason string) {
	if reply.Accept() == nil {
		reply.Problem(badRequest(reason))
		_ = reply.Finish()
	}
}

func badRequest(reason string) wire.Problem {
	return wire.Problem{Message: reason, Type: "Bad Request", Code: http.StatusBadRequest}
}

// unchosen is the rank of a request for which the engine chooses one.
const unchosen = -1

// rank chooses the rank for a request: the one that its router has chosen, else the ranks in turn, or unchosen if they
// run their passes together.
func (g *generator) rank(request *wire.Request) (int, error) {
	size := g.args.Live.Ranks
	switch {
	case (request.Routing == nil || request.Routing.DPRank == nil) && size > len(g.runners):
		return unchosen, nil
	case request.Routing == nil || request.Routing.DPRank == nil:
		return int((g.turn.Add(1) - 1) % uint64(size)), nil
	case int64(*request.Routing.DPRank) >= int64(size):
		return 0, fmt.Errorf("dp_rank %d is out of bounds for dp_size %d", *request.Routing.DPRank, size)
	default:
		return int(*request.Routing.DPRank), nil
	}
}

// runnerOf returns the runner of a rank.
func (g *generator) runnerOf(dpRank int) *runner {
	if len(g.runners) == 1 {
		return g.runners[0]
	}
	return g.runners[dpRank]
}

// sending is the sending of one answer to its client.
type sending struct {
	request  *request
	reply    plane.Reply
	runner   *runner
	received time.Time
	last     time.Time // when the last tokens were sent
	sent     int
	params   string        // disaggregated_params of each token
	delay    time.Duration // between the last token and the end

	handoff    <-chan error // of its end, nil if there is none or it has ended
	handoffErr error
}

// run sends tokens as they are released, until the end, which does not come before that of a hand-off. It reports false
// if the client disconnects before that.
func (s *sending) run(ctx context.Context) bool {
	q := s.request
	for {
		select {
		case <-ctx.Done():
			return false
		case <-q.wake:
		case s.handoffErr = <-s.handoff:
			s.handoff = nil
		}
		failure := q.failure.Load() // before the tokens: none come after it
		if released := int(q.released.Load()); released > s.sent {
			s.send(q.output.tokens[s.sent:released])
		}
		switch {
		case s.sent == len(q.output.tokens) && s.handoff == nil && s.handoffErr == nil:
			if !s.wait(ctx) {
				return false
			}
			s.reply.Output(wire.Output{Finish: wire.Finish{Reason: q.output.finish}, Usage: s.usage(s.sent)})
			s.metrics().Finished(s.received)
			return s.reply.Finish() == nil
		case failure != nil && failure.elsewhere:
			return true // without an end, so that the frontend tries another worker
		case failure != nil:
			s.reply.Problem(badRequest(failure.reason))
			return s.reply.Finish() == nil
		case s.handoffErr != nil:
			return s.giveUp()
		}
		if s.reply.Flush() != nil {
			return false
		}
		s.metrics().Sent(s.runner.nowMs() - math.Float64frombits(q.dueMs.Load()))
	}
}

// metrics returns those of the rank of the request, nil if they are not kept, or the engine does not have it yet.
func (s *sending) metrics() *enginemetrics.RequestMetrics {
	if k := s.request.rank.Load(); k != nil {
		return k.metrics
	}
	return nil
}

// wait waits for the duration of a transfer. It reports false if the client disconnects before that.
func (s *sending) wait(ctx context.Context) bool {
	if s.delay <= 0 {
		return true
	}
	if s.reply.Flush() != nil {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(s.delay):
		return true
	}
}

// giveUp ends an answer whose hand-off has failed. The client gets an error only if this worker has too many hand-offs;
// otherwise the answer breaks off, so that the frontend tries other workers.
func (s *sending) giveUp() bool {
	var limit *rendezvous.LimitError
	if !errors.As(s.handoffErr, &limit) {
		return true
	}
	s.reply.Problem(wire.Problem{Message: limit.Error(), Type: "Overloaded", Code: 529})
	return s.reply.Finish() == nil
}

// send writes a chunk for each token.
func (s *sending) send(tokens []uint32) {
	now := time.Now()
	for i := range tokens {
		o := wire.Output{TokenIDs: tokens[i : i+1], DisaggregatedParams: s.params}
		if s.sent+i == 0 {
			o.Usage = s.usage(1)
		}
		s.reply.Output(o)
	}
	s.metrics().Tokens(s.sent, len(tokens), s.received, s.last, now)
	s.sent += len(tokens)
	s.last = now
}

// usage returns what the request has taken when its client has n tokens.
func (s *sending) usage(n int) *wire.Usage {
	return &wire.Usage{Prompt: s.request.promptTokens, Completion: n, Cached: int(s.request.cached.Load())}
}
