package plane

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"dynosim/gocore/guard"
	"dynosim/gocore/live/connlimit"
	"dynosim/gocore/protocol/wire"
)

// HTTPRoot stands before the paths of endpoints.
const HTTPRoot = "/v1/rpc/"

// HTTP takes requests as plain HTTP: POST HTTPRoot + INSTANCE/ENDPOINT with the body of a request as JSON. The answer
// is a stream of JSON lines, one item each:
//
//	{"data":{"token_ids":[1792], ...}}
//
// An answer that is complete ends with a line {"complete_final":true}.
type HTTP struct {
	plane    *Plane
	listener net.Listener
	server   *http.Server
}

// ListenHTTP opens the plane to HTTP clients at an address; port 0 is any free one.
func (p *Plane) ListenHTTP(address string) (*HTTP, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	h := &HTTP{plane: p, listener: listener}
	h.server = &http.Server{Handler: h, ReadHeaderTimeout: p.bounds.frame, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10}
	go guard.Func(func() {
		_ = connlimit.New(listener, p.bounds.connections, connlimit.NewestGivesWay).
			Serve(h.server)
	})()
	return h, nil
}

// Addr returns where it listens.
func (h *HTTP) Addr() *net.TCPAddr { return h.listener.Addr().(*net.TCPAddr) }

// Close ends listening and all connections.
func (h *HTTP) Close() { _ = h.server.Close() }

// ServeHTTP implements [http.Handler].
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	received := time.Now()
	control := http.NewResponseController(w)
	deadline := received.Add(h.plane.bounds.frame)
	_ = control.SetReadDeadline(deadline) // also for bodies that are not read
	path, found := strings.CutPrefix(r.URL.Path, HTTPRoot)
	e, known := h.plane.lookup(path)
	switch {
	case !found || !known:
		httpError(w, http.StatusNotFound, wire.UnknownEndpoint+r.URL.Path)
		return
	case r.Method != http.MethodPost:
		httpError(w, http.StatusMethodNotAllowed, "POST the request")
		return
	}
	body, release, err := h.read(w, r, deadline)
	defer release()
	if err != nil {
		httpError(w, statusOf(err), err.Error())
		return
	}
	_ = control.SetReadDeadline(time.Time{})
	h.plane.config.Metrics.arrived(r.Header.Get(sentHeader), received)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	done := make(chan struct{})
	accepted := h.plane.submit(func() {
		defer close(done)
		reply := &httpReply{w: w, control: control, metrics: e.metrics, plane: h.plane, taken: time.Now()}
		if ctx.Err() == nil {
			h.plane.serve(ctx, e, &Call{ID: r.Header.Get("request-id"), Body: body, ReceivedAt: received,
				decoded: release}, reply)
		}
		if ctx.Err() != nil {
			e.metrics.cancellations.Inc()
		}
	})
	if !accepted {
		httpError(w, http.StatusServiceUnavailable, wire.Overloaded)
		return
	}
	<-done
}

// read reads the body of a request. release gives back its part of the budget.
func (h *HTTP) read(w http.ResponseWriter, r *http.Request, deadline time.Time) (body []byte, release func(),
	err error) {
	limit := h.plane.config.MaxMessageSize
	size := int(min(r.ContentLength, int64(limit)))
	if r.ContentLength < 0 { // unknown
		size = limit
	}
	if release, err = h.plane.hold(size, deadline); err != nil {
		return nil, release, err
	}
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit)))
	return body, release, err
}

// statusOf returns the HTTP status for a body that could not be read.
func statusOf(err error) int {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	default:
		return http.StatusBadRequest
	}
}

func httpError(w http.ResponseWriter, status int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": reason})
}

// httpReply implements [Reply].
type httpReply struct {
	w       http.ResponseWriter
	control *http.ResponseController
	metrics *endpointMetrics
	out     []byte
	begun   bool

	plane *Plane
	taken time.Time // by the handler
}

// Refuse implements [Reply].
func (r *httpReply) Refuse(reason string) error {
	if r.begun {
		return errors.New("the answer has begun")
	}
	r.begun = true
	// before it is sent, so that a client that has the answer finds it counted
	r.plane.config.Metrics.responded(r.taken)
	httpError(r.w, http.StatusBadRequest, reason)
	return nil
}

// Accept implements [Reply].
func (r *httpReply) Accept() error {
	r.begun = true
	r.w.Header().Set("Content-Type", "application/x-ndjson")
	r.plane.config.Metrics.responded(r.taken)
	r.w.WriteHeader(http.StatusOK)
	return r.control.Flush()
}

// Output implements [Reply].
func (r *httpReply) Output(o wire.Output) { r.out = append(wire.AppendItem(r.out, o), '\n') }

// Item implements [Reply].
func (r *httpReply) Item(item any) {
	text, err := wire.Encode(wire.JSON, item)
	if err != nil {
		panic(err) // items are plain values of our own
	}
	r.out = append(append(r.out, text...), '\n')
}

// Problem implements [Reply].
func (r *httpReply) Problem(p wire.Problem) {
	r.Item(map[string]wire.Problem{"error": p})
}

// Flush implements [Reply].
func (r *httpReply) Flush() error {
	_ = r.control.SetWriteDeadline(time.Now().Add(r.plane.bounds.write))
	n, err := r.w.Write(r.out)
	r.metrics.responseBytes.Add(float64(n))
	r.out = r.out[:0]
	return errors.Join(err, r.control.Flush())
}

// Finish implements [Reply].
func (r *httpReply) Finish() error {
	r.out = append(r.out, "{\"complete_final\":true}\n"...)
	return r.Flush()
}
