// Package openai is the HTTP side of the server: the endpoints of OpenAI's API, those that engines add to it, and their
// errors.
//
//	request --> server.go: id, key, limits --> request.go: what it asks for --> tokens, answers: prompt and answer
//	        --> generate.go: calls of a deployment, and their tokens as they are released
//	        --> shape.go: the form of answers --> output.go: a stream of events, or one document
//
// A request has one goroutine, that of net/http. It waits for its calls and for its client; engines wait for neither.
package openai

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/semaphore"
)

// Config describes a server.
type Config struct {
	// Models are there from the beginning; the first one has adapters loaded that name no model.
	Models []*Model
	// Discovers tells that models come and go with their workers: the server is ready while there is one.
	Discovers bool
	Version   string   // of the program
	Keys      []string // of clients, none for all
	MaxQueue  int      // calls of a model that wait before more are turned away; 0 for no limit
	MaxBody   int64    // bytes of a request
	// BodyTimeout bounds how long a client may take to send a body, 0 for a minute.
	BodyTimeout time.Duration
	// WriteTimeout bounds how long a client may take to read a part of an answer, 0 for half a minute.
	WriteTimeout time.Duration
	// Timeout bounds how long an answer may take, 0 for no limit.
	Timeout time.Duration
	// Startup is how long engines take to start: requests are turned away until then.
	Startup time.Duration
	Faults  *Faults // nil for none
	CORS    *CORS   // nil for no pages of other origins
	Page    bool    // browsers get a page at /
	// TokenizerInfo lets clients ask for the configuration of tokenizers.
	TokenizerInfo bool
	Log           *slog.Logger
	Registry      *prometheus.Registry
}

// Server answers requests. It implements [http.Handler].
type Server struct {
	config   Config
	served   served
	mux      *http.ServeMux
	keys     [][sha256.Size]byte
	metrics  *metrics
	started  time.Time
	draining atomic.Bool
	inFlight atomic.Int64
	// answering is the number of requests for answers among those in flight.
	answering atomic.Int64
	bodies    *room
	tokens    *semaphore.Weighted // of answers
	sleeping  sleeper
	engineID  string // for hand-offs
	board     board
}

// New returns a server whose models run.
func New(c Config) *Server {
	c.BodyTimeout, c.WriteTimeout = cmp.Or(c.BodyTimeout, bodyTimeout), cmp.Or(c.WriteTimeout, writeTimeout)
	s := &Server{config: c, mux: http.NewServeMux(), started: time.Now(), board: board{since: time.Now()},
		bodies: newBodies(c.MaxBody), tokens: semaphore.NewWeighted(maxTokens), engineID: newID("", "")}
	for _, key := range c.Keys {
		s.keys = append(s.keys, sha256.Sum256([]byte(key)))
	}
	longest := 0
	for _, m := range c.Models {
		longest = max(longest, m.MaxLength)
	}
	s.metrics = newMetrics(c.Registry, &s.served, longest)
	for _, m := range c.Models {
		s.Add(m)
	}
	s.routes()
	return s
}

// handler answers a request, or returns an error before it has written anything.
type handler func(w http.ResponseWriter, r *http.Request) error

// Endpoints that make answers.
const (
	chatPath        = "/v1/chat/completions"
	completionsPath = "/v1/completions"
	responsesPath   = "/v1/responses"
	messagesPath    = "/v1/messages"
	embeddingsPath  = "/v1/embeddings"
)

// routes registers all endpoints. Those that do work for clients want a key and may meet faults; probes and metrics do
// not.
func (s *Server) routes() {
	generating := map[string]handler{chatPath: s.chat, completionsPath: s.completions, responsesPath: s.responses,
		embeddingsPath: s.embeddings, nativePath: s.native}
	for path, h := range generating {
		s.mux.Handle("POST "+path, s.open(s.keyed(s.generating(h))))
	}
	s.mux.Handle("POST "+messagesPath, s.open(asMessages(s.keyed(s.generating(s.messages)))))
	s.mux.Handle("POST "+messagesPath+"/count_tokens", s.open(asMessages(s.keyed(s.countTokens))))
	for path, h := range map[string]handler{
		"GET /v1/models": s.models, "GET /v1/models/{name...}": s.model, "POST /tokenize": s.tokenize,
		"POST /detokenize":            s.detokenize,
		"POST /v1/completions/render": s.renderCompletions, "POST /v1/chat/completions/render": s.renderChat,
		"POST /sleep": s.sleep, "POST /wake_up": s.wakeUp, "GET /is_sleeping": s.isSleeping,
		"GET /dashboard/state": s.dashboard, "POST /reset_prefix_cache": s.resetPrefixCache,
		"POST /flush_cache": s.flushCache, "GET /flush_cache": s.flushCache,
		"GET /health_generate": s.generating(s.healthGenerate),
		"GET /model_info":      s.modelInfo, "GET /get_model_info": s.modelInfo, "GET /server_info": s.serverInfo,
		"GET /get_server_info": s.serverInfo,
		"GET /get_load":        s.load, "GET /loads": s.loads, "GET /v1/loads": s.loads,
		"POST /v1/load_lora_adapter": s.loadAdapter, "POST /v1/unload_lora_adapter": s.unloadAdapter,
	} {
		s.mux.Handle(path, s.open(s.keyed(h)))
	}
	if s.config.TokenizerInfo {
		s.mux.Handle("GET /tokenizer_info", s.open(s.keyed(s.tokenizerInfo)))
	}
	page := promhttp.HandlerFor(s.config.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
	s.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		s.mustRead(w)
		page.ServeHTTP(w, r)
	})
	for path, h := range map[string]handler{
		"GET /health": s.health, "GET /healthz": s.health, "GET /ready": s.health, "GET /ping": s.health,
		"GET /live":    s.live,
		"GET /version": s.version, "GET /{$}": s.root,
	} {
		s.mux.Handle(path, s.open(h))
	}
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.config.CORS.answer(w, r) {
		return
	}
	r, err := s.viewed(r)
	if err != nil {
		s.open(func(http.ResponseWriter, *http.Request) error { return err })(w, r)
		return
	}
	h, pattern := s.mux.Handler(r)
	if pattern != "" {
		s.mux.ServeHTTP(w, r)
		return
	}
	s.open(func(w http.ResponseWriter, r *http.Request) error { return s.noSuchPath(w, r, h) })(w, r)
}

// noSuchPath returns the error for a path that does not exist, or not with this method.
func (s *Server) noSuchPath(w http.ResponseWriter, r *http.Request, instead http.Handler) error {
	probe := &statusProbe{header: http.Header{}}
	instead.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		allowed := probe.header.Get("Allow")
		w.Header().Set("Allow", allowed)
		p := badRequest("", "%s %s: want method %s", r.Method, shortened([]byte(r.URL.Path)), allowed)
		p.status = http.StatusMethodNotAllowed
		return p
	}
	return notFound("", "there is no %s", shortened([]byte(r.URL.Path)))
}

// statusProbe is a ResponseWriter that only remembers the status.
type statusProbe struct {
	header http.Header
	status int
}

func (p *statusProbe) Header() http.Header         { return p.header }
func (p *statusProbe) Write(b []byte) (int, error) { return len(b), nil }
func (p *statusProbe) WriteHeader(status int)      { p.status = status }

type receivedKey struct{}

func receivedAt(ctx context.Context) time.Time {
	at, _ := ctx.Value(receivedKey{}).(time.Time)
	return at
}

// sessionHeaders name the conversation of a request for routers that keep it on a worker; the first that is given
// counts. vLLM's router reads the first one, SGLang's gateway and Shepherd the second.
var sessionHeaders = []string{"X-Session-Id", "X-Smg-Routing-Key"}

// tenantHeader names the tenant of a request, deadlineHeader how many milliseconds after its arrival the first token
// should be there.
const (
	tenantHeader   = "X-Tenant-Id"
	deadlineHeader = "X-Deadline-Ms"
)

// hints are what headers tell routers of a request.
type hints struct {
	session, tenant string
	deadlineMs      float64
}

type hintsKey struct{}

func hintsOf(ctx context.Context) hints {
	h, _ := ctx.Value(hintsKey{}).(hints)
	return h
}

// withHints keeps what the headers tell routers.
func withHints(ctx context.Context, headers http.Header) (context.Context, error) {
	h := hints{tenant: headers.Get(tenantHeader)}
	for _, name := range sessionHeaders {
		if h.session = headers.Get(name); h.session != "" {
			break
		}
	}
	if text := headers.Get(deadlineHeader); text != "" {
		var err error
		if h.deadlineMs, err = strconv.ParseFloat(text, 64); err != nil || !(h.deadlineMs > 0) ||
			h.deadlineMs > mostDeadlineMs {
			return ctx, badRequest("", "header %s: got %q, want a number of milliseconds above 0 and up to 1e12",
				deadlineHeader, text)
		}
	}
	if h == (hints{}) {
		return ctx, nil
	}
	return context.WithValue(ctx, hintsKey{}, h), nil
}

const mostDeadlineMs = 1e12

// requestID is the header that names a request in logs of clients and servers.
const requestID = "X-Request-Id"

// open returns the outermost layer: it names the request, and makes an answer of an error or a panic.
func (s *Server) open(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.inFlight.Add(1)
		defer s.inFlight.Add(-1)
		if r.ContentLength != 0 { // the rest of a body that nothing reads is awaited too, before the answer
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.config.BodyTimeout))
		}
		if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			// A Content-Length beside it, which net/http takes away, is how requests are smuggled past proxies: RFC
			// 9112, 6.1, wants such a connection closed.
			w.Header().Set("Connection", "close")
		}
		id := r.Header.Get(requestID)
		if id == "" || len(id) > 256 || strings.ContainsFunc(id, func(c rune) bool { return c < ' ' || c > '~' }) {
			id = newID("req-", "")
			r.Header.Set(requestID, id)
		}
		w.Header().Set(requestID, id)
		defer func() {
			if cause := recover(); cause != nil {
				if cause == http.ErrAbortHandler { //nolint:errorlint // the very value, which net/http looks for
					panic(cause)
				}
				s.config.Log.Error("a request failed", "request", id, "cause", cause)
				failed("internal error; request %s", id).write(w)
			}
		}()
		var held hold
		defer held.release()
		ctx := context.WithValue(context.WithValue(r.Context(), receivedKey{}, time.Now()), holdKey{}, &held)
		ctx, err := withHints(ctx, r.Header)
		if err == nil {
			err = h(w, r.WithContext(ctx))
		}
		if err != nil {
			p := asProblem(err)
			s.mustRead(w)
			p.write(w)
			s.metrics.refused(p.status)
			s.board.refused()
		}
	}
}

// mustRead bounds how long the client may take to read what is written next.
func (s *Server) mustRead(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.config.WriteTimeout))
}

// keyed wants a key, if there are any.
func (s *Server) keyed(h handler) handler {
	if len(s.keys) == 0 {
		return h
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ") // the scheme has no case in HTTP
		given = strings.TrimSpace(given)
		if !strings.EqualFold(scheme, "Bearer") {
			given = r.Header.Get("X-Api-Key")
		}
		hash, known := sha256.Sum256([]byte(given)), 0
		for _, key := range s.keys { // all of them, so that the time tells nothing
			known |= subtle.ConstantTimeCompare(hash[:], key[:])
		}
		if known == 0 {
			return &problem{
				status: http.StatusUnauthorized, kind: "invalid_request_error", code: "invalid_api_key",
				message: "Incorrect API key provided: send one as Authorization: Bearer KEY",
			}
		}
		return h(w, r)
	}
}

// generating bounds the time of requests that make answers, and turns them away while the server drains.
func (s *Server) generating(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		s.answering.Add(1) // before the status is looked at: Listener.Close relies on it
		defer s.answering.Add(-1)
		switch s.status() {
		case starting:
			return unavailable("the engines are starting")
		case draining:
			return unavailable("the server is shutting down")
		case waiting:
			return errNoModel
		}
		if s.sleeping.asleep() {
			return unavailable("the server is asleep: POST /wake_up")
		}
		if s.config.Timeout > 0 {
			ctx, cancel := context.WithTimeoutCause(r.Context(), s.config.Timeout, errTooLate)
			defer cancel()
			r = r.WithContext(ctx)
		}
		err := h(w, r)
		if err != nil && context.Cause(r.Context()) == errTooLate {
			return errTooLate
		}
		return err
	}
}

// errNoModel is the error of a request that comes before the first worker.
var errNoModel error = unavailable("no model is served yet: workers are awaited")

// errTooLate is the error of an answer that takes longer than Config.Timeout.
var errTooLate error = &problem{
	status: http.StatusGatewayTimeout, kind: "server_error", code: "timeout",
	message: "the answer took longer than --request-timeout",
}

// overloaded returns the error of a request that finds the queue full.
func (s *Server) overloaded(waiting int) error {
	return &problem{
		status: http.StatusTooManyRequests, kind: "rate_limit_error", code: "rate_limit_exceeded", retryAfter: 1,
		message: fmt.Sprintf("%d requests wait already, and --max-queue is %d", waiting, s.config.MaxQueue),
	}
}

// status is what the server can do.
type status string

const (
	starting status = "starting"
	waiting  status = "waiting for workers"
	ready    status = "ready"
	draining status = "draining"
)

func (s *Server) status() status {
	switch {
	case s.draining.Load():
		return draining
	case time.Since(s.started) < s.config.Startup:
		return starting
	case s.config.Discovers && len(s.served.all()) == 0:
		return waiting
	default:
		return ready
	}
}

// Drain makes the server turn away requests for answers, and report that it is not ready. Requests that it has go on.
func (s *Server) Drain() { s.draining.Store(true) }

// InFlight returns the number of requests that are being answered.
func (s *Server) InFlight() int { return int(s.inFlight.Load()) }

// modelNames lists all names that requests may ask for.
func (s *Server) modelNames() string {
	var names []string
	for _, m := range s.served.all() {
		names = append(names, m.Name)
		for _, a := range m.loaded() {
			names = append(names, a.name)
		}
	}
	const shown = 20
	if len(names) > shown {
		names = append(slices.Clone(names[:shown]), "...")
	}
	return strings.Join(names, ", ")
}
