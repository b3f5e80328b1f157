package rendezvous

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"

	"dynosim/gocore/handoff"
	"dynosim/gocore/protocol/bootstrap"
)

const (
	// patience is how long a peer may take to connect, to introduce itself, to send the rest of a message, and to read
	// what is sent to it.
	patience = 30 * time.Second
	// linger is how long a peer may take to close a connection after the last message.
	linger = time.Second
)

// session is one side of a hand-off.
type session interface {
	Begin(nowMs float64) bootstrap.Step
	Receive(m bootstrap.Message, nowMs float64) bootstrap.Step
	Tell(f bootstrap.Fact, nowMs float64) bootstrap.Step
	Tick(nowMs float64) bootstrap.Step
	Cancel(cause error, nowMs float64) bootstrap.Step
	Lost(cause error) bootstrap.Step
	WakeMs() float64
	Err() error
}

// peer is the other side of one hand-off. It is closed when its reader has ended and quit is closed.
type peer struct {
	conn     net.Conn
	identity bootstrap.Identity
	messages chan bootstrap.Message
	quit     chan struct{} // messages are not wanted any more
	gone     chan struct{} // no more messages will come
	cause    error         // why, once gone is closed
}

func newPeer(conn net.Conn, identity bootstrap.Identity) *peer {
	return &peer{
		conn: conn, identity: identity,
		messages: make(chan bootstrap.Message), quit: make(chan struct{}), gone: make(chan struct{}),
	}
}

// read reads messages until the connection ends, and closes it.
func (p *peer) read(in *bufio.Reader) {
	defer func() { _ = p.conn.Close() }()
	err := p.readMessages(in)
	if errors.Is(err, io.EOF) {
		err = errors.New("it closed the connection")
	}
	p.cause = fmt.Errorf("lost %s: %w", p.conn.RemoteAddr(), err)
	close(p.gone)
	<-p.quit
	if err := p.conn.SetReadDeadline(time.Now().Add(linger)); err == nil {
		_, _ = io.Copy(io.Discard, in)
	}
}

func (p *peer) readMessages(in *bufio.Reader) error {
	for {
		quickAck(p.conn)
		if _, err := in.Peek(1); err != nil {
			return err
		}
		_ = p.conn.SetReadDeadline(time.Now().Add(patience))
		f, err := bootstrap.ReadFrame(in)
		switch {
		case err != nil:
			return err
		case f.Identity != p.identity:
			return errors.New("it went on with another hand-off")
		}
		_ = p.conn.SetReadDeadline(time.Time{})
		select {
		case p.messages <- f.Message:
		case <-p.quit:
			return errors.New("the hand-off is over")
		}
	}
}

// send sends messages at once.
func (p *peer) send(messages []bootstrap.Message) error {
	if len(messages) == 0 {
		return nil
	}
	var data []byte
	for _, m := range messages {
		data = bootstrap.AppendFrame(data, bootstrap.Frame{Identity: p.identity, Message: m})
	}
	_ = p.conn.SetWriteDeadline(time.Now().Add(patience))
	_, err := p.conn.Write(data)
	return err
}

// leave ends the sending side. The reader reads what still arrives, for a while, and closes the connection: a
// connection that is closed with unread data could lose the last messages.
func (p *peer) leave() {
	if half, ok := p.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = p.conn.SetReadDeadline(time.Now().Add(linger))
	close(p.quit)
}

// hurry ends a hand-off that is not over yet: nothing more is read. One that is over still sends its last messages.
func (p *peer) hurry() {
	select {
	case <-p.quit:
	default:
		_ = p.conn.SetReadDeadline(time.Now())
	}
}

// converse takes part in a hand-off until it is over. When the context ends, the hand-off is cancelled, which takes a
// moment.
func (p *peer) converse(ctx context.Context, s session, engine Engine, started time.Time) error {
	defer p.leave()
	nowMs := func() float64 { return float64(time.Since(started)) / 1e6 }
	// An engine tells at most four facts about a request, so it never waits. Facts after the end are not read.
	facts := make(chan bootstrap.Fact, 8)
	tell := func(f bootstrap.Fact) {
		select {
		case facts <- f:
		default:
		}
	}
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	canceled := ctx.Done()
	step := s.Begin(nowMs())
	for {
		if step.Do != handoff.None {
			engine.Do(step.Do, tell)
		}
		err := p.send(step.Send)
		switch {
		case step.End:
			return s.Err()
		case err != nil:
			step = s.Lost(err)
			continue
		}
		timer.Reset(duration(s.WakeMs() - nowMs()))
		select {
		case m := <-p.messages:
			step = s.Receive(m, nowMs())
		case f := <-facts:
			step = s.Tell(f, nowMs())
		case <-timer.C:
			step = s.Tick(nowMs())
		case <-p.gone:
			step = s.Lost(p.cause)
		case <-canceled:
			canceled = nil
			step = s.Cancel(context.Cause(ctx), nowMs())
		}
	}
}

// duration converts milliseconds, which may be infinite; the result is at most a year.
func duration(ms float64) time.Duration {
	const year = 365 * 24 * time.Hour
	if ms >= year.Seconds()*1000 {
		return year
	}
	return time.Duration(math.Ceil(ms * 1e6))
}
