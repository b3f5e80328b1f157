package plane

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"dynosim/gocore/guard"
	"dynosim/gocore/protocol/wire"
)

const (
	maxConnections = 4096
	frameTimeout   = 30 * time.Second // from the first byte of a frame to its last
	ackTimeout     = 10 * time.Second
)

// TCP takes requests as Dynamo frontends send them.
type TCP struct {
	plane    *Plane
	listener net.Listener

	mu          sync.Mutex
	connections map[net.Conn]*visit
	closed      bool
	running     sync.WaitGroup
}

// ListenTCP opens the plane to frontends at an address; port 0 is any free one.
func (p *Plane) ListenTCP(address string) (*TCP, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	t := &TCP{plane: p, listener: listener, connections: map[net.Conn]*visit{}}
	t.running.Add(1)
	go guard.Func(t.accept)()
	return t, nil
}

// Addr returns where it listens.
func (t *TCP) Addr() *net.TCPAddr { return t.listener.Addr().(*net.TCPAddr) }

// Close ends listening and all connections on which requests come. Answers have connections of their own, and go on.
func (t *TCP) Close() {
	t.mu.Lock()
	t.closed = true
	_ = t.listener.Close()
	for conn := range t.connections {
		_ = conn.Close()
	}
	t.mu.Unlock()
	t.running.Wait()
}

func (t *TCP) accept() {
	defer t.running.Done()
	for {
		conn, err := t.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // for example, no more file descriptors
			time.Sleep(10 * time.Millisecond)
		case !t.admit(conn):
			_ = conn.Close()
		default:
			go guard.Func(func() { t.converse(conn) })()
		}
	}
}

// visit is a connection on which requests may come.
type visit struct {
	since time.Time
	used  bool // a whole frame has arrived
}

// admit adds a connection. If there are too many, it closes one on which no whole frame has arrived yet.
func (t *TCP) admit(conn net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || len(t.connections) >= t.plane.bounds.connections && !t.makeRoom() {
		return false
	}
	t.connections[conn] = &visit{since: time.Now()}
	t.running.Add(1)
	return true
}

// makeRoom closes the connection that has been without a whole frame for the longest time, if there is any.
func (t *TCP) makeRoom() bool {
	var idlest net.Conn
	for conn, v := range t.connections {
		if !v.used && (idlest == nil || v.since.Before(t.connections[idlest].since)) {
			idlest = conn
		}
	}
	if idlest == nil {
		return false
	}
	_ = idlest.Close()
	delete(t.connections, idlest)
	return true
}

// used records that a frame has arrived on a connection.
func (t *TCP) used(conn net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v, known := t.connections[conn]; known {
		v.used = true
	}
}

func (t *TCP) forget(conn net.Conn) {
	_ = conn.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.connections, conn)
	t.running.Done()
}

// converse answers the frames of one connection, in order.
func (t *TCP) converse(conn net.Conn) {
	defer t.forget(conn)
	in := bufio.NewReaderSize(conn, 16<<10)
	var ack []byte
	for first := true; ; first = false {
		frame, release, err := t.read(conn, in)
		text := wire.Accepted
		if err == nil {
			if first {
				t.used(conn)
			}
			text = t.take(frame, release)
		} else if release(); errors.Is(err, wire.ErrTooLarge) {
			text = "Request refused: " + err.Error()
		} else {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				t.plane.config.Log.Debug("a connection of a frontend ended", "peer", conn.RemoteAddr(), "cause", err)
			}
			return
		}
		ack = wire.AppendAck(ack[:0], text)
		_ = conn.SetWriteDeadline(time.Now().Add(t.plane.bounds.ack))
		if _, writeErr := conn.Write(ack); writeErr != nil || err != nil {
			return
		}
	}
}

// read waits for the next frame. release gives back its part of the budget, once.
func (t *TCP) read(conn net.Conn, in *bufio.Reader) (frame wire.Frame, release func(), err error) {
	release = func() {}
	_ = conn.SetReadDeadline(time.Time{})
	if _, err := in.Peek(1); err != nil {
		return wire.Frame{}, release, err
	}
	deadline := time.Now().Add(t.plane.bounds.frame)
	_ = conn.SetReadDeadline(deadline)
	frame, err = wire.ReadFrame(in, t.plane.config.MaxMessageSize, func(size int) (err error) {
		release, err = t.plane.hold(size, deadline)
		return err
	})
	return frame, release, err
}

// take hands a frame over to its endpoint and returns the acknowledgement.
func (t *TCP) take(frame wire.Frame, release func()) string {
	received := time.Now()
	t.plane.config.Metrics.arrived(frame.Headers[sentHeader], received)
	e, known := t.plane.lookup(frame.Path)
	accepted := t.plane.submit(func() {
		defer release()
		if !known {
			t.plane.refuse(frame.Payload, "unknown endpoint "+frame.Path)
			return
		}
		t.plane.answer(e, frame.Payload, received, release)
	})
	switch {
	case !accepted:
		release()
		return wire.Overloaded
	case !known:
		return wire.UnknownEndpoint + strings.ToValidUTF8(frame.Path, "?")
	default:
		return wire.Accepted
	}
}
