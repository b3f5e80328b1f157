package serve

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"dynosim/gocore/guard"
	"dynosim/gocore/live"
	"dynosim/gocore/live/connlimit"
	"dynosim/gocore/strictjson"
)

// statusServer answers /health, /live and /metrics.
type statusServer struct {
	server  *http.Server
	address string
}

// maxStatusConnections is how many the status server has at the same time. A probe beyond that takes the place of the
// connection that has been there for the longest time.
const maxStatusConnections = 256

const metricsPath = "/metrics"

// statusSpec is what the environment says about the status server.
type statusSpec struct {
	port       int // -1 for no server
	host       string
	paths      []string // of /health and /live, which answer the same; each once
	startReady bool     // whether the process reports that it is ready before all of its workers serve
}

// parseStatus reads the variables of the status server. It listens at listen, if that is not "", unless a variable says
// otherwise.
func parseStatus(env environment, listen string) (s statusSpec, err error) {
	if s.port, err = env.number("DYN_SYSTEM_PORT", -1, -1, math.MaxUint16); err != nil {
		return s, err
	}
	s.host = cmp.Or(env["DYN_SYSTEM_HOST"], listen, "0.0.0.0")
	s.startReady = env["DYN_SYSTEM_STARTING_HEALTH_STATUS"] == "ready"
	for _, probe := range [][2]string{{"DYN_SYSTEM_HEALTH_PATH", "/health"}, {"DYN_SYSTEM_LIVE_PATH", "/live"}} {
		path := cmp.Or(env[probe[0]], probe[1])
		if path[0] != '/' {
			path = "/" + path
		}
		if path == metricsPath || strings.ContainsAny(path, "{} \t") { // the router of requests has a meaning for these
			return s, &strictjson.FieldError{Field: probe[0], Got: strconv.Quote(path),
				Want: "a path without blanks and braces, other than " + metricsPath}
		}
		if !slices.Contains(s.paths, path) {
			s.paths = append(s.paths, path)
		}
	}
	return s, nil
}

// startStatus starts the status server, nil if there is to be none. status tells how the process is.
func startStatus(spec statusSpec, registry *prometheus.Registry, status func() live.Status) (*statusServer, error) {
	if spec.port < 0 {
		return nil, nil
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(spec.host, strconv.Itoa(spec.port)))
	if err != nil {
		return nil, fmt.Errorf("status server: %w", err)
	}
	began := time.Now()
	mux := http.NewServeMux()
	mux.Handle(metricsPath, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	health := func(w http.ResponseWriter, _ *http.Request) {
		answerHealth(w, spec.startReady, status(), time.Since(began))
	}
	for _, path := range spec.paths {
		mux.HandleFunc(path, health)
	}
	s := &statusServer{
		server: &http.Server{
			Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
			MaxHeaderBytes: 64 << 10,
		},
		address: listener.Addr().String(),
	}
	go guard.Func(func() {
		_ = connlimit.New(listener, maxStatusConnections, connlimit.OldestGivesWay).
			Serve(s.server)
	})()
	return s, nil
}

func (s *statusServer) close() {
	if s != nil {
		_ = s.server.Close()
	}
}

// answerHealth says whether all workers serve. With startReady it says so before they do.
func answerHealth(w http.ResponseWriter, startReady bool, s live.Status, up time.Duration) {
	ready := s.Ready || startReady && !s.Draining
	word, code := "ready", http.StatusOK
	if !ready {
		word, code = "notready", http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"status":    word,
		"uptime":    map[string]int64{"secs": int64(up / time.Second), "nanos": int64(up % time.Second)},
		"endpoints": map[string]string{"generate": word},
		"workers":   map[string]int{"launched": s.Workers, "serving": s.Serving},
	})
}

// newRegistry returns a registry for the metrics of this process, with those of every process.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector())
	return registry
}
