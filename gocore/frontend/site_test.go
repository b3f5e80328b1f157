package frontend

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dynosim/gocore/frontend/routing"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/live/store"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/protocol/discovery"
	"dynosim/gocore/protocol/wire"
	"dynosim/gocore/router"
	"dynosim/gocore/server/backend"
	"dynosim/gocore/server/deployment"
	"dynosim/gocore/server/tokens"
)

var silent = slog.New(slog.DiscardHandler)

// site is a frontend and the registry where it finds workers.
type site struct {
	t        *testing.T
	registry *store.Memory
	frontend *Frontend
	limits   plane.Limits // of workers that are added

	mu       sync.Mutex
	models   map[string]Model
	adapters map[string][]string
}

func newSite(t *testing.T, change ...func(*Config)) *site {
	t.Helper()
	s := &site{t: t, registry: store.NewMemory(), limits: plane.StandardLimits, models: map[string]Model{},
		adapters: map[string][]string{}}
	caller, err := plane.ListenForAnswers("127.0.0.1:0", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(caller.Close)
	c := Config{
		Records: s.registry.Open(), Interval: time.Millisecond, Caller: caller, Router: router.DefaultConfig(),
		Standard:  16,
		Folder:    func(c *card.Card) (string, error) { return c.Folder("", "") },
		Tokenizer: func(string) (tokens.Tokenizer, error) { return tokens.Bytes{}, nil },
		Served:    s, Log: silent,
	}
	for _, apply := range change {
		apply(&c)
	}
	s.frontend = Start(c)
	t.Cleanup(s.frontend.Close)
	return s
}

func (s *site) Add(m Model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models[m.Name] = m
}

func (s *site) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.models, name)
	delete(s.adapters, name)
}

func (s *site) Adapters(name string, adapters []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adapters[name] = adapters
}

func (s *site) model(name string) (Model, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, there := s.models[name]
	return m, there
}

func (s *site) until(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("still waiting for %s", what)
		}
	}
}

// served waits until a model is served.
func (s *site) served(name string) backend.Backend {
	s.t.Helper()
	s.until("model "+name, func() bool { _, there := s.model(name); return there })
	m, _ := s.model(name)
	return m.Backend
}

// handler answers the requests of a worker.
type handler func(ctx context.Context, id string, r *wire.Request, reply plane.Reply)

func (h handler) Serve(ctx context.Context, call *plane.Call, reply plane.Reply) {
	r, err := wire.DecodeRequest(call.Codec, call.Body)
	if err != nil {
		_ = reply.Refuse(err.Error())
		return
	}
	h(ctx, call.ID, &r, reply)
}

// testWorker is a worker at an address of its own.
type testWorker struct {
	store discovery.Store
	plane *plane.TCP
}

// worker puts a worker into the registry. change may change its card.
func (s *site) worker(h handler, change ...func(*card.Card)) *testWorker {
	s.t.Helper()
	folder, err := filepath.Abs("../../examples/models/tiny")
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := card.New(card.Model{Folder: folder, DisplayName: "tiny", BlockSize: 4, TotalKVBlocks: 1000, Ranks: 1,
		WorkerType: card.Aggregated})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, apply := range change {
		apply(&c)
	}
	p := plane.New(plane.Config{Limits: s.limits, MaxMessageSize: plane.StandardMaxMessageSize, Log: silent,
		Metrics: plane.NewMetrics(prometheus.NewRegistry(), plane.PerWorker)})
	tcp, err := p.ListenTCP("127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		tcp.Close()
		p.Close()
	})
	w := &testWorker{store: s.registry.Open(), plane: tcp}
	e := discovery.Endpoint{Namespace: "n", Component: "backend", Name: "generate"}
	if c.WorkerType == card.Prefill {
		e.Component = "prefill"
	}
	id := w.store.InstanceID()
	path := discovery.Hex(id) + "/generate"
	p.Register(path, plane.Labels{Namespace: "n", Component: "backend", Endpoint: "generate",
		WorkerID: discovery.Hex(id)}, h)
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Addr().Port))
	for _, r := range []discovery.Record{
		discovery.ModelRecord(e, id, c.JSON()),
		discovery.EndpointRecord(e, id, map[string]string{"tcp": at + "/" + path}, "cpu"),
	} {
		if err := w.store.Put(r); err != nil {
			s.t.Fatal(err)
		}
	}
	return w
}

// found waits until the frontend knows the given number of workers of a model.
func (s *site) found(n int) {
	s.t.Helper()
	s.served("tiny")
	m := s.served("tiny").(*model)
	s.until("the workers", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		all := 0
		for _, g := range m.groups {
			all += g.answer.size()
		}
		return all == n
	})
}

// ask begins a call.
func (s *site) ask(prompt []uint32, most int) (*backend.Call, <-chan struct{}) {
	s.t.Helper()
	wake := make(chan struct{}, 1)
	c := backend.NewCall(backend.Request{ID: "cmpl-x", Prompt: prompt, Most: most, Limited: true}, wake)
	if err := s.served("tiny").Submit(c); err != nil {
		s.t.Fatal(err)
	}
	return c, wake
}

// end waits for the end of a call.
func (s *site) end(c *backend.Call, wake <-chan struct{}) (got []uint32, finish string, failure *deployment.Failure) {
	s.t.Helper()
	limit := time.After(time.Minute)
	for {
		failure = c.Failure()
		if got, finish = c.Take(got); finish != "" || failure != nil {
			return got, finish, failure
		}
		select {
		case <-wake:
		case <-limit:
			s.t.Fatalf("got %v, and no end", got)
		}
	}
}

// counting answers with the numbers after the last token of the prompt.
func counting(_ context.Context, _ string, r *wire.Request, reply plane.Reply) {
	if reply.Accept() != nil {
		return
	}
	say(r, reply, int(*r.StopConditions.MaxTokens))
	reply.Output(wire.Output{Finish: wire.Finish{Reason: wire.FinishLength}})
	_ = reply.Finish()
}

func say(r *wire.Request, reply plane.Reply, n int) {
	last := r.TokenIDs[len(r.TokenIDs)-1]
	for i := range n {
		reply.Output(wire.Output{TokenIDs: []uint32{last + uint32(i) + 1}})
	}
}

// breaking says some tokens and then breaks off.
func breaking(n int) handler {
	return func(_ context.Context, _ string, r *wire.Request, reply plane.Reply) {
		if reply.Accept() == nil {
			say(r, reply, n)
			_ = reply.Flush()
		}
	}
}

func withMode(m routing.Mode) func(*Config) { return func(c *Config) { c.Mode = m } }

func withMigration(n int) func(*Config) { return func(c *Config) { c.MigrationLimit = n } }

// suffixed returns the record of a LoRA adapter.
func suffixed(w *testWorker, e discovery.Endpoint, name string) discovery.Record {
	text, _ := json.Marshal(map[string]string{"display_name": name})
	r := discovery.ModelRecord(e, w.store.InstanceID(), text)
	r.Key += "/" + card.Slug(name)
	return r
}
