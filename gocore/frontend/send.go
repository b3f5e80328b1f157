package frontend

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"dynosim/gocore/guard"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/protocol/wire"
)

// newClient makes the client for workers that take requests as plain HTTP.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024, IdleConnTimeout: 90 * time.Second,
		DisableCompression: true}}
}

// reachable reports whether a transport is of a kind that requests can be sent over.
func reachable(transport map[string]string) bool {
	return transport["tcp"] != "" || transport["nats_tcp"] != "" || transport["http"] != ""
}

// subjectTimeout is how long a worker may take to acknowledge a request that came over NATS.
const subjectTimeout = 5 * time.Second

// send sends a request over the plane that a record names, and waits until the worker accepts it.
func (f *Frontend) send(ctx context.Context, transport map[string]string, id string, body []byte) (*plane.Answer,
	error) {
	out := plane.Outgoing{ID: id, Codec: wire.JSON, Body: body}
	if target := transport["tcp"]; target != "" {
		address, path, found := strings.Cut(target, "/")
		if !found {
			return nil, fmt.Errorf("%w: transport tcp: got %q, want HOST:PORT/INSTANCE/ENDPOINT", plane.ErrUnreachable,
				target)
		}
		return f.config.Caller.Send(ctx, address, path, out)
	}
	if url := transport["http"]; url != "" {
		return plane.PostHTTP(ctx, f.client, url, out)
	}
	nats, err := f.connectedBus()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", plane.ErrUnreachable, err)
	}
	return f.config.Caller.SendOver(ctx, out, func(payload []byte) error {
		patience, cancel := context.WithTimeout(ctx, subjectTimeout)
		defer cancel()
		if err := nats.Request(patience, transport["nats_tcp"], payload); err != nil {
			return fmt.Errorf("%w: %w", plane.ErrUnreachable, err)
		}
		return nil
	})
}

// goneGrace is how long a worker whose record has gone may take to accept a request that it has been sent.
const goneGrace = 10 * time.Second

// sendTo sends a request to a worker. It gives up a worker that accepts nothing after its record has gone.
func (f *Frontend) sendTo(ctx context.Context, w *worker, id string, body []byte) (*plane.Answer, error) {
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	accepted := make(chan struct{})
	defer close(accepted)
	f.running.Go(guard.Func(func() {
		select {
		case <-accepted:
			return
		case <-w.gone:
		}
		select {
		case <-accepted:
		case <-time.After(goneGrace):
			stop(errGone)
		}
	}))
	answer, err := f.send(waiting, w.transport, id, body)
	if err != nil && ctx.Err() == nil && context.Cause(waiting) == errGone {
		err = fmt.Errorf("%w: %w", plane.ErrUnreachable, errGone)
	}
	return answer, err
}
