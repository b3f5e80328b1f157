package zmtp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"dynosim/gocore/guard"
)

// Sub receives what the PUB socket at one address publishes. It connects again whenever the connection ends; what is
// published meanwhile is lost.
type Sub struct {
	address, topic string
	connected      func()
	handle         func(frames [][]byte)
	log            *slog.Logger
	stop           context.CancelFunc
	done           chan struct{}
	state          atomic.Pointer[error] // why nothing is heard, nil in it if something is
}

// errNotYet is the state before the first attempt to connect has ended.
var errNotYet = errors.New("not connected yet")

// Pauses between attempts to connect, and the size of messages that are heard: a worker's own events.
const (
	shortestPause = 50 * time.Millisecond
	longestPause  = 2 * time.Second
	maxHeardBytes = 64 << 20
)

// Subscribe receives the messages whose first frame begins with topic. handle is called with the frames of each, by one
// goroutine, until Close. connected is called whenever the subscription has been sent, after which little more is lost.
func Subscribe(address, topic string, log *slog.Logger, connected func(), handle func(frames [][]byte)) *Sub {
	ctx, stop := context.WithCancel(context.Background())
	s := &Sub{address: address, topic: topic, connected: connected, handle: handle,
		log: log.With("socket", "SUB", "address", address), stop: stop, done: make(chan struct{})}
	s.state.Store(&errNotYet)
	go guard.Func(func() {
		defer close(s.done)
		s.run(ctx)
	})()
	return s
}

// Close ends the subscription. handle is not called any more when it returns.
func (s *Sub) Close() {
	s.stop()
	<-s.done
}

// Err returns why nothing is heard now, nil while the subscription holds.
func (s *Sub) Err() error { return *s.state.Load() }

func (s *Sub) run(ctx context.Context) {
	pause := shortestPause
	for ctx.Err() == nil {
		connected, err := s.listen(ctx)
		if connected {
			pause = shortestPause
		}
		s.state.Store(&err)
		s.log.Debug("connection ended", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			pause = min(2*pause, longestPause)
		}
	}
}

// listen receives messages until the connection ends.
func (s *Sub) listen(ctx context.Context) (connected bool, err error) {
	dialer := net.Dialer{Timeout: handshakeTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", s.address)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, guard.Func(func() { conn.Close() }))()
	in := bufio.NewReader(conn)
	if err := s.introduce(conn, in); err != nil {
		return false, err
	}
	s.state.Store(new(error))
	s.connected()
	for {
		first, err := readFrame(in, maxHeardBytes)
		if err != nil {
			return true, err
		}
		if first.command {
			continue // nothing that changes what is heard
		}
		message, err := readMessage(in, first, maxHeardBytes)
		if err != nil {
			return true, err
		}
		s.handle(message)
	}
}

// introduce does the handshake, and subscribes.
func (s *Sub) introduce(conn net.Conn, in *bufio.Reader) error {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write(append(greeting(), ready("SUB")...)); err != nil {
		return err
	}
	if err := readGreeting(in); err != nil {
		return err
	}
	if err := readReady(in, []string{"PUB", "XPUB"}); err != nil {
		return fmt.Errorf("not a publisher: %w", err)
	}
	_, err := conn.Write(appendMessage(nil, [][]byte{append([]byte{1}, s.topic...)}))
	if err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}
