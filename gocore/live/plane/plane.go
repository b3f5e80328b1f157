package plane

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"dynosim/gocore/guard"
	"dynosim/gocore/protocol/wire"
)

// Call is one request for an endpoint.
type Call struct {
	ID         string
	Codec      wire.Codec
	Body       []byte
	ReceivedAt time.Time

	decoded  func()
	decoding *semaphore.Weighted // nil while there is nothing to give back
	turn     *semaphore.Weighted // for large bodies
}

// Decoding waits until the body may be decoded: large bodies, which then take several times their size, wait for each
// other. An error means that the context has ended.
func (c *Call) Decoding(ctx context.Context) error {
	if len(c.Body) < countedFrom || c.turn == nil {
		return nil
	}
	if err := c.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	c.decoding = c.turn
	return nil
}

// Decoded says that the body is not needed any more, so that its memory does not count any more.
func (c *Call) Decoded() {
	c.Body = nil
	if c.decoding != nil {
		c.decoding.Release(1)
		c.decoding = nil
	}
	if c.decoded != nil {
		c.decoded()
		c.decoded = nil
	}
}

// Reply takes the answer to one call: either Refuse, or Accept and then any number of the others with Finish as the
// last. One goroutine uses it. Nothing is sent before Flush, which Refuse and Finish do themselves; an error means that
// the caller does not read any more.
type Reply interface {
	// Refuse ends the call with the reason why the request is not served.
	Refuse(reason string) error
	// Accept says that the request is served.
	Accept() error
	// Output adds a piece of a generated answer.
	Output(wire.Output)
	// Item adds an answer of another kind, of which the JSON tags say how it is written.
	Item(any)
	// Problem adds the error of a request that has failed after it was accepted.
	Problem(wire.Problem)
	Flush() error
	// Finish says that the answer is complete.
	Finish() error
}

// Handler serves the calls of an endpoint. The context ends when the caller stops the request or disconnects; then
// nothing need be sent any more. If a handler returns without Refuse or Finish, the stream breaks off, and a frontend
// tries another worker.
type Handler interface {
	Serve(context.Context, *Call, Reply)
}

// Config describes the plane of a process.
type Config struct {
	Limits         Limits
	MaxMessageSize int // of requests, in bytes
	Log            *slog.Logger
	Metrics        *Metrics
}

// StandardMaxMessageSize is the default of MaxMessageSize.
const StandardMaxMessageSize = 32 << 20

// bounds limit the time and the connections of peers.
type bounds struct {
	connections int           // that bring requests
	frame       time.Duration // from the first byte of a frame to its last
	ack         time.Duration // to read an acknowledgement
	write       time.Duration // to read what is there of an answer
	end         time.Duration // to close a stream that is complete
	lingering   int           // streams that are complete, besides those that are not
}

var standardBounds = bounds{
	connections: maxConnections, frame: frameTimeout, ack: ackTimeout, write: writeTimeout, end: closeTimeout,
	lingering: 1024,
}

// Plane is what the workers of a process share.
type Plane struct {
	config  Config
	limiter *limiter
	budget  budget
	bounds  bounds
	streams *streams

	mu        sync.RWMutex
	endpoints map[string]endpoint
}

type endpoint struct {
	handler Handler
	metrics *endpointMetrics
}

// New returns a plane without endpoints that does not listen yet.
func New(config Config) *Plane {
	p := &Plane{
		config:    config,
		limiter:   newLimiter(config.Limits, func(d time.Duration) { config.Metrics.permitWait.Observe(d.Seconds()) }),
		budget:    newBudget(config.MaxMessageSize),
		bounds:    standardBounds,
		streams:   newStreams(),
		endpoints: map[string]endpoint{},
	}
	config.Metrics.observe(p.limiter)
	return p
}

// Register serves a path, INSTANCE/ENDPOINT. The labels are those of the metrics.
func (p *Plane) Register(path string, labels Labels, h Handler) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endpoints[path] = endpoint{handler: h, metrics: p.config.Metrics.endpoint(labels)}
}

// Unregister ends what Register began; requests that have been accepted go on.
func (p *Plane) Unregister(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.endpoints, path)
}

// Wait returns when all accepted requests are over, or the context ends.
func (p *Plane) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go guard.Func(func() {
		p.limiter.wait()
		close(done)
	})()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close closes the connections to all frontends, also those on which the answer is complete.
func (p *Plane) Close() { p.streams.close() }

// InFlight returns the number of requests that are being served or wait for their turn.
func (p *Plane) InFlight() int {
	active, queued := p.limiter.load()
	return active + queued
}

func (p *Plane) lookup(path string) (endpoint, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	e, ok := p.endpoints[path]
	return e, ok
}

// submit runs do when the limits allow it; see limiter.submit.
func (p *Plane) submit(do func()) bool {
	ok := p.limiter.submit(do)
	if !ok {
		p.config.Metrics.rejected.Inc()
	}
	return ok
}

// serve calls a handler, whose panic fails only this call.
func (p *Plane) serve(ctx context.Context, e endpoint, call *Call, reply Reply) {
	defer call.Decoded()
	defer func() {
		if cause := recover(); cause != nil {
			p.config.Log.Error("a request handler failed", "request", call.ID, "cause", cause, "stack",
				string(debug.Stack()))
			e.metrics.failed(handlerFailed)
			if reply.Refuse(fmt.Sprintf("internal: %v", cause)) != nil {
				return
			}
		}
	}()
	call.turn = p.budget.decoding
	e.metrics.begin(len(call.Body))
	defer e.metrics.end(call.ReceivedAt)
	e.handler.Serve(ctx, call, reply)
}
