package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/live/bus"
	"dynosim/gocore/live/bus/bustest"
	"dynosim/gocore/live/freeport"
	"dynosim/gocore/live/plane"
	"dynosim/gocore/live/publish/events"
	"dynosim/gocore/live/publish/eventstest"
	"dynosim/gocore/live/store"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/protocol/discovery"
	"dynosim/gocore/protocol/wire"
)

// startProcess runs two workers of two ranks in this process, with engine-native events from port on if that is above
// 0.
func startProcess(t *testing.T, port int, change ...func(*Config)) (*Process, discovery.Store) {
	t.Helper()
	args := engineargs.Default()
	args.BlockSize, args.NumGPUBlocks, args.SpeedupRatio = 16, 200, 10
	args.Live = engineargs.LiveArgs{Ranks: 2, LocalIndexer: true}
	registry := store.NewMemory()
	metrics := prometheus.NewRegistry()
	silent := slog.New(slog.DiscardHandler)
	c := Config{
		ModelName: "tiny", Card: card.Card{},
		Endpoint: discovery.Endpoint{Namespace: "n", Component: "c", Name: "generate"},
		Args:     args, Workers: 2, Pause: func(int) time.Duration { return 0 },
		OpenStore: func(context.Context) (discovery.Store, error) { return registry.Open(), nil },
		Plane: plane.Config{
			Limits: plane.StandardLimits, MaxMessageSize: plane.StandardMaxMessageSize, Log: silent,
			Metrics: plane.NewMetrics(metrics, plane.PerWorker),
		},
		Listen: "127.0.0.1:0", Host: "127.0.0.1", Device: "cpu", StandardOutput: 16, Log: silent, Registry: metrics,
	}
	if port > 0 {
		c.EventsPorts, c.ReplayPorts = []int{port, port + 2}, []int{port + 4, port + 6}
	}
	for _, apply := range change {
		apply(&c)
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Launch(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.Status().Draining {
			return // the test has shut it down
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := p.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(time.Minute); !p.Status().Ready; time.Sleep(time.Millisecond) {
		select {
		case err := <-p.Failed():
			t.Fatal(err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("not ready: %+v", p.Status())
		}
	}
	return p, registry.Open()
}

// TestNATS: requests come over a NATS server, events leave over it; a restart of the server in between.
func TestNATS(t *testing.T) {
	server := bustest.Start(t)
	_, store := startProcess(t, 0, func(c *Config) {
		c.Requests, c.Events, c.NATS = RequestsOverNATS, EventsOverNATS, &bus.Config{Servers: []string{server.URL}}
	})
	records, err := store.List(discovery.Instances)
	if err != nil {
		t.Fatal(err)
	}
	var record struct {
		InstanceID uint64 `json:"instance_id"`
		Transport  map[string]string
	}
	if err := json.Unmarshal(records[0].Document, &record); err != nil {
		t.Fatal(err)
	}
	subject := record.Transport["nats_tcp"]
	if want := "n_c.generate-" + discovery.Hex(record.InstanceID); subject != want {
		t.Fatalf("got %s, want %s", subject, want)
	}
	client := server.Connect(t)
	stored, err := client.SubscribeSync("namespace.n.component.c.kv-events")
	if err := errors.Join(err, client.Flush()); err != nil {
		t.Fatal(err)
	}
	caller, err := plane.ListenForAnswers("127.0.0.1:0", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	ask := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		body := []byte(`{"token_ids":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16],"stop_conditions":{"max_tokens":3}}`)
		answer, err := caller.SendOver(ctx, plane.Outgoing{ID: uuid.NewString(), Codec: wire.JSON, Body: body},
			func(payload []byte) error {
				_, err := client.RequestWithContext(ctx, subject, payload)
				return err
			})
		if err != nil {
			return err
		}
		defer answer.Close()
		tokens := 0
		for {
			chunk, err := answer.Next()
			if err == io.EOF && tokens == 3 {
				return nil
			}
			if err != nil {
				return fmt.Errorf("after %d tokens: %w", tokens, err)
			}
			tokens += len(chunk.Output.TokenIDs)
		}
	}
	if err := ask(time.Minute); err != nil {
		t.Fatal(err)
	}
	m, err := stored.NextMsg(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	e, err := events.ParseEnvelope(m.Data)
	if err != nil {
		t.Fatal(err)
	}
	list, err := events.ParseRouterEvents(e.Payload)
	if err != nil || len(list) != 1 || list[0].WorkerID != record.InstanceID || list[0].Event.Data.Stored == nil {
		t.Errorf("got %+v, %v", list, err)
	}
	server.Stop()
	server.Restart()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) { // one may get lost
		if err := ask(5 * time.Second); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// generate asks one rank of the first worker and returns the answer.
func generate(t *testing.T, store discovery.Store, prompt []uint32, output uint32, dpRank uint32) []uint32 {
	t.Helper()
	records, err := store.List(discovery.Instances)
	if err != nil {
		t.Fatal(err)
	}
	var record struct{ Transport map[string]string }
	if err := json.Unmarshal(records[0].Document, &record); err != nil {
		t.Fatal(err)
	}
	address, path, _ := strings.Cut(record.Transport["tcp"], "/")
	caller, err := plane.ListenForAnswers("127.0.0.1:0", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	body, _ := wire.EncodeRequest(wire.JSON, wire.Request{
		TokenIDs: prompt, StopConditions: wire.StopConditions{MaxTokens: &output},
		Routing: &wire.Routing{DPRank: &dpRank},
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answer, err := caller.Send(ctx, address, path, plane.Outgoing{ID: uuid.NewString(), Codec: wire.JSON, Body: body})
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	var tokens []uint32
	for {
		chunk, err := answer.Next()
		if err == io.EOF {
			return tokens
		}
		if err != nil || chunk.Error != "" {
			t.Fatal(err, chunk.Error)
		}
		tokens = append(tokens, chunk.Output.TokenIDs...)
	}
}

// TestEventsNameWhatTheClientSaw: the blocks that a rank announces are those of the prompt and of the streamed answer.
func TestEventsNameWhatTheClientSaw(t *testing.T) {
	port := freeport.Ports(t, 8)
	_, store := startProcess(t, port)
	heard := make(chan []uint32, 100)
	for worker := range 2 {
		s := zmq4.NewSub(t.Context(), zmq4.WithLogger(log.New(io.Discard, "", 0)))
		t.Cleanup(func() { _ = s.Close() })
		// rank 1
		if err := s.Dial("tcp://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port+2*worker+1))); err != nil {
			t.Fatal(err)
		}
		if err := s.SetOption(zmq4.OptionSubscribe, ""); err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				m, err := s.Recv()
				if err != nil {
					return
				}
				batch, err := eventstest.Native(m.Frames[2])
				if err != nil || batch.DPRank != 1 {
					t.Errorf("got %+v, %v", batch, err)
				}
				for _, e := range batch.Events {
					heard <- e.Tokens
				}
			}
		}()
	}
	for i := uint32(0); len(heard) == 0; i++ { // until the subscription has arrived
		generate(t, store, slices.Repeat([]uint32{5000 + i}, 16), 1, 1)
	}
	prompt := make([]uint32, 40)
	for i := range prompt {
		prompt[i] = uint32(100 + i)
	}
	want := append(slices.Clone(prompt), generate(t, store, prompt, 30, 1)...)[:64] // 4 full blocks of 70 tokens
	var got []uint32
	for len(got) < len(want) {
		select {
		case tokens := <-heard:
			if len(got) > 0 || len(tokens) > 0 && tokens[0] == prompt[0] { // else it is of a request before
				got = append(got, tokens...)
			}
		case <-time.After(time.Minute):
			t.Fatalf("got %d tokens, want %d", len(got), len(want))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestRecords: what can be found of two workers of two ranks.
func TestRecords(t *testing.T) {
	_, store := startProcess(t, 0)
	for bucket, want := range map[discovery.Bucket]int{
		// generate, and two recovery endpoints for each rank: for 1.3 and for 1.6
		discovery.Instances:     2 * (1 + 2*2),
		discovery.Models:        2,
		discovery.EventChannels: 2 * (2 + 2) * 2, // loads, passes, and KV events of each rank, for 1.3 and for 1.6
		discovery.EventSources:  2 * 2,
	} {
		if records, err := store.List(bucket); err != nil || len(records) != want {
			t.Errorf("%s: got %d records, %v, want %d", bucket, len(records), err, want)
		}
	}
}
