package serve

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"dynosim/gocore/engine"
	"dynosim/gocore/live"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/protocol/discovery"
)

// TestParse: a description and its environment become typed values.
func TestParse(t *testing.T) {
	s, err := Parse(`{"model_path": "a/b", "num_workers": 2, "disaggregation_mode": "prefill",
		"data_parallel_size": 3, "block_size": 32,
		"bootstrap_ports": "8998, 8999", "request_plane": "http", "max_worker_histograms": 5, "seed": 18446744073709551615,
		"kv_cache_dtype": "fp8", "zmq_kv_events_ports": "5000,5010",
		"environment": ["DYN_DISCOVERY_BACKEND=mem", "DYN_NAMESPACE=n", "DYN_SYSTEM_PORT=0",
		"DYN_SYSTEM_HEALTH_PATH=live", "DYN_LOG=dynamo=info,warn",
			"DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS=7", "HF_HUB_CACHE=/hub", "DYN_TCP_MAX_MESSAGE_SIZE=2048"]}`)
	if err != nil {
		t.Fatal(err)
	}
	if s.args.Role != engine.Prefill || s.args.Live.Ranks != 3 || s.args.BlockSize != 32 || s.seed != 1<<64-1 ||
		s.standardOutput != 16 {
		t.Errorf("got %+v", s)
	}
	w := s.workers
	if w.count != 2 || w.drain != 7*time.Second ||
		w.endpoint != (discovery.Endpoint{Namespace: "n", Component: "prefill", Name: "generate"}) ||
		!slices.Equal(w.bootstrapPorts, []int{8998, 8999}) || !slices.Equal(w.eventsPorts, []int{5000, 5010}) ||
		w.replayPorts != nil {
		t.Errorf("got %+v", w)
	}
	p := s.planes
	if p.requests != live.RequestsOverHTTP || p.events != live.EventsOverZMQ || p.nats != nil ||
		p.maxMessageSize != 2048 || p.detail != plane.PerModel ||
		p.discovery != (memoryBackend{}) || len(p.warnings) != 1 {
		t.Errorf("got %+v", p)
	}
	if s.model != (modelSpec{path: "a/b", name: "a/b", cache: "/hub", release: "1.6", kvType: "fp8"}) {
		t.Errorf("got %+v", s.model)
	}
	if s.status.port != 0 || !slices.Equal(s.status.paths, []string{"/live"}) ||
		s.log != (logSpec{level: slog.LevelWarn}) {
		t.Errorf("got %+v, %+v", s.status, s.log)
	}
}

// TestRanksOfLiveWorkers: by an engine's own rules they share an engine, and what replays refuse of them is refused.
func TestRanksOfLiveWorkers(t *testing.T) {
	for arguments, engines := range map[string]int{
		`{\"scheduler\": \"vllm\", \"dp_size\": 4}`:                                1,
		`{\"engine_type\": \"sglang\", \"scheduler\": \"sglang\", \"dp_size\": 2}`: 1,
		`{\"scheduler\": \"vllm\"}`:                                                1,
		`{\"dp_size\": 4}`:                                                         4,
	} {
		s, err := Parse(`{"model_path": "m", "discovery_backend": "mem", "extra_engine_args": "` + arguments + `"}`)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.args.Engines(); got != engines || len(s.warnings) > 0 {
			t.Errorf("%s: got %d engines, want %d: %q", arguments, got, engines, s.warnings)
		}
	}
	refused := `{\"engine_type\": \"sglang\", \"scheduler\": \"sglang\", \"dp_size\": 2, ` +
		`\"sglang\": {\"scheduler_recv_interval\": 2}}`
	_, err := Parse(`{"model_path": "m", "discovery_backend": "mem", "extra_engine_args": "` + refused + `"}`)
	if err == nil || !strings.Contains(err.Error(), "dp_size: got 2, want 1 with sglang.scheduler_recv_interval") {
		t.Errorf("got %v", err)
	}
}

// TestKVEventLag: it is that of workers with KV events, and others say that they have none.
func TestKVEventLag(t *testing.T) {
	const common = `{"model_path": "m", "discovery_backend": "mem", "event_plane": "zmq", "kv_event_lag_ms": 1.5`
	for _, c := range []struct {
		members string
		warns   bool
	}{{`}`, false}, {`, "disaggregation_mode": "prefill"}`, false}, {`, "disaggregation_mode": "decode"}`, true},
		{`, "enable_prefix_caching": false}`, true}} {
		s, err := Parse(common + c.members)
		if err != nil {
			t.Fatal(err)
		}
		if s.planes.kvEventLag != 1500*time.Microsecond ||
			strings.Contains(strings.Join(s.planes.warnings, "\n"), "kv_event_lag_ms has no effect") != c.warns {
			t.Errorf("%s: got %v and warnings %q", c.members, s.planes.kvEventLag, s.planes.warnings)
		}
	}
	for _, wrong := range []string{`-1}`, `1e10}`} {
		if _, err := Parse(`{"model_path": "m", "kv_event_lag_ms": ` + wrong); err == nil ||
			!strings.HasPrefix(err.Error(), "kv_event_lag_ms: got") {
			t.Errorf("%s: got %v", wrong, err)
		}
	}
}

// TestParseRefuses what is wrong before files are read, sockets opened or the AIC SDK is asked.
func TestParseRefuses(t *testing.T) {
	const model = `"model_path": "m", `
	for _, test := range []struct{ description, want string }{
		{`{"discovery_backend": "mem"}`, "model_path: got nothing, want the folder of the model"},
		{`{` + model + `"discovery_backend": "mem", "environment": ["DYN_SYSTEM_HEALTH_PATH=metrics"]}`,
			`DYN_SYSTEM_HEALTH_PATH: got "/metrics", want a path without blanks and braces, other than /metrics`},
		{`{` + model + `"discovery_backend": "mem", "environment": ["DYN_SYSTEM_PORT=70000"]}`,
			`environment variable DYN_SYSTEM_PORT: got "70000", want an integer from -1 to 65535`},
		{`{` + model + `"discovery_backend": "mem", "environment": ["DYN_TCP_RPC_PORT=x"]}`,
			`environment variable DYN_TCP_RPC_PORT: got "x", want an integer from 0 to 65535`},
		{`{` + model + `"zmq_replay_ports": "5000"}`, "zmq_replay_ports: requires zmq_kv_events_ports"},
		{`{` + model + `"endpoint": "dyn://A.b.c"}`, `endpoint: got "dyn://A.b.c"`},
		{`{` + model + `"num_workers": 2, "bootstrap_ports": "1"}`,
			"bootstrap_ports: must have exactly num_workers (2) ports, got 1"},
	} {
		if _, err := Parse(test.description); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.description, err, test.want)
		}
	}
}
