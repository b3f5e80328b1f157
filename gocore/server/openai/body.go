package openai

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// maxBodies is how many bytes of large bodies are in memory at the same time, until their requests have become calls.
// Small bodies are not counted.
const (
	maxBodies = 256 << 20
	smallBody = 64 << 10
)

func newBodies(largest int64) *room { return &room{free: max(maxBodies, largest)} }

type holdKey struct{}

// holdOf returns what a request has of the room for bodies.
func holdOf(ctx context.Context) *hold {
	h, _ := ctx.Value(holdKey{}).(*hold)
	return h
}

// body reads the body of a request, which is a JSON object.
func (s *Server) body(w http.ResponseWriter, r *http.Request, into any) error {
	text, err := s.bodyText(w, r)
	if err != nil {
		return err
	}
	return decode(text, into)
}

func (s *Server) bodyText(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	size := r.ContentLength
	switch encoding := r.Header.Get("Content-Encoding"); {
	case encoding != "" && encoding != "identity":
		w.Header().Set("Accept-Encoding", "identity")
		p := badRequest("", "Content-Encoding: got %s, want the body as it is", shortened([]byte(encoding)))
		p.status = http.StatusUnsupportedMediaType
		return nil, p
	case size > s.config.MaxBody:
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second)) // the body is not awaited
		return nil, s.tooLarge()
	}
	deadline := time.Now().Add(s.config.BodyTimeout)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(deadline)
	ctx, cancel := context.WithDeadline(r.Context(), deadline)
	defer cancel()
	text, err := s.readAll(ctx, http.MaxBytesReader(w, r.Body, s.config.MaxBody), size)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, s.tooLarge()
	case errors.Is(err, errNoRoom):
		return nil, errNoRoom
	case err != nil && !time.Now().Before(deadline):
		return nil, &problem{status: http.StatusRequestTimeout, kind: "invalid_request_error",
			message: "the body took too long"}
	case err != nil:
		return nil, badRequest("", "the body cannot be read: %s", err)
	}
	_ = control.SetReadDeadline(time.Time{}) // an answer may take longer; after an error, the rest of the body may not
	return text, nil
}

// errNoRoom is the error of a large body that finds maxBodies taken.
var errNoRoom error = unavailable("other large requests are being read")

// readAll reads a body, of which size bytes are announced, or -1. A large one takes its share of maxBodies as it comes:
// one that is only announced keeps no room from others.
func (s *Server) readAll(ctx context.Context, from io.Reader, size int64) ([]byte, error) {
	first := int64(smallBody)
	if size >= 0 {
		first = min(first, size+1) // room to see the end in
	}
	text := make([]byte, 0, first)
	for {
		if len(text) == cap(text) {
			wider := s.width(int64(cap(text)), size)
			if err := s.take(ctx, wider); err != nil {
				return nil, err
			}
			text = append(make([]byte, 0, wider), text...)
		}
		n, err := from.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case err == io.EOF: //nolint:errorlint // readers return this very value
			return text, nil
		case err != nil:
			return nil, err
		}
	}
}

// width returns how much room a body gets that has filled this much.
func (s *Server) width(filled, size int64) int64 {
	if size >= 0 {
		return min(2*filled, size+1)
	}
	return min(2*filled, s.config.MaxBody+1)
}

// take widens the share of a request to the given number of bytes of maxBodies.
func (s *Server) take(ctx context.Context, size int64) error {
	h := holdOf(ctx)
	size = min(size, s.config.MaxBody)
	if size <= h.size {
		return nil
	}
	if !s.bodies.take(ctx, h, size-h.size) {
		return errNoRoom
	}
	return nil
}

func (s *Server) tooLarge() error {
	p := badRequest("", "the body is larger than %d bytes", s.config.MaxBody)
	p.status = http.StatusRequestEntityTooLarge
	return p
}
