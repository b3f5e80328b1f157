package publish

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"dynosim/gocore/engine"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/live/blocks"
	"dynosim/gocore/live/freeport"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/live/publish/events"
	"dynosim/gocore/live/publish/eventstest"
	"dynosim/gocore/protocol/discovery"
	"dynosim/gocore/protocol/wire"
)

const patience = time.Minute

func start(t *testing.T, c Config) *Worker {
	t.Helper()
	c.Host, c.Log = "127.0.0.1", slog.New(slog.DiscardHandler)
	w, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func connect(t testing.TB, s zmq4.Socket, port int) {
	t.Helper()
	t.Cleanup(func() { s.Close() })
	if err := s.Dial(fmt.Sprintf("tcp://127.0.0.1:%d", port)); err != nil {
		t.Fatal(err)
	}
}

// subscribe hears everything that is sent to a port from some moment on: probe is called until it does. What further
// calls of it have sent may come before anything else.
func subscribe(t testing.TB, port int, topic string, probe func()) <-chan [][]byte {
	t.Helper()
	s := zmq4.NewSub(context.Background(), zmq4.WithLogger(log.New(io.Discard, "", 0)))
	connect(t, s, port)
	if err := s.SetOption(zmq4.OptionSubscribe, topic); err != nil {
		t.Fatal(err)
	}
	heard := make(chan [][]byte, 1000)
	go func() {
		for {
			m, err := s.Recv()
			if err != nil {
				return
			}
			heard <- m.Frames
		}
	}()
	for range 1000 {
		probe()
		select {
		case <-heard:
			return heard
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatal("the subscriber hears nothing")
	return nil
}

func hear(t *testing.T, heard <-chan [][]byte) [][]byte {
	t.Helper()
	select {
	case frames := <-heard:
		return frames
	case <-time.After(patience):
		t.Fatal("nothing was heard")
		return nil
	}
}

// open decodes a message of the event plane.
func open[T any](t *testing.T, frames [][]byte, parse func([]byte) (T, error)) (events.Envelope, T) {
	t.Helper()
	e, err := events.ParseFrames(frames)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := parse(e.Payload)
	if err != nil {
		t.Fatal(err)
	}
	return e, payload
}

// hearEvent waits for the event of that number; those before it were sent by probes.
func hearEvent[T any](t *testing.T, heard <-chan [][]byte, id uint64, parse func([]byte) (T, error),
	number func(T) uint64) (events.Envelope, T) {
	t.Helper()
	for {
		if envelope, e := open(t, hear(t, heard), parse); number(e) >= id {
			return envelope, e
		}
	}
}

// idOf returns the number of an event.
func idOf(e events.RouterEvent) uint64 { return e.Event.ID }

// one decodes the payload of a message about one event.
func one(b []byte) (e events.RouterEvent, err error) {
	list, err := events.ParseRouterEvents(b)
	if err == nil {
		e = list[0]
	}
	return e, err
}

// hold stores a new block in a table and returns the changes.
func hold(table *blocks.Table, tokens ...uint32) []blocks.Change {
	p := table.Hold(tokens, "")
	return table.Resolve([]kvcache.Event{{Blocks: p.Blocks(0, len(p.Segments))}})
}

func (w *Worker) channelOf(topic string, at int) Channel {
	for _, c := range w.Channels() {
		if c.Topic == topic {
			if at == 0 {
				return c
			}
			at--
		}
	}
	return Channel{}
}

func TestChannels(t *testing.T) {
	w := start(t, Config{WorkerID: 5, Ranks: 2, KVEvents: true, BlockSize: 2})
	text := ""
	ids := map[uint64]bool{}
	for _, c := range w.Channels() {
		text += fmt.Sprintf("%s %v; ", c.Topic, c.NamespaceScoped)
		ids[c.PublisherID] = true
	}
	if want := "forward-pass-metrics false; kv_metrics true; kv-events false; kv-events false; "; text != want ||
		len(ids) != 4 {
		t.Errorf("got %s with %d ids", text, len(ids))
	}
	quiet := start(t, Config{WorkerID: 5, Ranks: 2, BlockSize: 2})
	if n := len(quiet.Channels()); n != 2 {
		t.Errorf("a worker without KV events has %d channels, want 2", n)
	}
	quiet.Cache(0, hold(blocks.New(2), 1, 2))
}

func TestKVEvents(t *testing.T) {
	w := start(t, Config{WorkerID: 5, Ranks: 2, KVEvents: true, BlockSize: 2})
	table := blocks.New(2)
	next := uint32(0)
	store := func() { next++; w.Cache(1, hold(table, next, next)) }
	channel := w.channelOf(events.KVTopic, 1)
	heard := subscribe(t, channel.Port, events.KVTopic, store)
	store()
	first, e := hearEvent(t, heard, uint64(next), one, idOf)
	if first.PublisherID != channel.PublisherID || e.WorkerID != 5 || e.Event.DPRank != 1 ||
		e.Event.ID != uint64(next) || first.Sequence != uint64(next)-1 {
		t.Errorf("got %+v, %+v", first, e)
	}
	if age := time.Since(time.UnixMilli(int64(first.PublishedAt))); age < -time.Second || age > time.Minute {
		t.Errorf("published %v ago", age)
	}
	store()
	if second, _ := open(t, hear(t, heard), one); second.Sequence != first.Sequence+1 {
		t.Errorf("message %d follows %d", second.Sequence, first.Sequence)
	}
	if a := w.Answer(1, events.Query{WorkerID: 5, DPRank: 1}); len(a.TreeDump.Events) != int(next) ||
		a.TreeDump.LastEventID != uint64(next) {
		t.Errorf("got %+v", a.TreeDump)
	}
	if a := w.Answer(0, events.Query{WorkerID: 5}); len(a.TreeDump.Events) != 0 {
		t.Errorf("the other rank has %+v", a.TreeDump)
	}
}

// TestRecovery asks as a router does, in both codecs.
func TestRecovery(t *testing.T) {
	w := start(t, Config{WorkerID: 1<<63 + 5, Ranks: 2, KVEvents: true, BlockSize: 2})
	w.Cache(1, hold(blocks.New(2), 1, 2))
	p := plane.New(plane.Config{Limits: plane.StandardLimits, MaxMessageSize: plane.StandardMaxMessageSize,
		Log: slog.New(slog.DiscardHandler), Metrics: plane.NewMetrics(prometheus.NewRegistry(), plane.PerWorker)})
	p.Register("a/"+RecoveryEndpoint(1), plane.Labels{}, w.Recovery(1))
	listener, err := p.ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	caller, err := plane.ListenForAnswers("127.0.0.1:0", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, codec := range []wire.Codec{wire.JSON, wire.MessagePack} {
		body, err := wire.Encode(codec, events.Query{WorkerID: 1<<63 + 5, DPRank: 1})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := caller.Send(ctx, listener.Addr().String(), "a/worker_kv_indexer_query_dp1",
			plane.Outgoing{ID: uuid.NewString(), Codec: codec, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		item, err := answer.Body()
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Data struct {
				TreeDump struct {
					LastEventID uint64 `json:"last_event_id"`
				}
			}
		}
		if err := wire.Decode(codec, item, &got); err != nil || got.Data.TreeDump.LastEventID != 1 ||
			!strings.Contains(string(item), "tokens_hash") {
			t.Errorf("got %q, %v", item, err)
		}
		answer.Close()
		if _, err := caller.Send(ctx, listener.Addr().String(), "a/worker_kv_indexer_query_dp1",
			plane.Outgoing{ID: uuid.NewString(), Codec: codec, Body: []byte("nonsense")}); err == nil ||
			!strings.Contains(err.Error(), "recovery query") {
			t.Errorf("nonsense: got %v", err)
		}
	}
}

func TestRecords(t *testing.T) {
	w := start(t, Config{WorkerID: 5, Ranks: 1, KVEvents: true, BlockSize: 2,
		Endpoint: discovery.Endpoint{Namespace: "ns", Component: "backend", Name: "generate"}})
	keys := ""
	for _, r := range w.Records("192.0.2.7") {
		keys += strings.TrimRight(r.Key, "0123456789abcdef") + " "
		if !strings.Contains(string(r.Document), `"tcp://192.0.2.7:`) {
			t.Errorf("got %s", r.Document)
		}
	}
	if want := strings.ReplaceAll("ns/backend/forward-pass-metrics/ SCOPED/forward-pass-metrics/ ns//kv_metrics/ "+
		"SCOPED/kv_metrics/ "+
		"ns/backend/kv-events/ SCOPED/kv-events/ ", "SCOPED",
		"namespace/ns/component/backend/endpoint/generate/topic"); keys != want {
		t.Errorf("got %s, want %s", keys, want)
	}
}

// TestLists: for 1.6, KV events are sent again at a socket of their own, in lists.
func TestLists(t *testing.T) {
	w := start(t, Config{WorkerID: 5, Ranks: 1, KVEvents: true, BlockSize: 2})
	table, next := blocks.New(2), uint32(0)
	store := func() { next++; w.Cache(0, hold(table, next, next)) }
	channel := w.channelOf(events.KVTopic, 0)
	if loads := w.channelOf(events.LoadTopic, 0); channel.Port == channel.ScopedPort || loads.Port != loads.ScopedPort {
		t.Errorf("got %+v and %+v", channel, loads)
	}
	heard := subscribe(t, channel.ScopedPort, events.KVTopic, store)
	store()
	e, list := hearEvent(t, heard, uint64(next), events.ParseRouterEvents,
		func(list []events.RouterEvent) uint64 { return idOf(list[0]) })
	if e.PublisherID != channel.PublisherID || len(list) != 1 || list[0].Event.ID != uint64(next) ||
		list[0].Domain != events.WorkerDomain || e.Payload[0] != 0x91 {
		t.Errorf("got %+v, %+v", e, list)
	}
}

// TestLoads: changes of different ranks within the same millisecond all arrive, each rank's last one only.
func TestLoads(t *testing.T) {
	w := start(t, Config{WorkerID: 5, Ranks: 3, BlockSize: 2})
	used := 0
	heard := subscribe(t, w.channelOf(events.LoadTopic, 0).Port, events.LoadTopic, func() { used++; w.Load(0, used) })
	for rank := range 3 {
		w.Load(rank, 1000)
		w.Load(rank, 2000+rank)
	}
	last := map[string]string{}
	for last["0"] != "2000" || last["1"] != "2001" || last["2"] != "2002" {
		_, l := open(t, hear(t, heard), eventstest.Map)
		last[fmt.Sprint(l["dp_rank"])] = fmt.Sprint(l["kv_used_blocks"])
	}
}

func TestPasses(t *testing.T) {
	w := start(t, Config{WorkerID: 5, Ranks: 2, BlockSize: 2})
	heard := subscribe(t, w.channelOf(events.ForwardPassTopic, 0).Port, events.ForwardPassTopic,
		func() { w.Pass(1, engine.Work{}, 1) })
	var work engine.Work
	work.Scheduled.AddDecode(7)
	began := time.Now()
	w.Pass(1, work, 0.5)
	pass := func() map[string]any {
		_, f := open(t, hear(t, heard), eventstest.Map)
		return f
	}
	f := pass()
	for f["wall_time"] != 0.5 { // heartbeats, and passes that were probes
		f = pass()
	}
	tokens := f["scheduled_requests"].(map[string]any)["sum_decode_kv_tokens"]
	if f["worker_id"] != "5" || number(f["dp_rank"]) != 1 || f["wall_time"] != 0.5 || number(tokens) != 7 {
		t.Errorf("got %+v", f)
	}
	for last := number(f["counter_id"]); ; {
		f := pass()
		if number(f["dp_rank"]) != 1 {
			continue
		}
		if took := time.Since(began); number(f["counter_id"]) != last+1 || f["wall_time"] != 0.0 ||
			took < 500*time.Millisecond {
			t.Errorf("after %v: got %+v, want a heartbeat", took, f)
		}
		break
	}
}

// number returns a decoded number.
func number(value any) int {
	n, _ := strconv.Atoi(fmt.Sprint(value))
	return n
}

func TestNativeAndReplay(t *testing.T) {
	port, replay := freeport.Ports(t, 2), freeport.Ports(t, 2)
	w := start(t, Config{WorkerID: 5, Ranks: 2, KVEvents: true, NativePort: port, ReplayPort: replay, BlockSize: 2})
	table := blocks.New(2)
	table.KeepTokens()
	next := uint32(0)
	store := func() { next++; w.Cache(1, hold(table, next, next+1)) }
	heard := subscribe(t, port+1, "", store)
	store()
	frames := hear(t, heard)
	for len(frames) == 3 && binary.BigEndian.Uint64(frames[1]) < uint64(next)-1 { // of a probe
		frames = hear(t, heard)
	}
	if len(frames) != 3 || len(frames[0]) != 0 || binary.BigEndian.Uint64(frames[1]) != uint64(next)-1 {
		t.Fatalf("got %q", frames)
	}
	batch, err := eventstest.Native(frames[2])
	if err != nil || batch.DPRank != 1 || len(batch.Events) != 1 ||
		fmt.Sprint(batch.Events[0].Tokens) != fmt.Sprint([]uint32{next, next + 1}) || batch.Events[0].BlockSize != 2 {
		t.Errorf("got %+v, %v", batch, err)
	}
	d := zmq4.NewDealer(context.Background(), zmq4.WithLogger(log.New(io.Discard, "", 0)))
	connect(t, d, replay+1)
	for _, request := range [][][]byte{{{}, {1, 2}}, {{}, binary.BigEndian.AppendUint64(nil, uint64(next)-1)}} {
		if err := d.SendMulti(zmq4.NewMsgFrom(request...)); err != nil {
			t.Fatal(err)
		}
	}
	first, err1 := d.Recv()
	last, err2 := d.Recv()
	if err1 != nil || err2 != nil || fmt.Sprint(first.Frames) != fmt.Sprint(frames) ||
		fmt.Sprint(last.Frames) != fmt.Sprint(events.EndOfReplay()) {
		t.Errorf("replayed %q, then %q", first.Frames, last.Frames)
	}
}

func TestBadConfigs(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	for want, c := range map[string]Config{
		"at least 1":             {},
		"has none":               {Ranks: 1, NativePort: 5000},
		"needs one":              {Ranks: 1, KVEvents: true, ReplayPort: 5000},
		"got 65535 to 65536":     {Ranks: 2, KVEvents: true, NativePort: 65535},
		"got -4 to -4":           {Ranks: 1, KVEvents: true, NativePort: -4},
		fmt.Sprintf(":%d", port): {Ranks: 1, KVEvents: true, NativePort: port},
	} {
		c.Host, c.Log = "127.0.0.1", slog.New(slog.DiscardHandler)
		if _, err := Start(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func TestClose(t *testing.T) {
	w, err := Start(Config{Ranks: 4, KVEvents: true, BlockSize: 2, Host: "127.0.0.1",
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	subscribe(t, w.channelOf(events.LoadTopic, 0).Port, "", func() { w.Load(0, time.Now().Nanosecond()) })
	w.Close()
	w.Cache(0, hold(blocks.New(2), 1, 2)) // there is no subscriber
}
