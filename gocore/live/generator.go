package live

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/live/wire"
)

// generator answers requests to generate; it implements [plane.Handler].
type generator struct {
	args    *engineargs.Args
	outputs *outputs
	ranks   []*rank
	metrics []*requestMetrics // of each rank
	seed    uint64            // of this worker
	drawn   atomic.Uint64     // answers so far
	turn    atomic.Uint64     // of requests that are for no particular rank
}

// Serve implements [plane.Handler].
func (g *generator) Serve(ctx context.Context, call *plane.Call, reply plane.Reply) {
	request, err := wire.DecodeRequest(call.Codec, call.Body)
	if err != nil {
		fail(reply, err.Error())
		return
	}
	call.Decoded()
	dpRank, err := g.rank(&request)
	if err != nil {
		fail(reply, err.Error())
		return
	}
	if reason := g.outputs.check(&request, g.args); reason != "" {
		fail(reply, reason)
		return
	}
	rng := rand.New(rand.NewPCG(g.seed, g.drawn.Add(1)))
	q := newRequest(request.TokenIDs, g.outputs.decide(&request, rng))
	if !g.ranks[dpRank].submit(q) {
		_ = reply.Refuse("the worker is shutting down")
		return
	}
	s := &sending{request: q, reply: reply, rank: g.ranks[dpRank], metrics: g.metrics[dpRank], received: call.ReceivedAt}
	if err := reply.Accept(); err != nil || !s.run(ctx) {
		g.ranks[dpRank].cancel(q)
	}
}

// fail answers a request that is itself at fault. To a frontend a refusal says that something is wrong with the worker, which
// it then does not use for some seconds; so the request is accepted first.
func fail(reply plane.Reply, reason string) {
	if reply.Accept() == nil {
		reply.Problem(badRequest(reason))
		_ = reply.Finish()
	}
}

func badRequest(reason string) wire.Problem {
	return wire.Problem{Message: reason, Type: "Bad Request", Code: http.StatusBadRequest}
}

// rank is where a request goes: where its router wants it, else everybody in turn.
func (g *generator) rank(request *wire.Request) (int, error) {
	size := len(g.ranks)
	switch {
	case request.BootstrapInfo != nil:
		return 0, fmt.Errorf("bootstrap_info: this worker is aggregated, it takes no prompts from others")
	case request.Routing == nil || request.Routing.DPRank == nil:
		return int((g.turn.Add(1) - 1) % uint64(size)), nil
	case int64(*request.Routing.DPRank) >= int64(size):
		return 0, fmt.Errorf("dp_rank %d is out of bounds for dp_size %d", *request.Routing.DPRank, size)
	default:
		return int(*request.Routing.DPRank), nil
	}
}

// sending is the way of an answer to its client.
type sending struct {
	request  *request
	reply    plane.Reply
	rank     *rank
	metrics  *requestMetrics
	received time.Time
	last     time.Time // when the last tokens were sent
	sent     int
}

// run sends tokens as they are released, until the end. It reports false if the client has gone before that.
func (s *sending) run(ctx context.Context) bool {
	q := s.request
	for {
		select {
		case <-ctx.Done():
			return false
		case <-q.wake:
		}
		failure := q.failure.Load() // before the tokens: none come after it
		if released := int(q.released.Load()); released > s.sent {
			s.send(q.output.tokens[s.sent:released])
		}
		switch {
		case s.sent == len(q.output.tokens):
			s.reply.Output(wire.Output{Finish: wire.Finish{Reason: q.output.finish}})
			s.metrics.finished(s.received)
			return s.reply.Finish() == nil
		case failure != nil && failure.elsewhere:
			return true // without an end, so that the frontend tries another worker
		case failure != nil:
			s.reply.Problem(badRequest(failure.reason))
			return s.reply.Finish() == nil
		}
		if s.reply.Flush() != nil {
			return false
		}
		s.metrics.delay.Observe((s.rank.nowMs() - math.Float64frombits(q.dueMs.Load())) / 1000)
	}
}

// send writes a chunk for each token.
func (s *sending) send(tokens []uint32) {
	now := time.Now()
	for i := range tokens {
		s.reply.Output(wire.Output{TokenIDs: tokens[i : i+1]})
	}
	s.metrics.tokens(s.sent, len(tokens), s.received, s.last, now)
	s.sent += len(tokens)
	s.last = now
}
