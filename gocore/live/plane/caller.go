package plane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"dynosim/gocore/guard"
	"dynosim/gocore/protocol/wire"
)

// Caller is the frontend's side of the request plane: it sends requests to workers and takes their answers, for which
// they connect to it. It is safe for concurrent use.
type Caller struct {
	listener net.Listener
	address  string        // under which workers reach the listener
	strange  chan struct{} // an item for each connection that has not said which request it answers

	mu      sync.Mutex
	closed  bool
	streams map[string]chan net.Conn // by subject, until the worker has dialled back
	workers map[string]*link         // by address
}

var (
	// ErrRefused is the error of a request that a worker does not serve.
	ErrRefused = errors.New("refused")
	// ErrOverloaded is the error of a request for which a worker has no room. It is an ErrRefused.
	ErrOverloaded = fmt.Errorf("%w: overloaded", ErrRefused)
	// ErrUnreachable is the error of a request that no worker has got.
	ErrUnreachable = errors.New("the worker cannot be reached")
)

// maxStrangers bounds connections that have not said which request they answer.
const maxStrangers = 1024

// ListenForAnswers listens for answers at an address; workers are asked to connect to host.
func ListenForAnswers(address, host string) (*Caller, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	c := &Caller{
		listener: listener, address: net.JoinHostPort(host, port), strange: make(chan struct{}, maxStrangers),
		streams: map[string]chan net.Conn{}, workers: map[string]*link{},
	}
	go guard.Func(c.accept)()
	return c, nil
}

// Close ends all connections to workers. Answers that are being read go on.
func (c *Caller) Close() {
	_ = c.listener.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, l := range c.workers {
		l.close()
	}
}

func (c *Caller) accept() {
	for {
		conn, err := c.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // for example, no more file descriptors
			time.Sleep(10 * time.Millisecond)
			continue
		}
		select {
		case c.strange <- struct{}{}:
			go guard.Func(func() {
				c.identify(conn)
				<-c.strange
			})()
		default:
			_ = conn.Close()
		}
	}
}

// identify gives a connection to the request that it answers.
func (c *Caller) identify(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(dialTimeout))
	m, err := wire.ReadMessage(conn, signalLimit)
	if err == nil {
		var subject string
		if subject, err = wire.DecodeHandshake(m.Header); err == nil && c.deliver(subject, conn) {
			return
		}
	}
	_ = conn.Close()
}

func (c *Caller) deliver(subject string, conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting, ok := c.streams[subject]
	delete(c.streams, subject)
	if ok {
		_ = conn.SetReadDeadline(time.Time{})
		waiting <- conn
	}
	return ok
}

// Outgoing is a request for a worker.
type Outgoing struct {
	ID    string // a UUID for requests that two workers serve together
	Codec wire.Codec
	Body  []byte
}

// Send sends a request to the endpoint at path of the worker at address, and waits until that accepts it. Refusals are
// an [ErrRefused].
func (c *Caller) Send(ctx context.Context, address, path string, o Outgoing) (*Answer, error) {
	var l *link
	return c.over(ctx, o, func(payload []byte) (gone <-chan struct{}, err error) {
		data, err := wire.AppendFrame(nil,
			wire.Frame{Path: path, Headers: map[string]string{"request-id": o.ID}, Payload: payload})
		if err != nil {
			return nil, err
		}
		var ack string
		if ack, l, err = c.deposit(ctx, address, data); err != nil {
			return nil, err
		}
		return l.gone, refusal(ack)
	})
}

// SendOver does what Send does, with another way to the worker: send carries a request there.
func (c *Caller) SendOver(ctx context.Context, o Outgoing, send func(payload []byte) error) (*Answer, error) {
	return c.over(ctx, o, func(payload []byte) (<-chan struct{}, error) { return nil, send(payload) })
}

// grace is how long a worker that has accepted a request may take to connect after its own connection has ended.
const grace = 5 * time.Second

// over sends a request and waits for the worker to connect. The channel that send returns is closed when the worker may
// have ended.
func (c *Caller) over(ctx context.Context, o Outgoing, send func(payload []byte) (<-chan struct{}, error)) (*Answer,
	error) {
	waiting, subject := make(chan net.Conn, 1), uuid.NewString()
	c.mu.Lock()
	c.streams[subject] = waiting
	c.mu.Unlock()
	defer c.forget(subject, waiting)
	header := wire.EncodeControl(wire.Control{ID: o.ID, Codec: o.Codec, Address: c.address, Subject: subject})
	gone, err := send(wire.AppendMessage(nil, wire.Message{Header: header, Body: o.Body}))
	if err != nil {
		return nil, err
	}
	var expired <-chan time.Time
	for {
		select {
		case conn := <-waiting:
			return readPrologue(ctx, conn, o.Codec)
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-gone:
			gone, expired = nil, time.After(grace)
		case <-expired:
			return nil, errEnded
		}
	}
}

// forget ends waiting for an answer; one that has come meanwhile is not wanted.
func (c *Caller) forget(subject string, waiting <-chan net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.streams, subject)
	select {
	case conn := <-waiting:
		_ = conn.Close()
	default:
	}
}

// readPrologue reads the prologue of an answer.
func readPrologue(ctx context.Context, conn net.Conn, codec wire.Codec) (*Answer, error) {
	stopped := context.AfterFunc(ctx, guard.Func(func() { _ = conn.Close() }))
	defer stopped()
	in := bufio.NewReader(conn)
	m, err := wire.ReadMessage(in, StandardMaxMessageSize)
	if err == nil {
		var reason string
		if reason, err = wire.DecodePrologue(m.Header); err == nil {
			err = refusal(reason)
		}
	}
	if err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return &Answer{source: &dialled{conn, in}, codec: codec}, nil
}

// refusal returns the error of a text with which a worker accepts a request, if it is "", or refuses it.
func refusal(text string) error {
	switch {
	case text == wire.Accepted:
		return nil
	case strings.Contains(text, "Server overloaded:"):
		return fmt.Errorf("%w: %s", ErrOverloaded, text)
	default:
		return fmt.Errorf("%w: %s", ErrRefused, text)
	}
}
