package frontend

import (
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dynosim/gocore/frontend/routing"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/live/blocks"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/live/publish"
	"dynosim/gocore/live/publish/events"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/protocol/discovery"
)

// publishing is a worker that publishes what it has cached.
type publishing struct {
	*testWorker
	site      *site
	publisher *publish.Worker
}

// publisher adds the events of a worker to the registry: where to ask for them, and with channels where they are
// published.
func (s *site) publisher(channels bool) *publishing {
	s.t.Helper()
	w := s.worker(counting, likeOld(true))
	id := w.store.InstanceID()
	p, err := publish.Start(publish.Config{
		WorkerID: id, Ranks: 1, KVEvents: true, BlockSize: 4, Host: "127.0.0.1",
		Endpoint: discovery.Endpoint{Namespace: "n", Component: "backend", Name: "generate"}, Log: silent,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(p.Close)
	questions := plane.New(plane.Config{Limits: plane.StandardLimits, MaxMessageSize: plane.StandardMaxMessageSize,
		Log: silent, Metrics: plane.NewMetrics(prometheus.NewRegistry(), plane.PerWorker)})
	tcp, err := questions.ListenTCP("127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		tcp.Close()
		questions.Close()
	})
	e := discovery.Endpoint{Namespace: "n", Component: "backend", Name: publish.RecoveryEndpoint(0)}
	path := discovery.Hex(id) + "/" + e.Name
	questions.Register(path, plane.Labels{Endpoint: e.Name, WorkerID: discovery.Hex(id)}, p.Recovery(0))
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Addr().Port))
	records := []discovery.Record{discovery.EndpointRecord(e, id, map[string]string{"tcp": at + "/" + path}, "cpu")}
	if channels {
		records = append(records, p.Records("127.0.0.1")...)
	}
	for _, r := range records {
		if err := w.store.Put(r); err != nil {
			s.t.Fatal(err)
		}
	}
	return &publishing{w, s, p}
}

// likeOld makes a card of 1.3, which does not say whether there are KV events.
func likeOld(answers bool) func(*card.Card) {
	return func(c *card.Card) {
		c.RuntimeConfig.EnableLocalIndexer, c.RuntimeConfig.PublishesKVEvents = answers, nil
	}
}

// cache makes the worker cache the blocks of a prompt from number from on.
func (p *publishing) cache(prompt []uint32, from int) {
	table, change := blocks.New(4), blocks.Change{}
	var ids kvcache.Blocks
	for _, id := range table.Hold(prompt, "").Segments {
		ids = ids.Append(kvcache.BlockID(id), 1)
	}
	change = table.Resolve([]kvcache.Event{{Blocks: ids}})[0]
	if from > 0 {
		change.Parent, change.HasParent = change.Blocks[from-1].Hash, true
		change.Blocks = change.Blocks[from:]
	}
	p.publisher.Cache(0, []blocks.Change{change})
}

// known returns how many tokens of a prompt the frontend believes to be cached where it sends it.
func (s *site) known(prompt []uint32) int {
	c, wake := s.ask(prompt, 1)
	s.end(c, wake)
	return c.Reused()
}

// TestEvents: what a worker has cached before the frontend looks, what it caches later, and what it removes.
func TestEvents(t *testing.T) {
	s := newSite(t, withMode(routing.KV))
	p := s.publisher(true)
	s.publisher(true)
	s.found(2)
	prompt := make([]uint32, 40)
	for i := range prompt {
		prompt[i] = uint32(i)
	}
	p.cache(prompt[:20], 0)
	s.until("20 tokens", func() bool { return s.known(prompt) == 20 })
	p.cache(prompt, 5)
	s.until("40 tokens", func() bool { return s.known(prompt) == 40 })
	later := newSite(t, withMode(routing.KV), func(c *Config) { c.Records = s.registry.Open() })
	later.until("40 tokens at a frontend that comes later", func() bool { return later.known(prompt) == 40 })
	_ = p.store.Close()
	s.found(1)
	if n := s.known(prompt); n != 0 {
		t.Errorf("got %d tokens at a worker that does not have them", n)
	}
}

// TestMissedEvents: when the number of an event shows that others are missing, the worker is asked for them.
func TestMissedEvents(t *testing.T) {
	s := newSite(t, withMode(routing.KV))
	p := s.publisher(false) // nothing is heard of its events
	s.found(1)
	id := p.store.InstanceID()
	feed := func() *feed {
		s.frontend.feedsMu.RLock()
		defer s.frontend.feedsMu.RUnlock()
		return s.frontend.feeds[id][0]
	}()
	s.until("the first answer", func() bool {
		feed.mu.Lock()
		defer feed.mu.Unlock()
		return feed.complete &&
			!feed.asking
	})
	prompt := slices.Repeat([]uint32{7, 8, 9}, 8)
	p.cache(prompt, 0)
	p.cache(append(prompt, 1, 2, 3, 4), 6)
	if n := s.known(prompt); n != 0 {
		t.Fatalf("got %d tokens without having heard of them", n)
	}
	gap := events.RouterEvent{WorkerID: id,
		Event: events.CacheEvent{ID: 3, Data: events.Data{Removed: &events.Removed{BlockHashes: []uint64{1}}}}}
	s.until("that the worker has both events", func() bool {
		feed.hear(gap)
		return s.known(append(prompt, 1, 2, 3, 4)) == 28
	})
	s.until("the last event", func() bool { feed.mu.Lock(); defer feed.mu.Unlock(); return feed.last == 3 })
}

// TestSharedSource: workers that publish at one place are heard once, as long as one of them is there.
func TestSharedSource(t *testing.T) {
	f := &Frontend{config: Config{Mode: routing.KV, Log: silent}, subscribed: map[source]*subscription{},
		unheard: map[source]string{}}
	socket := discovery.ZMQ("tcp://127.0.0.1:1")
	channel := func(publisher uint64, topic string, at discovery.Transport) discovery.Channel {
		return discovery.Channel{Endpoint: discovery.Endpoint{Namespace: "n", Component: "backend"}, Topic: topic,
			Publisher: publisher, Transport: at}
	}
	first, second := channel(1, events.KVTopic, socket), channel(2, events.KVTopic, socket)
	scoped := first // by the same publisher, for 1.6
	scoped.Name, scoped.Transport = "generate", discovery.ZMQ("tcp://127.0.0.1:3")
	broker := channel(3, events.KVTopic, discovery.Transport{Kind: "ZmqBroker"})
	for _, step := range []struct {
		channels      []discovery.Channel
		heard, failed int
	}{
		{[]discovery.Channel{first, second, broker, channel(4, "kv_metrics", discovery.ZMQ("tcp://127.0.0.1:2"))}, 1,
			1},
		{[]discovery.Channel{second, broker}, 1, 1},
		{[]discovery.Channel{first, scoped}, 1, 0},
		{nil, 0, 0},
	} {
		f.followChannels(step.channels)
		if len(f.subscribed) != step.heard || len(f.unheard) != step.failed {
			t.Errorf("%v: got %d subscriptions and %v", step.channels, len(f.subscribed), f.unheard)
		}
	}
}

// TestUnheard: the log says of which workers no KV events are heard and why, once, and when they are.
func TestUnheard(t *testing.T) {
	var mu sync.Mutex
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return text.Write(b)
	}), nil))
	lines := func(worker *testWorker, parts ...string) (n int) {
		mu.Lock()
		defer mu.Unlock()
		for line := range strings.Lines(text.String()) {
			all := strings.Contains(line, discovery.Hex(worker.store.InstanceID()))
			for _, part := range parts {
				all = all && strings.Contains(line, part)
			}
			if all {
				n++
			}
		}
		return n
	}
	const unheard, heard = "KV events of a worker are not heard", "KV events of a worker are heard"
	s := newSite(t, withMode(routing.KV), func(c *Config) { c.Log, c.Patience = log, 20*time.Millisecond })
	good := s.publisher(true)
	s.until("a worker that is heard", func() bool { return lines(good.testWorker, heard) == 1 })
	before := lines(good.testWorker, unheard) // while it was not
	lost := discovery.EventChannelRecord("n", "backend", events.KVTopic, 7, discovery.ZMQ("tcp://127.0.0.1:1"))
	if err := good.store.Put(lost); err != nil {
		t.Fatal(err)
	}
	nowhere, away := s.worker(counting, likeOld(true)), s.worker(counting, likeOld(false))
	mute := s.worker(counting, func(c *card.Card) { no := false; c.RuntimeConfig.PublishesKVEvents = &no })
	s.until("one that publishes none", func() bool { return lines(mute, unheard, "kv_event_publishing_enabled") == 1 })
	s.until("one that cannot be asked", func() bool { return lines(nowhere, unheard, "where to ask") == 1 })
	s.until("a socket that cannot be reached", func() bool { return lines(away, unheard, "127.0.0.1:1") == 1 })
	if lines(good.testWorker, unheard) != before {
		t.Error("a worker that is heard is said not to be")
	}
	if n := lines(nowhere, unheard); n != 1 {
		t.Errorf("got %d lines about one worker", n)
	}
}

// writerFunc is a function as an io.Writer.
type writerFunc func([]byte) (int, error)

// Write implements [io.Writer].
func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
