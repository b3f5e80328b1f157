package connlimit

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// Full says what happens to a new connection when all others are being answered.
type Full int

const (
	// NewestGivesWay closes the new connection: answers that have begun are worth more.
	NewestGivesWay Full = iota
	// OldestGivesWay closes the one that has been answered for the longest time. If answers are short, that is a client
	// that does not read its answer.
	OldestGivesWay
)

// Listener hands out connections to an [http.Server], which has to be run by [Listener.Serve].
type Listener struct {
	net.Listener
	limit int
	full  Full

	mu       sync.Mutex
	waiting  list.List // of *connection, the one that waits for the longest time first
	answered list.List // the same for connections that a handler answers
}

// New returns a listener with a limit, at least 1.
func New(inner net.Listener, limit int, full Full) *Listener {
	return &Listener{Listener: inner, limit: limit, full: full}
}

// connection has its place in one of the lists until it is closed.
type connection struct {
	net.Conn
	listener *Listener
	in       *list.List // nil after the end
	place    *list.Element
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if admitted := l.admit(conn); admitted != nil {
			return admitted, nil
		}
		_ = conn.Close()
	}
}

// admit gives a connection a place, if necessary by closing another one. It returns nil if there is no place.
func (l *Listener) admit(conn net.Conn) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting.Len()+l.answered.Len() >= l.limit {
		oldest := l.waiting.Front()
		if oldest == nil && l.full == OldestGivesWay {
			oldest = l.answered.Front()
		}
		if oldest == nil {
			return nil
		}
		c := oldest.Value.(*connection)
		c.leave()
		_ = c.Conn.Close()
	}
	c := &connection{Conn: conn, listener: l}
	c.join(&l.waiting)
	return c
}

func (c *connection) join(in *list.List) { c.in, c.place = in, in.PushBack(c) }

func (c *connection) leave() {
	if c.in != nil {
		c.in.Remove(c.place)
		c.in = nil
	}
}

// move puts a connection at the end of another list, unless it was closed.
func (c *connection) move(to *list.List) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	if c.in != nil {
		c.leave()
		c.join(to)
	}
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.listener.mu.Lock()
	c.leave()
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// ofRequest is the key of a request's connection in its context.
type ofRequest struct{}

// Serve runs a server until it is closed. It sets the server's ConnContext and wraps its handler.
func (l *Listener) Serve(s *http.Server) error {
	handler := s.Handler
	s.ConnContext = func(ctx context.Context,
		c net.Conn) context.Context {
		return context.WithValue(ctx, ofRequest{}, c)
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(ofRequest{}).(*connection)
		c.move(&l.answered)
		defer c.move(&l.waiting)
		handler.ServeHTTP(w, r)
	})
	return s.Serve(l)
}
