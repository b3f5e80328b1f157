package plane

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"dynosim/gocore/guard"
	"dynosim/gocore/protocol/wire"
)

const (
	dialTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second // for a peer to read what it is sent
	closeTimeout = 10 * time.Second // for a frontend to close a stream that is complete
	signalLimit  = 64 << 10
)

// stream is the connection on which one request is answered; it implements [Reply].
type stream struct {
	plane    *Plane
	conn     net.Conn
	codec    wire.Codec
	taken    time.Time        // by the handler
	metrics  *endpointMetrics // nil for an endpoint that does not exist
	out      []byte
	begun    bool // accepted or refused
	finished atomic.Bool
}

// answer serves one request from its payload: a control header and a body.
func (p *Plane) answer(e endpoint, payload []byte, received time.Time, decoded func()) {
	message, control, err := open(payload)
	if control.Address == "" {
		p.config.Log.Warn("a request cannot be answered", "cause", err)
		e.metrics.failed(kindOf(message))
		return
	}
	s, dialErr := p.dial(control, e.metrics)
	if dialErr != nil {
		p.config.Log.Warn("a frontend cannot be reached", "request", control.ID, "address", control.Address, "cause",
			dialErr)
		e.metrics.failed(noStream)
		return
	}
	if err != nil {
		e.metrics.failed(deserialization)
		_ = s.Refuse(err.Error())
		go guard.Func(s.close)()
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go guard.Func(func() { s.listen(cancel) })()
	call := &Call{ID: control.ID, Codec: control.Codec, Body: message.Body, ReceivedAt: received, decoded: decoded}
	p.serve(ctx, e, call, s)
	if !s.finished.Load() {
		_ = s.conn.Close() // ends listen
	}
}

// refuse answers a request for which there is no endpoint, if the request says where the answer goes.
func (p *Plane) refuse(payload []byte, reason string) {
	if _, control, _ := open(payload); control.Address != "" {
		if s, err := p.dial(control, nil); err == nil {
			_ = s.Refuse(reason)
			go guard.Func(s.close)()
		}
	}
}

// kindOf returns the kind of error of a payload without a control header that can be read.
func kindOf(m wire.Message) string {
	if m.Header == nil {
		return invalidMessage
	}
	return deserialization
}

func open(payload []byte) (wire.Message, wire.Control, error) {
	message, err := wire.DecodeMessage(payload)
	if err != nil {
		return wire.Message{}, wire.Control{}, err
	}
	control, err := wire.DecodeControl(message.Header)
	return message, control, err
}

// dial connects to the frontend and sends the id of the request that the connection is for.
func (p *Plane) dial(control wire.Control, metrics *endpointMetrics) (*stream, error) {
	taken := time.Now()
	dialer := net.Dialer{Timeout: dialTimeout}
	// without delay for small packets, as always in Go
	conn, err := dialer.DialContext(p.streams.life, "tcp", control.Address)
	if err != nil {
		return nil, err
	}
	s := &stream{plane: p, conn: conn, codec: control.Codec, taken: taken, metrics: metrics}
	if !p.streams.enter(conn) {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	s.out = wire.AppendHandshake(s.out, control.Subject)
	if err := s.Flush(); err != nil {
		s.hangUp()
		return nil, err
	}
	return s, nil
}

// hangUp ends what dial began.
func (s *stream) hangUp() {
	_ = s.conn.Close()
	s.plane.streams.leave(s.conn)
}

// listen waits until the frontend stops the request or goes away.
func (s *stream) listen(cancel context.CancelFunc) {
	defer s.hangUp()
	defer cancel()
	// Any message of a frontend means that it wants no more of the answer.
	_, _ = wire.ReadMessage(bufio.NewReaderSize(s.conn, 256), signalLimit)
	if !s.finished.Load() {
		s.metrics.cancellations.Inc()
	}
}

// close waits for the frontend to read the end of the stream, after a refusal.
func (s *stream) close() {
	defer s.hangUp()
	_, _ = wire.ReadMessage(s.conn, signalLimit)
}

// Refuse implements [Reply]. After Accept it breaks the stream off instead.
func (s *stream) Refuse(reason string) error {
	if s.begun {
		return s.conn.Close()
	}
	s.begun = true
	s.out = wire.AppendPrologue(s.out, "Generate Error: "+reason)
	s.out = wire.AppendSignal(s.out, wire.Sentinel)
	// before it is sent, so that a frontend that has the answer finds it counted
	s.plane.config.Metrics.responded(s.taken)
	return s.end()
}

// Accept implements [Reply].
func (s *stream) Accept() error {
	s.begun = true
	s.out = wire.AppendPrologue(s.out, "")
	s.plane.config.Metrics.responded(s.taken)
	return s.Flush()
}

// Output implements [Reply].
func (s *stream) Output(o wire.Output) { s.out = wire.AppendOutput(s.out, s.codec, o) }

// Item implements [Reply].
func (s *stream) Item(item any) { s.out = wire.AppendData(s.out, s.codec, item) }

// Problem implements [Reply].
func (s *stream) Problem(p wire.Problem) { s.out = wire.AppendProblem(s.out, s.codec, p) }

// Flush implements [Reply].
func (s *stream) Flush() error { return s.flush(publishResponse) }

// flush sends what is there; problem is the kind of error to be counted.
func (s *stream) flush(problem string) error {
	_ = s.conn.SetWriteDeadline(time.Now().Add(s.plane.bounds.write))
	n, err := s.conn.Write(s.out)
	if s.metrics != nil {
		s.metrics.responseBytes.Add(float64(n))
		if err != nil && !errors.Is(err, net.ErrClosed) { // which is the error of a cancelled request
			s.metrics.failed(problem)
		}
	}
	s.out = s.out[:0]
	return err
}

// Finish implements [Reply].
func (s *stream) Finish() error {
	s.out = wire.AppendFinal(s.out, s.codec)
	s.out = wire.AppendSignal(s.out, wire.Sentinel)
	return s.end()
}

// end sends what is left. The frontend closes the connection then, which ends listen; it has some time for that, unless
// too many streams are in that state.
func (s *stream) end() error {
	s.finished.Store(true)
	err := s.flush(publishFinal)
	patience := s.plane.bounds.end
	if s.plane.streams.count() > s.plane.config.Limits.Active+s.plane.bounds.lingering {
		patience = 0
	}
	_ = s.conn.SetReadDeadline(time.Now().Add(patience))
	return err
}
