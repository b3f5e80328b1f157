package frontend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"dynosim/gocore/frontend/routing"
	"dynosim/gocore/guard"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/protocol/discovery"
	"dynosim/gocore/protocol/wire"
)

// exchange sends a request to the worker of a booking and reads its answer, which is stopped when ctx ends. A worker
// that fails is avoided for a while.
func (a *answering) exchange(ctx context.Context, b *booking, id string, request *wire.Request,
	read func(*plane.Answer) error) error {
	body, err := wire.EncodeRequest(wire.JSON, *request)
	if err != nil {
		return err
	}
	if !b.listed() {
		return fmt.Errorf("worker %s: %w", discovery.Hex(b.worker.key.id), errUnlisted)
	}
	how := routing.Refused
	answer, err := a.frontend.sendTo(ctx, b.worker, id, body)
	if err == nil {
		how = routing.Broken
		stop := context.AfterFunc(ctx, guard.Func(func() {
			_ = answer.Stop()
			answer.Close()
		}))
		err = read(answer)
		stop()
		answer.Close()
	}
	var final *finalError
	if err != nil && ctx.Err() == nil && !errors.As(err, &final) {
		overloaded := errors.Is(err, plane.ErrOverloaded)
		b.failed(overloaded, how)
		if c := &a.frontend.config; !overloaded && !c.Rules.MayGoOn(c.Mode, how) {
			err = &lastError{err}
		}
		err = fmt.Errorf("worker %s: %w", discovery.Hex(b.worker.key.id), err)
	}
	return err
}

// nextOutput returns the next piece of an answer. An answer that ends without a reason is an io.ErrUnexpectedEOF.
func nextOutput(answer *plane.Answer) (*wire.Output, error) {
	for {
		chunk, err := answer.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case chunk.Error != "":
			return nil, problem(chunk.Error, chunk.Code)
		case chunk.Output != nil:
			return chunk.Output, nil
		}
	}
}

// rejected begins the error of an engine that can never serve a request, for example because its pool is too small for
// the prompt.
const rejected = "request rejected"

// ending returns the reason for which an answer ends with a piece, in the words of OpenAI's API, and "" if it goes on.
// begun tells that there were tokens before.
func ending(f wire.Finish, begun bool) (reason string, err error) {
	switch f.Reason {
	case "":
		return "", nil
	case wire.FinishLength:
		return "length", nil
	case wire.FinishStop, wire.FinishEOS:
		return "stop", nil
	case wire.FinishError:
		if !begun && strings.HasPrefix(f.Error, rejected) {
			return "", &finalError{f.Error}
		}
		return "", errors.New(f.Error)
	default:
		return "", fmt.Errorf("the worker has ended the answer: %s", f.Reason)
	}
}

// problem returns the error that a worker has put into an answer. Code 0 says nothing about its kind.
func problem(text string, code int) error {
	switch {
	case code >= 400 && code < 500:
		return &finalError{text}
	case code == http.StatusServiceUnavailable || code == overloadedCode:
		return fmt.Errorf("%w: %s", plane.ErrOverloaded, text)
	default:
		return errors.New(text)
	}
}

// overloadedCode is the HTTP status with which Dynamo turns away what is too much.
const overloadedCode = 529
