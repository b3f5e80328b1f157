package openai

import (
	"net/http"
	"time"
)

// writeTimeout is how long a client may take to read a part before it is cut off, unless the configuration says
// otherwise. Tokens that are released meanwhile are sent together afterwards.
const writeTimeout = 30 * time.Second

// deadlineShare is which part of that time may pass before it is extended.
const deadlineShare = 32

// eventStream sends an answer as server-sent events. What a client has not read yet is in the socket alone: while a
// write waits, tokens are only counted.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	g       *generation
	buffer  []byte
	begun   bool
	read    time.Time // when the client's time to read was last extended; zero while it has all time
	lifts   bool      // the limit is lifted after each part
}

func newEventStream(w http.ResponseWriter, g *generation) *eventStream {
	return &eventStream{w: w, control: http.NewResponseController(w), g: g, lifts: !overHTTP1(w)}
}

// overHTTP1 reports whether an answer goes over HTTP/1, where only what is written meets the limit. Over HTTP/2 a
// stream is reset when its limit has come, also if all that there was has been read.
func overHTTP1(w http.ResponseWriter) bool {
	for {
		if _, http1 := w.(http.Hijacker); http1 {
			return true
		}
		inner, wraps := w.(interface{ Unwrap() http.ResponseWriter })
		if !wraps {
			return false
		}
		w = inner.Unwrap()
	}
}

func (s *eventStream) part(c *choice, _, to int) {
	s.buffer = s.g.shape.appendPart(s.buffer, s.g, c, to)
}

func (s *eventStream) flush() error {
	if len(s.buffer) == 0 {
		return nil
	}
	if err := s.write(); err != nil {
		return err
	}
	if err := s.control.Flush(); err != nil || !s.lifts {
		return err
	}
	s.read = time.Time{}
	return s.control.SetWriteDeadline(time.Time{})
}

// write hands what has been taken to net/http, which may keep it until it is flushed or the answer ends.
func (s *eventStream) write() error {
	if !s.begun {
		s.begun = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
		s.w.WriteHeader(http.StatusOK)
	}
	// Once for many tokens: a deadline costs as much as an event. The client has the whole time after each of them.
	timeout := s.g.server.config.WriteTimeout
	if now := s.g.now; now.Sub(s.read) >= timeout/deadlineShare {
		s.read = now
		_ = s.control.SetWriteDeadline(now.Add(timeout + timeout/deadlineShare))
	}
	_, err := s.w.Write(s.buffer)
	s.buffer = s.buffer[:0]
	return err
}

// fail sends an error as the last event if the stream has begun.
func (s *eventStream) fail(err error) error {
	if !s.begun {
		return err
	}
	s.g.now = time.Now()
	s.buffer = s.g.shape.appendFailure(s.buffer, asProblem(err))
	_ = s.flush()
	return nil
}

// finish leaves the end of a stream that has begun to net/http, which sends it together with that of the body.
func (s *eventStream) finish() {
	begun := s.begun
	s.buffer = s.g.shape.appendEnd(s.buffer, s.g)
	if begun {
		_ = s.write()
	} else {
		_ = s.flush()
	}
}

// document sends an answer when it is complete.
type document struct {
	w http.ResponseWriter
	g *generation
}

func (*document) part(*choice, int, int) {}

func (*document) flush() error { return nil }

func (*document) fail(err error) error { return err }

func (d *document) finish() {
	d.g.server.mustRead(d.w)
	writeJSON(d.w, http.StatusOK, d.g.shape.whole(d.g))
}
