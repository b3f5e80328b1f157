package frontend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/google/uuid"

	"dynosim/gocore/live/guard"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/protocol/wire"
)

// attemptSplit has a prefill worker compute the prompt and a decode worker make the answer. If the prefill worker takes part in
// hand-offs, both begin at once and meet there; otherwise the decode worker begins when the prefill worker has ended.
func (a *answering) attemptSplit(ctx context.Context, g *group) error {
	first, err := g.prefill.pick(ctx, a.prompt, a.call.Request.Priority)
	if err != nil {
		return err
	}
	defer first.free()
	id := newID() // of both requests: the workers recognize each other by it
	prefill := a.request(first)
	prefill.StopConditions, prefill.EOSTokenIDs = onlyFirstToken(), nil
	meeting := first.worker.card.RuntimeConfig.DisaggregatedEndpoint
	if meeting == nil {
		params, err := a.compute(ctx, first, id, prefill)
		if err != nil {
			return err
		}
		return a.decode(ctx, g, id, func(r *wire.Request) { r.PrefillResult = &wire.PrefillResult{DisaggregatedParams: params} })
	}
	info := &wire.Bootstrap{Host: meeting.Host, Port: uint16(meeting.Port), Room: room(first), HandoffID: &wire.HandoffID{UUID: uuid.New()}}
	prefill.BootstrapInfo = info
	together, stop := context.WithCancel(ctx)
	defer stop()
	computed := make(chan error, 1)
	a.frontend.running.Go(guard.Func(func() {
		_, err := a.compute(together, first, id, prefill)
		if err != nil {
			stop() // the decode worker would wait for a hand-off that does not come
		}
		computed <- err
	}))
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

// onlyFirstToken ends an answer after the token that shows that the prompt is computed.
func onlyFirstToken() wire.StopConditions {
	one := uint32(1)
	return wire.StopConditions{MaxTokens: &one}
}

// room is a number for a hand-off. Its remainder by the number of ranks is the rank of the prefill worker.
func room(b *booking) uint64 {
	ranks := uint64(max(1, b.worker.card.RuntimeConfig.DataParallelSize))
	if !b.choice.Ranked {
		return rand.Uint64() >> 1
	}
	rank := uint64(b.choice.Rank)
	return rand.Uint64N((1<<63-1-rank)/ranks)*ranks + rank
}

// decode has a decode worker make the answer.
func (a *answering) decode(ctx context.Context, g *group, id string, complete func(*wire.Request)) error {
	b, err := g.answer.pick(ctx, a.prompt, a.call.Request.Priority)
	if err != nil {
		return err
	}
	defer b.free()
	request := a.request(b)
	complete(request)
	return a.ask(ctx, b, id, request)
}

// compute has a prefill worker compute the prompt, and returns what the decode worker has to know. It ends with the hand-off.
func (a *answering) compute(ctx context.Context, b *booking, id string, request *wire.Request) (params string, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	answer, err := a.frontend.sendTo(ctx, b.worker, id, body)
	if err == nil {
		stop := context.AfterFunc(ctx, guard.Func(func() {
			_ = answer.Stop()
			answer.Close()
		}))
		params, err = computed(b, answer)
		stop()
		answer.Close()
	}
	var final *finalError
	if err != nil && ctx.Err() == nil && !errors.As(err, &final) {
		b.failed(errors.Is(err, plane.ErrOverloaded))
		err = fmt.Errorf("prefill %w", err)
	}
	return params, err
}

// computed reads the answer of a prefill worker.
func computed(b *booking, answer *plane.Answer) (params string, err error) {
	for {
		chunk, err := answer.Next()
		switch {
		case errors.Is(err, io.EOF):
			return "", io.ErrUnexpectedEOF
		case err != nil:
			return "", err
		case chunk.Error != "":
			return "", problem(chunk.Error, chunk.Code)
		case chunk.Output == nil:
			continue
		}
		if o := chunk.Output; o.DisaggregatedParams != "" {
			params = o.DisaggregatedParams
		}
		if len(chunk.Output.TokenIDs) > 0 {
			b.tokensCame()
		}
		switch chunk.Output.Finish.Reason {
		case "":
		case wire.FinishError:
			return "", &finalError{chunk.Output.Finish.Error}
		default:
			return params, nil
		}
	}
}
