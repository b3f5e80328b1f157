package plane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"dynosim/gocore/live/guard"
	"dynosim/gocore/protocol/wire"
)

// Caller is the frontend's side of [TCP]: it sends requests to workers and takes their answers. It is safe for concurrent
// use.
type Caller struct {
	listener net.Listener

	mu      sync.Mutex
	last    uint64
	streams map[string]chan net.Conn // by subject, until the worker has dialled back
	workers map[string]*connection   // by address
}

// connection carries requests to one worker; acknowledgements come in the order of requests.
type connection struct {
	mu   sync.Mutex
	conn net.Conn
	in   *bufio.Reader
}

// ErrRefused is the error of a request that a worker does not serve.
var ErrRefused = errors.New("refused")

// NewCaller listens for answers on a free port of host.
func NewCaller(host string) (*Caller, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	c := &Caller{listener: listener, streams: map[string]chan net.Conn{}, workers: map[string]*connection{}}
	go guard.Func(c.accept)()
	return c, nil
}

// Close ends all connections to workers. Answers that are being read go on.
func (c *Caller) Close() {
	_ = c.listener.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.workers {
		_ = w.conn.Close()
	}
}

func (c *Caller) accept() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return
		}
		go guard.Func(func() { c.identify(conn) })()
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

// Call sends a request to the endpoint at path of the worker at address, and waits until that accepts it. Refusals are an
// [ErrRefused].
func (c *Caller) Call(ctx context.Context, address, path string, codec wire.Codec, body []byte) (*Answer, error) {
	return c.CallOver(ctx, codec, body, func(payload []byte) error {
		ack, err := c.send(address, wire.Frame{Path: path, Payload: payload})
		if err == nil && ack == wire.Overloaded {
			err = fmt.Errorf("%w: %s", ErrRefused, ack)
		}
		return err
	})
}

// CallOver is Call with another way to the worker: send carries a request there.
func (c *Caller) CallOver(ctx context.Context, codec wire.Codec, body []byte, send func(payload []byte) error) (*Answer, error) {
	waiting := make(chan net.Conn, 1)
	c.mu.Lock()
	c.last++
	id := strconv.FormatUint(c.last, 10)
	c.streams[id] = waiting
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.streams, id)
	}()
	header := wire.EncodeControl(wire.Control{ID: id, Codec: codec, Address: c.listener.Addr().String(), Subject: id})
	if err := send(wire.AppendMessage(nil, wire.Message{Header: header, Body: body})); err != nil {
		return nil, err
	}
	select {
	case conn := <-waiting:
		return readPrologue(conn, codec)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// readPrologue reads the prologue of an answer.
func readPrologue(conn net.Conn, codec wire.Codec) (*Answer, error) {
	a := &Answer{conn: conn, in: bufio.NewReader(conn), codec: codec}
	m, err := wire.ReadMessage(a.in, StandardMaxMessageSize)
	if err == nil {
		var refusal string
		if refusal, err = wire.DecodePrologue(m.Header); err == nil && refusal != "" {
			err = fmt.Errorf("%w: %s", ErrRefused, refusal)
		}
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return a, nil
}

func (c *Caller) send(address string, frame wire.Frame) (ack string, err error) {
	data, err := wire.AppendFrame(nil, frame)
	if err != nil {
		return "", err
	}
	w, err := c.worker(address)
	if err != nil {
		return "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err = w.conn.Write(data); err == nil {
		ack, err = wire.ReadAck(w.in)
	}
	if err != nil {
		_ = w.conn.Close()
		c.mu.Lock()
		delete(c.workers, address)
		c.mu.Unlock()
	}
	return ack, err
}

func (c *Caller) worker(address string) (*connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.workers[address]; ok {
		return w, nil
	}
	conn, err := net.DialTimeout("tcp", address, dialTimeout)
	if err != nil {
		return nil, err
	}
	w := &connection{conn: conn, in: bufio.NewReader(conn)}
	c.workers[address] = w
	return w, nil
}

// Answer is the stream that answers one request. One goroutine reads it; Stop may come from others.
type Answer struct {
	conn  net.Conn
	in    *bufio.Reader
	codec wire.Codec
}

// Body returns the next data message as it is; io.EOF after the last one. An answer that breaks off is an
// io.ErrUnexpectedEOF.
func (a *Answer) Body() ([]byte, error) {
	m, err := wire.ReadMessage(a.in, StandardMaxMessageSize)
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	case len(m.Header) > 0:
		return nil, io.EOF
	default:
		return m.Body, nil
	}
}

// Next returns the next piece; io.EOF after the last one.
func (a *Answer) Next() (wire.Chunk, error) {
	body, err := a.Body()
	if err != nil {
		return wire.Chunk{}, err
	}
	chunk, err := wire.DecodeChunk(a.codec, body)
	if err == nil && chunk.Final {
		return wire.Chunk{}, io.EOF
	}
	return chunk, err
}

// Stop asks the worker to end the answer.
func (a *Answer) Stop() error {
	_, err := a.conn.Write(wire.AppendSignal(nil, wire.Kill))
	return err
}

// Close ends the connection.
func (a *Answer) Close() { _ = a.conn.Close() }
