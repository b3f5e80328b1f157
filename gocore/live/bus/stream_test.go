package bus

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"dynosim/gocore/live/bus/bustest"
)

// TestStream: everything that is published arrives once and in order, a restart of the server in between.
func TestStream(t *testing.T) {
	s := bustest.Start(t)
	c, err := Connect(Config{Servers: []string{s.URL}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds it there
		if _, err := c.OpenStream("namespace-a", "kv-events"); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := c.OpenStream("namespace-a", "kv-events")
	if err != nil {
		t.Fatal(err)
	}
	const messages = 300
	for i := range messages {
		stream.Publish(fmt.Sprint(i), fmt.Append(nil, i))
		switch i {
		case 100:
			s.Stop()
		case 200:
			time.Sleep(50 * time.Millisecond)
			s.Restart()
		}
	}
	js, err := jetstream.New(s.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.OrderedConsumer(t.Context(), "namespace-a", jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		m, err := consumer.Next(jetstream.FetchMaxWait(time.Minute))
		if err != nil || string(m.Data()) != fmt.Sprint(i) || m.Subject() != "namespace-a.kv-events" {
			t.Fatalf("message %d: got %v, %v", i, m, err)
		}
	}
	s.Stop()
	stream.Publish("late", []byte("late"))
	c.Close() // does not wait for the server
	if c.Lost() != 1 {
		t.Errorf("%d messages are lost, want 1", c.Lost())
	}
}

func TestNoJetStream(t *testing.T) {
	s := bustest.Start(t, func(o *server.Options) { o.JetStream = false })
	c, err := Connect(Config{Servers: []string{s.URL}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.OpenStream("namespace-a", "kv-events"); err == nil ||
		!strings.Contains(err.Error(), "start it with -js") {
		t.Errorf("got %v", err)
	}
}
