package zmtp

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"dynosim/gocore/guard"
)

const (
	// maxPeers is how many connections a socket has at once. If there are more, one that has not introduced itself is
	// closed.
	maxPeers = 256
	// handshakeTimeout is how long a peer may take to introduce itself.
	handshakeTimeout = 10 * time.Second
	// stallTimeout is how long a peer may go without reading while there is something for it. It will reconnect.
	stallTimeout = 30 * time.Second
	// lingerTimeout is how long messages may still be sent while the socket is closed.
	lingerTimeout = time.Second
	// acceptPause follows a failure to accept, as when the process has too many open files.
	acceptPause = 50 * time.Millisecond
)

// server accepts peers of a socket and serves each on a goroutine of its own.
type server struct {
	listener   net.Listener
	socketType string
	peerTypes  []string
	serve      func(net.Conn, *bufio.Reader) error // until the connection ends
	log        *slog.Logger

	mu     sync.Mutex
	peers  map[net.Conn]*visit
	closed bool
	done   sync.WaitGroup
}

// visit is a connection of a peer.
type visit struct {
	since      time.Time
	introduced bool // the handshake is over
}

// listen binds the socket. serving begins with start.
func listen(address string, log *slog.Logger, socketType string, peerTypes ...string) (*server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("ZeroMQ %s socket: %w", socketType, err)
	}
	return &server{
		listener:   l,
		socketType: socketType,
		peerTypes:  peerTypes,
		log:        log.With("socket", socketType, "address", l.Addr().String()),
		peers:      make(map[net.Conn]*visit),
	}, nil
}

func (s *server) start(serve func(net.Conn, *bufio.Reader) error) {
	s.serve = serve
	s.done.Add(1)
	go guard.Func(s.accept)()
}

func (s *server) accept() {
	defer s.done.Done()
	for {
		conn, err := s.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			s.log.Warn("cannot accept a connection", "error", err)
			time.Sleep(acceptPause)
		case s.admit(conn):
			go guard.Func(func() { s.handle(conn) })()
		default:
			conn.Close()
		}
	}
}

// admit adds a peer, unless the socket is closed or full.
func (s *server) admit(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.peers) >= maxPeers && !s.makeRoom() {
		return false
	}
	s.peers[conn] = &visit{since: time.Now()}
	s.done.Add(1)
	return true
}

// makeRoom closes the connection whose handshake takes the longest time, if there is any.
func (s *server) makeRoom() bool {
	var slowest net.Conn
	for conn, v := range s.peers {
		if !v.introduced && (slowest == nil || v.since.Before(s.peers[slowest].since)) {
			slowest = conn
		}
	}
	if slowest == nil {
		return false
	}
	slowest.Close()
	delete(s.peers, slowest)
	return true
}

func (s *server) handle(conn net.Conn) {
	defer s.done.Done()
	defer s.forget(conn)
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("internal error", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	r := bufio.NewReader(conn)
	err := s.handshake(conn, r)
	if err == nil {
		err = s.serve(conn, r)
	}
	s.log.Debug("connection ended", "peer", conn.RemoteAddr().String(), "error", err)
}

func (s *server) forget(conn net.Conn) {
	conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers, conn)
}

func (s *server) handshake(conn net.Conn, r *bufio.Reader) error {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write(greeting()); err != nil {
		return err
	}
	if err := readGreeting(r); err != nil {
		return err
	}
	if _, err := conn.Write(ready(s.socketType)); err != nil {
		return err
	}
	if err := readReady(r, s.peerTypes); err != nil {
		return err
	}
	return s.unlessClosed(func() error {
		if v, ok := s.peers[conn]; ok {
			v.introduced = true
		}
		return conn.SetDeadline(time.Time{})
	})
}

// mayWrite gives a peer time to read what is sent to it next.
func (s *server) mayWrite(conn net.Conn) error {
	err := s.unlessClosed(func() error { return conn.SetWriteDeadline(time.Now().Add(stallTimeout)) })
	if errors.Is(err, net.ErrClosed) {
		return nil // the deadline is that of close
	}
	return err
}

// unlessClosed sets a deadline, but does not overwrite those of close.
func (s *server) unlessClosed(set func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	return set()
}

// close stops accepting and reading, gives every peer time to read what is being sent, and waits until all connections
// are closed.
func (s *server) close() {
	s.listener.Close()
	s.mu.Lock()
	s.closed = true
	now := time.Now()
	for conn := range s.peers {
		_ = conn.SetReadDeadline(now)
		_ = conn.SetWriteDeadline(now.Add(lingerTimeout))
	}
	s.mu.Unlock()
	s.done.Wait()
}
