package plane

import (
	"context"
	"net"
	"sync"
)

// streams are the connections of a plane on which requests are answered.
type streams struct {
	life context.Context // of the plane
	end  context.CancelFunc

	mu      sync.Mutex
	open    map[net.Conn]struct{}
	closed  bool
	running sync.WaitGroup // one for each connection that is open, or is being opened
}

func newStreams() *streams {
	s := &streams{open: map[net.Conn]struct{}{}}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// begin counts a goroutine that is about to open a connection, until it calls running.Done. It reports false if the
// plane is closed.
func (s *streams) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.running.Add(1)
	}
	return !s.closed
}

// enter adds a connection, until leave. It reports false if the plane is closed.
func (s *streams) enter(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.open[conn] = struct{}{}
	s.running.Add(1)
	return true
}

func (s *streams) leave(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, conn)
	s.running.Done()
}

func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// close closes all connections, and returns when their goroutines have ended.
func (s *streams) close() {
	s.end()
	s.mu.Lock()
	s.closed = true
	for conn := range s.open {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}
