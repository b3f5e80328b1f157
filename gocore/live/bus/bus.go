package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dynosim/gocore/guard"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

const (
	connectTimeout = 3 * time.Second
	retryDelay     = 100 * time.Millisecond // between attempts to reach a server that has gone
	pingInterval   = 5 * time.Second        // a server counts as gone after the second unanswered ping
	flushTimeout   = time.Second            // to send what is left at the end
)

// queueLimit is how many messages may wait to be sent: those of engines must not wait for the network.
const queueLimit = 1 << 16

// Conn is a connection to a server. It is safe for concurrent use.
type Conn struct {
	nats *nats.Conn
	log  *slog.Logger
	lost atomic.Uint64 // messages that found no room

	outgoing chan message
	stop     chan struct{}
	running  sync.WaitGroup // goroutines that send
}

type message struct {
	subject string
	data    []byte
}

// Connect connects to the first server that answers. It fails soon if none does.
func Connect(c Config, log *slog.Logger) (*Conn, error) {
	b := &Conn{log: log, outgoing: make(chan message, queueLimit), stop: make(chan struct{})}
	options, err := c.login()
	if err != nil {
		return nil, fmt.Errorf("NATS: %w", err)
	}
	b.nats, err = nats.Connect(strings.Join(c.Servers, ","), append(options,
		nats.Name("dynamo.mocker"), nats.Timeout(connectTimeout),
		nats.MaxReconnects(-1), nats.ReconnectWait(retryDelay), nats.ReconnectJitter(retryDelay/2, retryDelay/2),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(1), nats.FlusherTimeout(2*pingInterval),
		nats.IgnoreAuthErrorAbort(), // a server may come back without its accounts at first
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { guard.Func(func() { b.report(err) })() }),
		nats.ReconnectHandler(func(n *nats.Conn) {
			log.Info("NATS answers again", "server", n.ConnectedUrlRedacted(), "messages_lost", b.Lost())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription,
			err error) {
			guard.Func(func() { b.warn(s, err) })()
		}),
	)...)
	switch {
	case err == nil:
		b.running.Go(guard.Func(b.send))
		return b, nil
	case errors.Is(err, nats.ErrAuthorization):
		return nil, fmt.Errorf("NATS at %s: %w; set NATS_AUTH_USERNAME and NATS_AUTH_PASSWORD, NATS_AUTH_TOKEN, "+
			"NATS_AUTH_NKEY or NATS_AUTH_CREDENTIALS_FILE", &c, err)
	default:
		return nil, fmt.Errorf("NATS at %s: %w; start nats-server there, or name another server with NATS_SERVER", &c,
			err)
	}
}

func (c *Conn) report(err error) {
	if err != nil { // without an error, it was closed here
		c.log.Warn("NATS does not answer; neither requests nor events pass until it is back", "cause", err)
	}
}

func (c *Conn) warn(s *nats.Subscription, err error) {
	subject := ""
	if s != nil {
		subject = s.Subject
	}
	c.log.Warn("NATS", "subject", subject, "cause", err)
}

// Service describes an endpoint for tools that list the services of a NATS server.
type Service struct {
	Name, Version, Description string
	Endpoint                   string
}

// queueGroup is the NATS queue group, which shares the requests for a subject among its members. Here each subject has
// one.
const queueGroup = "q"

// Serve calls handle with every request for a subject, one at a time, so handle should not take long. The sender of the
// request waits until acknowledge is called. When Serve or stop returns, the server knows of the subscription or of its
// end.
func (c *Conn) Serve(subject string, s Service, handle func(payload []byte, acknowledge func())) (stop func(),
	err error) {
	service, err := micro.AddService(c.nats, micro.Config{
		Name: s.Name, Version: s.Version, Description: s.Description, QueueGroup: queueGroup,
		ErrorHandler: func(_ micro.Service,
			err *micro.NATSError) {
			c.log.Warn("NATS", "subject", subject, "cause", err)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("NATS subject %s: %w", subject, err)
	}
	stop = func() {
		_ = service.Stop() // fails only if the connection has ended
		if c.nats.IsConnected() {
			_ = c.nats.FlushTimeout(flushTimeout)
		}
	}
	err = service.AddEndpoint(s.Endpoint, micro.HandlerFunc(func(r micro.Request) {
		handle(r.Data(), func() { _ = r.Respond(nil) })
	}), micro.WithEndpointSubject(subject))
	if err == nil {
		err = c.nats.Flush()
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("NATS subject %s: %w", subject, err)
	}
	return stop, nil
}

// Subscribe calls handle with every message on a subject, one at a time, until stop is called. The subscription is
// there when it returns, and comes back with the server.
func (c *Conn) Subscribe(subject string, handle func(data []byte)) (stop func(), err error) {
	s, err := c.nats.Subscribe(subject, func(m *nats.Msg) { guard.Func(func() { handle(m.Data) })() })
	if err == nil {
		if err = c.nats.FlushTimeout(connectTimeout); err != nil {
			_ = s.Unsubscribe() // it would come back with the server
		}
	}
	if err != nil {
		return nil, fmt.Errorf("NATS subject %s: %w", subject, err)
	}
	return func() { _ = s.Unsubscribe() }, nil
}

// Request sends a message and waits until the receiver acknowledges it.
func (c *Conn) Request(ctx context.Context, subject string, data []byte) error {
	_, err := c.nats.RequestWithContext(ctx, subject, data)
	return err
}

// Publish sends a message to the subscribers of a subject. It never waits: messages queue up, also while the server is
// away, and those that do not fit the queue are lost.
func (c *Conn) Publish(subject string, data []byte) {
	select {
	case c.outgoing <- message{subject, data}:
	default:
		c.lost.Add(1)
	}
}

// send sends what was published, and when the connection closes what is left of it.
func (c *Conn) send() {
	for {
		select {
		case m := <-c.outgoing:
			c.sendOne(m)
			continue
		case <-c.stop:
		}
		for {
			select {
			case m := <-c.outgoing:
				c.sendOne(m)
			default:
				return
			}
		}
	}
}

func (c *Conn) sendOne(m message) {
	err := c.nats.Publish(m.subject, m.data)
	if err == nil {
		return
	}
	c.lost.Add(1)
	if !errors.Is(err, nats.ErrReconnectBufExceeded) { // the connection counts these
		c.log.Warn("NATS: a message is lost", "subject", m.subject, "bytes", len(m.data), "cause", err)
	}
}

// Lost returns how many messages could not be published.
func (c *Conn) Lost() uint64 { return c.lost.Load() }

// Close sends what is left, as far as that is possible within a second, and ends the connection.
func (c *Conn) Close() {
	close(c.stop)
	c.running.Wait()
	_ = c.nats.FlushTimeout(flushTimeout)
	c.nats.Close()
}
