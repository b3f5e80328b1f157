package openai

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

// maxBodies is how many bytes of large bodies are in memory at the same time, from their first byte until their request has become
// a call. Small bodies are not counted.
const (
	maxBodies = 256 << 20
	smallBody = 64 << 10
)

func newBodies(largest int64) *semaphore.Weighted {
	return semaphore.NewWeighted(max(maxBodies, largest))
}

// hold is the share of maxBodies that a request has.
type hold struct {
	of   *semaphore.Weighted
	size int64
}

// release gives it back, once.
func (h *hold) release() {
	if h.of != nil {
		h.of.Release(h.size)
		h.of = nil
	}
}

type holdKey struct{}

// holdOf is the share of a request.
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
	case size < 0:
		size = s.config.MaxBody
	}
	deadline := time.Now().Add(s.config.BodyTimeout)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(deadline)
	if size > smallBody {
		ctx, cancel := context.WithDeadline(r.Context(), deadline)
		defer cancel()
		if s.bodies.Acquire(ctx, size) != nil {
			return nil, unavailable("other large requests are being read")
		}
		*holdOf(r.Context()) = hold{s.bodies, size}
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.config.MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, s.tooLarge()
	case err != nil && !time.Now().Before(deadline):
		return nil, &problem{status: http.StatusRequestTimeout, kind: "invalid_request_error", message: "the body took too long"}
	case err != nil:
		return nil, badRequest("", "the body cannot be read: %s", err)
	}
	_ = control.SetReadDeadline(time.Time{}) // an answer may take longer; after an error, the rest of the body may not
	return text, nil
}

func (s *Server) tooLarge() error {
	p := badRequest("", "the body is larger than %d bytes", s.config.MaxBody)
	p.status = http.StatusRequestEntityTooLarge
	return p
}
