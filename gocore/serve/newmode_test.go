package serve

import (
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/enginemetrics"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/router"
	"dynosim/gocore/server/cluster"
)

// lastWorker is a routing mode as another package might bring it along: all requests go to the last worker.
type lastWorker struct {
	workers  int
	admitted [1]router.Admission
}

func init() {
	router.Register(router.Mode{Name: "last_worker",
		New: func(o router.Options) router.Router { return &lastWorker{workers: o.Workers} }})
}

func (*lastWorker) Traits() router.Traits { return router.Traits{} }

func (l *lastWorker) Submit(r router.Request, _ float64) ([]router.Admission, error) {
	l.admitted[0] = router.Admission{ID: r.ID, Worker: l.workers - 1}
	return l.admitted[:], nil
}

func (*lastWorker) PrefillCompleted(int32, float64) ([]router.Admission, error) { return nil, nil }
func (*lastWorker) Free(int32, float64) ([]router.Admission, error)             { return nil, nil }
func (*lastWorker) Cancel(int32, float64) ([]router.Admission, error)           { return nil, nil }
func (*lastWorker) Apply(int, []kvcache.Event)                                  {}

type noSink struct{}

func (noSink) Routed(int, int, int)  {}
func (noSink) Admitted(int, float64) {}
func (noSink) Emitted(int, float64)  {}
func (noSink) Ended(string, float64) {}

// promptTokens serves requests on the clusters of the only model of a description, and counts prompt tokens by pool and
// worker.
func promptTokens(t *testing.T, members string) (counts [2][3]int) {
	t.Helper()
	spec, err := parseServer(describe(t, members))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	loaded, err := spec.load(NewStop(), nil, log)
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.close()
	start := serverStart{metrics: map[engineargs.EngineType]*enginemetrics.Metrics{},
		registry: prometheus.NewRegistry(), log: log}
	config, _, _, err := start.cluster(&loaded.models[0])
	if err != nil {
		t.Fatal(err)
	}
	config.Loaded = func(pool, worker int, l cluster.Load) { counts[pool][worker] = l.Prompt }
	c := cluster.New(config)
	for range 4 {
		if err := c.Step(0, []*cluster.Request{{PromptTokens: 10, OutputTokens: 2, Sink: noSink{}}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Step(1e6, nil, nil); err != nil || c.Requests() > 0 {
		t.Fatalf("%d requests are left, error %v", c.Requests(), err)
	}
	return counts
}

// TestNewRoutingMode: a mode that a package registers is chosen by its name, for one pool and for two, as one of
// several models, and is among those that messages list.
func TestNewRoutingMode(t *testing.T) {
	if got, want := promptTokens(t, `, "num_workers": 3, "router_mode": "last_worker"`),
		([2][3]int{{0, 0, 40}}); got != want {
		t.Errorf("one pool: got %v, want %v", got, want)
	}
	pools := promptTokens(t, `, "num_prefill_workers": 2, "num_decode_workers": 3, "router_mode": "last_worker"`)
	if got, want := pools[0], ([3]int{0, 40, 0}); got != want {
		t.Errorf("prefill workers: got %v, want %v", got, want)
	}
	if got, want := promptTokens(t, `, "num_workers": 3, "models": "[{\"router_mode\": \"last_worker\"}]"`),
		([2][3]int{{0, 0, 40}}); got != want {
		t.Errorf("a model of a list: got %v, want %v", got, want)
	}
	if got, want := promptTokens(t, `, "num_workers": 2`), ([2][3]int{{20, 20, 0}}); got != want {
		t.Errorf("in turn: got %v, want %v", got, want)
	}
	_, err := parseServer(describe(t, `, "router_mode": "best"`))
	if err == nil || !strings.Contains(err.Error(), "round-robin, random, kv, least_requests, ") {
		t.Errorf("got %v", err)
	}
}

// TestRouterModes: the modes of frontends have their names here, and only those.
func TestRouterModes(t *testing.T) {
	got := routerModes()
	if want := []string{"round-robin", "random", "kv", "least_requests"}; !slices.Equal(got[:len(want)], want) ||
		got[len(got)-1] != "last_worker" {
		t.Errorf("got %v, want %v", got, want)
	}
	if slices.Contains(got, router.RoundRobinMode) || slices.Contains(got, router.KVMode) {
		t.Errorf("names of replays: %v", got)
	}
	if got := configuredModes(); got != "kv" {
		t.Errorf("got %q", got)
	}
}
