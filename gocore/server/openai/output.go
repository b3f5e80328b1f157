package openai

import (
	"net/http"
	"time"
)

// writeTimeout is how long a client may take to read a part before it is cut off, unless the configuration says
// otherwise. Tokens that are released meanwhile are sent together afterwards.
const writeTimeout = 30 * time.Second

// eventStream sends an answer as server-sent events. What a client has not read yet is in the socket alone: while a
// write waits, tokens are only counted.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	g       *generation
	buffer  []byte
	begun   bool
}

func newEventStream(w http.ResponseWriter, g *generation) *eventStream {
	return &eventStream{w: w, control: http.NewResponseController(w), g: g}
}

func (s *eventStream) part(c *choice, _, to int) {
	s.buffer = s.g.shape.appendPart(s.buffer, s.g, c, to)
}

func (s *eventStream) flush() error {
	if len(s.buffer) == 0 {
		return nil
	}
	if !s.begun {
		s.begun = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
		s.w.WriteHeader(http.StatusOK)
	}
	s.g.server.mustRead(s.w)
	_, err := s.w.Write(s.buffer)
	s.buffer = s.buffer[:0]
	if err != nil {
		return err
	}
	return s.control.Flush()
}

// fail sends an error as the last event if the stream has begun.
func (s *eventStream) fail(err error) error {
	if !s.begun {
		return err
	}
	s.buffer = s.g.shape.appendFailure(s.buffer, asProblem(err))
	_ = s.flush()
	return nil
}

func (s *eventStream) finish() {
	s.buffer = s.g.shape.appendEnd(s.buffer, s.g)
	_ = s.flush()
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
