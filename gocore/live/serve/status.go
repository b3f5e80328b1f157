package serve

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"dynosim/gocore/live"
	"dynosim/gocore/live/connlimit"
	"dynosim/gocore/live/guard"
)

// statusServer answers /health, /live and /metrics.
type statusServer struct {
	server  *http.Server
	address string
}

// maxStatusConnections is how many the status server has at the same time. A probe beyond that takes the place of the
// connection that has been there for the longest time.
const maxStatusConnections = 256

// startStatus starts the status server if the environment asks for one. status tells how the process is.
func startStatus(env environment, registry *prometheus.Registry, status func() live.Status) (*statusServer, error) {
	port, err := env.number("DYN_SYSTEM_PORT", -1, -1, math.MaxUint16)
	if err != nil || port < 0 {
		return nil, err
	}
	host := env["DYN_SYSTEM_HOST"]
	if host == "" {
		host = "0.0.0.0"
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("status server: %w", err)
	}
	began := time.Now()
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	health := func(w http.ResponseWriter, _ *http.Request) { answerHealth(w, env, status(), time.Since(began)) }
	paths := map[string]bool{}
	for name, standard := range map[string]string{"DYN_SYSTEM_HEALTH_PATH": "/health", "DYN_SYSTEM_LIVE_PATH": "/live"} {
		path := env[name]
		if path == "" {
			path = standard
		}
		if path[0] != '/' {
			path = "/" + path
		}
		paths[path] = true
	}
	for path := range paths {
		mux.HandleFunc(path, health)
	}
	s := &statusServer{
		server: &http.Server{
			Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		},
		address: listener.Addr().String(),
	}
	go guard.Func(func() { _ = connlimit.New(listener, maxStatusConnections, connlimit.OldestGivesWay).Serve(s.server) })()
	return s, nil
}

func (s *statusServer) close() {
	if s != nil {
		_ = s.server.Close()
	}
}

// answerHealth says whether all workers serve. Before they do, the environment may want to hear that they do.
func answerHealth(w http.ResponseWriter, env environment, s live.Status, up time.Duration) {
	ready := s.Ready || env["DYN_SYSTEM_STARTING_HEALTH_STATUS"] == "ready" && !s.Draining
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
