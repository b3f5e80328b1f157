package plane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"dynosim/gocore/guard"
	"dynosim/gocore/protocol/wire"
)

// link is the connection on which requests go to the workers at one address. Acknowledgements come in the order of
// requests.
type link struct {
	conn net.Conn
	gone chan struct{} // closed when the connection has ended

	mu   sync.Mutex
	acks []chan string // of the requests that are under way
	used bool          // a request was acknowledged
	over bool
}

// errEnded is the error of a request that was not acknowledged before its connection ended.
var errEnded = fmt.Errorf("%w: its connection has ended", ErrUnreachable)

// callTimeout is how long a worker may take to acknowledge a request.
const callTimeout = 5 * time.Second

// deposit sends a frame to the workers at an address and returns the acknowledgement. A connection that has been used
// before may have ended without notice; then another one is tried.
func (c *Caller) deposit(ctx context.Context, address string, data []byte) (ack string, l *link, err error) {
	for {
		if l, err = c.worker(ctx, address); err != nil {
			return "", nil, err
		}
		used := l.wasUsed()
		if ack, err = l.send(ctx, data); err == nil {
			return ack, l, nil
		}
		if errors.Is(err, errEnded) {
			c.drop(address, l)
		}
		if !used || !errors.Is(err, errEnded) {
			return "", nil, err
		}
	}
}

// worker returns the connection to the workers at an address.
func (c *Caller) worker(ctx context.Context, address string) (*link, error) {
	c.mu.Lock()
	l, known := c.workers[address]
	c.mu.Unlock()
	if known {
		return l, nil
	}
	dialer := net.Dialer{Timeout: callTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other, known := c.workers[address]; known || c.closed {
		_ = conn.Close()
		if c.closed {
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, net.ErrClosed)
		}
		return other, nil
	}
	l = &link{conn: conn, gone: make(chan struct{})}
	c.workers[address] = l
	go guard.Func(func() {
		l.read()
		c.drop(address, l)
	})()
	return l, nil
}

// drop forgets a connection that has ended.
func (c *Caller) drop(address string, l *link) {
	l.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.workers[address] == l {
		delete(c.workers, address)
	}
}

func (l *link) wasUsed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used
}

// close ends the connection.
func (l *link) close() { _ = l.conn.Close() }

// send sends a frame and waits for its acknowledgement.
func (l *link) send(ctx context.Context, data []byte) (string, error) {
	ack := make(chan string, 1)
	if err := l.write(data, ack); err != nil {
		return "", err
	}
	patience := time.NewTimer(callTimeout)
	defer patience.Stop()
	select {
	case text := <-ack:
		return text, nil
	case <-l.gone:
		select {
		case text := <-ack:
			return text, nil
		default:
			return "", errEnded
		}
	case <-patience.C:
		return "", fmt.Errorf("%w: it did not acknowledge the request in %v", ErrUnreachable, callTimeout)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (l *link) write(data []byte, ack chan string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return errEnded
	}
	l.acks = append(l.acks, ack)
	_ = l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := l.conn.Write(data); err != nil {
		_ = l.conn.Close()
		return errEnded
	}
	return nil
}

// read hands acknowledgements to the requests that wait for them, until the connection ends.
func (l *link) read() {
	defer close(l.gone)
	in := bufio.NewReader(l.conn)
	for {
		text, err := wire.ReadAck(in)
		l.mu.Lock()
		if err != nil || len(l.acks) == 0 {
			l.over = true
			l.mu.Unlock()
			return
		}
		l.acks[0] <- text
		l.acks = l.acks[1:]
		l.used = true
		l.mu.Unlock()
	}
}
