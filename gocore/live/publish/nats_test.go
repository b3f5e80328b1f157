package publish

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"dynosim/gocore/engine"
	"dynosim/gocore/live/blocks"
	"dynosim/gocore/live/bus"
	"dynosim/gocore/live/bus/bustest"
	"dynosim/gocore/live/publish/events"
	"dynosim/gocore/live/publish/eventstest"
	"dynosim/gocore/protocol/discovery"
)

func connectBus(t *testing.T, s *bustest.Server) *bus.Conn {
	c, err := bus.Connect(bus.Config{Servers: []string{s.URL}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestNATS: bare envelopes on a subject for each topic, which the records tell.
func TestNATS(t *testing.T) {
	s := bustest.Start(t)
	w := start(t, Config{
		WorkerID: 5, Ranks: 2, KVEvents: true, BlockSize: 2,
		Endpoint: discovery.Endpoint{Namespace: "ns", Component: "backend", Name: "generate"},
		Bus:      connectBus(t, s),
	})
	client := s.Connect(t)
	listen := func(subject string) *nats.Subscription {
		heard, err := client.SubscribeSync(subject)
		if err != nil || client.Flush() != nil {
			t.Fatal(err)
		}
		return heard
	}
	hear := func(heard *nats.Subscription) events.Envelope {
		t.Helper()
		m, err := heard.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		e, err := events.ParseEnvelope(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	loads, stored := listen("namespace.ns.kv_metrics"), listen("namespace.ns.component.backend.kv-events")
	passes := listen("namespace.ns.component.backend.forward-pass-metrics")
	lists := listen("namespace.ns.component.backend.endpoint.generate.kv-events")
	again := listen("namespace.ns.component.backend.endpoint.generate.forward-pass-metrics")
	table := blocks.New(2)
	w.Cache(1, hold(table, 1, 2))
	w.Cache(1, hold(table, 3, 4))
	w.Load(0, 7)
	w.Pass(0, engine.Work{}, 1)
	for i := range 2 {
		e := hear(stored)
		event, err := one(e.Payload)
		if err != nil || e.Topic != events.KVTopic || e.Sequence != uint64(i) || event.Event.DPRank != 1 ||
			event.Event.ID != uint64(i+1) {
			t.Errorf("got %+v, %+v, %v", e, event, err)
		}
	}
	if l, err := eventstest.Map(hear(loads).Payload); err != nil || number(l["kv_used_blocks"]) != 7 {
		t.Errorf("got %+v, %v", l, err)
	}
	if e := hear(passes); e.Topic != events.ForwardPassTopic {
		t.Errorf("got %+v", e)
	}
	if list, err := events.ParseRouterEvents(hear(lists).Payload); err != nil || len(list) != 1 ||
		list[0].Event.DPRank != 1 {
		t.Errorf("got %+v, %v", list, err)
	}
	if e := hear(again); e.Topic != events.ForwardPassTopic {
		t.Errorf("got %+v", e)
	}
	for _, r := range w.Records("192.0.2.7") {
		prefix := "namespace.ns.component.backend"
		if r.Key[:4] == "ns//" {
			prefix = "namespace.ns"
		} else if strings.HasPrefix(r.Key, "namespace/") {
			prefix += ".endpoint.generate"
		}
		want := `"transport":{"kind":"Nats","config":{"subject_prefix":"` + prefix + `"}}}`
		if text := string(r.Document); text[len(text)-len(want):] != want {
			t.Errorf("got %s, want %s", text, want)
		}
	}
}

// TestStream: KV events that are kept are JSON, without an envelope, as in an event captured from the reference.
func TestStream(t *testing.T) {
	s := bustest.Start(t)
	c := connectBus(t, s)
	stream, err := OpenStream(c, discovery.Endpoint{Namespace: "my_ns", Component: "backend"})
	if err != nil {
		t.Fatal(err)
	}
	w := start(t, Config{
		WorkerID: 2324035525006360073, Ranks: 1, KVEvents: true, BlockSize: 64,
		Endpoint: discovery.Endpoint{Namespace: "my_ns", Component: "backend", Name: "generate"}, Stream: stream,
	})
	var prompt []uint32
	for i := range uint32(128) {
		prompt = append(prompt, 64+i%8)
	}
	w.Cache(0, hold(blocks.New(64), prompt...))
	js, err := jetstream.New(s.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.OrderedConsumer(t.Context(), "namespace-my-ns-component-backend-kv-events",
		jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := consumer.Next(jetstream.FetchMaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"worker_id":2324035525006360073,"storage_tier":"device","event":{"event_id":1,` +
		`"data":{"stored":{"parent_hash":null,` +
		`"start_position":null,"blocks":[{"block_hash":1167189920531229540,"tokens_hash":1167189920531229540,` +
		`"mm_extra_info":null},` +
		`{"block_hash":2740076648483441277,"tokens_hash":1167189920531229540,"mm_extra_info":null}]}},"dp_rank":0}}`
	if string(m.Data()) != want || m.Subject() != "namespace-my-ns-component-backend-kv-events.kv-events" {
		t.Errorf("%s: got %s", m.Subject(), m.Data())
	}
	if len(w.Channels()) != 2 {
		t.Errorf("got channels %v", w.Channels())
	}
}
