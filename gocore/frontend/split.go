package frontend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"dynosim/gocore/guard"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/protocol/wire"
)

// attemptSplit gets the prompt computed by a prefill worker, and the answer from a decode worker. If the prefill worker
// takes part in hand-offs, both begin at once and meet there; otherwise the decode worker begins when the prefill
// worker has ended.
func (a *answering) attemptSplit(ctx context.Context, g *group) error {
	first, err := g.prefill.pick(ctx, a.routed())
	if err != nil {
		return err
	}
	a.call.Routed(first.worker.name(), first.overlap())
	id := newID() // of both requests: the workers recognize each other by it
	prefill := a.request(first)
	prefill.StopConditions, prefill.EOSTokenIDs = onlyFirstToken(), nil
	meeting := first.worker.card.RuntimeConfig.DisaggregatedEndpoint
	if meeting == nil {
		params, err := a.compute(ctx, first, id, prefill)
		first.free()
		if err != nil {
			return err
		}
		return a.decode(ctx, g, id,
			func(r *wire.Request) { r.PrefillResult = &wire.PrefillResult{DisaggregatedParams: params} })
	}
	info := &wire.Bootstrap{Host: meeting.Host, Port: uint16(meeting.Port), Room: room(first),
		HandoffID: &wire.HandoffID{UUID: uuid.New()}}
	prefill.BootstrapInfo = info
	together, stop := context.WithCancel(ctx)
	defer stop()
	computed := a.computeBeside(together, stop, first, id, prefill)
	err = a.decode(together, g, id, func(r *wire.Request) { r.BootstrapInfo = info })
	if err == nil || ctx.Err() != nil {
		return err
	}
	failed := together.Err() != nil
	stop()
	if prefillErr := <-computed; failed && prefillErr != nil {
		return prefillErr
	}
	return err
}

// handoffGrace is how long a prefill worker may take to end its part when the answer is complete.
const handoffGrace = 10 * time.Second

// computeBeside gets the prompt computed by a prefill worker in another goroutine, until its error is there. If it
// fails it calls stop: the decode worker would wait for a hand-off that does not come. When ctx ends, so does the
// prefill worker's part, but after a complete answer it may end by itself.
func (a *answering) computeBeside(ctx context.Context, stop func(), b *booking, id string,
	request *wire.Request) <-chan error {
	computed := make(chan error, 1)
	own, stopOwn := context.WithCancel(context.WithoutCancel(ctx))
	unlink := context.AfterFunc(ctx, guard.Func(func() {
		if a.complete.Load() {
			time.AfterFunc(handoffGrace, guard.Func(stopOwn))
			return
		}
		stopOwn()
	}))
	ended := context.AfterFunc(a.frontend.life, guard.Func(stopOwn))
	a.frontend.running.Go(guard.Func(func() {
		defer stopOwn()
		defer unlink()
		defer ended()
		defer b.free()
		_, err := a.compute(own, b, id, request)
		if err != nil {
			stop()
		}
		computed <- err
	}))
	return computed
}

// onlyFirstToken ends an answer after the token that shows that the prompt is computed.
func onlyFirstToken() wire.StopConditions {
	one := uint32(1)
	return wire.StopConditions{MaxTokens: &one}
}

// room returns a number for a hand-off. Its remainder by the number of ranks is the rank of the prefill worker.
func room(b *booking) uint64 {
	ranks := uint64(max(1, b.worker.card.RuntimeConfig.DataParallelSize))
	if !b.choice.Ranked {
		return rand.Uint64() >> 1
	}
	rank := uint64(b.choice.Rank)
	return rand.Uint64N((1<<63-1-rank)/ranks)*ranks + rank
}

// decode gets the answer from a decode worker.
func (a *answering) decode(ctx context.Context, g *group, id string, complete func(*wire.Request)) error {
	b, err := g.answer.pick(ctx, a.routed())
	if err != nil {
		return err
	}
	defer b.free()
	a.call.Routed(b.worker.name(), b.overlap())
	request := a.request(b)
	complete(request)
	return a.ask(ctx, b, id, request)
}

// compute gets the prompt computed by a prefill worker, and returns what the decode worker has to know. It ends with
// the hand-off.
func (a *answering) compute(ctx context.Context, b *booking, id string, request *wire.Request) (params string,
	err error) {
	err = a.exchange(ctx, b, id, request, func(answer *plane.Answer) (err error) {
		params, err = computed(b, answer)
		return err
	})
	var final *finalError
	if err != nil && ctx.Err() == nil && !errors.As(err, &final) {
		err = fmt.Errorf("prefill %w", err)
	}
	return params, err
}

// computed reads the answer of a prefill worker.
func computed(b *booking, answer *plane.Answer) (params string, err error) {
	for {
		o, err := nextOutput(answer)
		if err != nil {
			return "", err
		}
		if o.DisaggregatedParams != "" {
			params = o.DisaggregatedParams
		}
		if len(o.TokenIDs) > 0 {
			b.tokensCame()
		}
		reason, err := ending(o.Finish, b.begun)
		if err != nil {
			return "", err
		}
		if reason != "" {
			return params, nil
		}
	}
}
