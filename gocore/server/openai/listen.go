package openai

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"dynosim/gocore/guard"
)

// Address says where and how a server listens.
type Address struct {
	Listen string // HOST:PORT
	// Certificate and Key are files for TLS, "" for none.
	Certificate, Key string
	// SelfSigned makes a certificate for TLS that no authority vouches for, anew at each start.
	SelfSigned     bool
	MaxConnections int
}

// Limits on what a connection may do before it has sent a request.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 60 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
)

// Listener is a server that listens.
type Listener struct {
	server    *http.Server
	inner     net.Listener
	failed    chan error
	answering *atomic.Int64
}

// Listen opens the socket of a server and begins to answer, over HTTP/1.1 and HTTP/2, the latter without TLS only if
// clients begin with it (h2c with prior knowledge).
func (s *Server) Listen(a Address) (*Listener, error) {
	l := &Listener{failed: make(chan error, 1), answering: &s.answering}
	l.server = &http.Server{
		Handler: s, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.config.Log.Handler(), slog.LevelDebug), Protocols: new(http.Protocols),
	}
	l.server.Protocols.SetHTTP1(true)
	l.server.Protocols.SetHTTP2(true)
	l.server.Protocols.SetUnencryptedHTTP2(true)
	if a.TLS() {
		pair, err := a.pair()
		if err != nil {
			return nil, err
		}
		l.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	var err error
	if l.inner, err = net.Listen("tcp", a.Listen); err != nil {
		return nil, listenError(a.Listen, err)
	}
	limit := connectionLimit(a.MaxConnections, openFiles())
	if limit < a.MaxConnections {
		s.config.Log.Warn("this process may open too few files for max_connections", "max_connections",
			a.MaxConnections, "connections", limit, "remedy", "ulimit -n")
	}
	l.server.ConnState = (&connections{limit: limit, of: map[net.Conn]*list.Element{}}).changed
	go guard.Func(func() {
		if a.TLS() {
			l.failed <- l.server.ServeTLS(l.inner, "", "")
		} else {
			l.failed <- l.server.Serve(l.inner)
		}
	})()
	return l, nil
}

// listenError names the option that is wrong, if the host is no address of this machine, and what else might do.
func listenError(address string, err error) error {
	host, port, _ := net.SplitHostPort(address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("http_port: got %s, want another one, or 0 for any: %w", port, err)
	}
	if unknown := new(net.DNSError); errors.As(err, &unknown) || errors.Is(err, syscall.EADDRNOTAVAIL) {
		return fmt.Errorf("http_host: got %q, want an address of this machine, such as 127.0.0.1 or 0.0.0.0: %w", host,
			err)
	}
	if errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("http_port: got %s, want one that this user may listen at, such as 8000: %w", port, err)
	}
	return fmt.Errorf("http_port: got %s, want one that is free: %w", port, err)
}

// otherFiles is how many files the process needs beside connections: its own, pipes of tokenizers, and connections that
// are on their way out.
const otherFiles = 48

// connectionLimit returns how many connections there may be if the process may open the given number of files. With
// more, new connections would wait until others end.
func connectionLimit(wanted, files int) int { return min(wanted, max(files-otherFiles, files/4, 1)) }

// openFiles returns how many files the process may open.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}

// Addr returns where the server listens.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// Failed receives the error of a server that has ended by itself.
func (l *Listener) Failed() <-chan error { return l.failed }

// Close waits until all requests are answered or the context ends, stops listening, and breaks off those that are left.
// Until then, clients and probes that come hear that the server drains.
func (l *Listener) Close(ctx context.Context) {
	for l.answering.Load() > 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	if l.server.Shutdown(ctx) != nil {
		_ = l.server.Close()
	}
}

// connections bounds the number of connections. Beyond the limit, the one that has waited for the longest time for a
// request gives way; if there is none, the new one.
type connections struct {
	limit int

	mu      sync.Mutex
	open    int
	waiting list.List // of net.Conn: new ones and idle ones
	of      map[net.Conn]*list.Element
}

// changed keeps account of connections; [http.Server] calls it when one begins, brings a request, waits for the next
// one, or ends.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if place, known := c.of[conn]; known {
		c.waiting.Remove(place)
		delete(c.of, conn)
	}
	switch state {
	case http.StateNew:
		c.open++
		if c.open > c.limit {
			c.makeRoom(conn)
			return
		}
		c.of[conn] = c.waiting.PushBack(conn)
	case http.StateIdle:
		c.of[conn] = c.waiting.PushBack(conn)
	case http.StateClosed, http.StateHijacked:
		c.open--
	}
}

// makeRoom closes a connection. The server then reports that it is closed.
func (c *connections) makeRoom(newest net.Conn) {
	oldest := c.waiting.Front()
	if oldest == nil {
		go guard.Func(func() { _ = newest.Close() })() // TLS says goodbye, which may take a while
		return
	}
	conn := oldest.Value.(net.Conn)
	c.waiting.Remove(oldest)
	delete(c.of, conn)
	c.of[newest] = c.waiting.PushBack(newest)
	go guard.Func(func() { _ = conn.Close() })()
}
