package plane

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"dynosim/gocore/live/bus"
	"dynosim/gocore/live/bus/bustest"
	"dynosim/gocore/protocol/wire"
)

const subject = "dynamo_backend.generate-7"

// natsCaller is a frontend that sends requests over a NATS server.
type natsCaller struct {
	*Caller
	nats *nats.Conn
}

func (c *natsCaller) request(ctx context.Context, body string) (*Answer, error) {
	return c.SendOver(ctx, Outgoing{uuid.NewString(), wire.JSON, []byte(body)}, func(payload []byte) error {
		m, err := c.nats.RequestWithContext(ctx, subject, payload)
		if err == nil && len(m.Data) > 0 {
			err = errors.New("the acknowledgement is not empty")
		}
		return err
	})
}

func startNATS(t *testing.T, limits Limits, h handlerFunc) (*NATS, *natsCaller, *bustest.Server) {
	t.Helper()
	server := bustest.Start(t)
	connection, err := bus.Connect(bus.Config{Servers: []string{server.URL}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	p := newPlane(limits)
	p.Register(path, Labels{WorkerID: "7"}, h)
	n := p.ListenNATS(connection)
	t.Cleanup(func() { n.Close(); ended(p) })
	if err := n.Serve(path, subject, bus.Service{Name: "dynamo_backend", Version: "1.0.0",
		Endpoint: "generate-7"}); err != nil {
		t.Fatal(err)
	}
	caller, err := ListenForAnswers("127.0.0.1:0", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(caller.Close)
	return n, &natsCaller{caller, server.Connect(t)}, server
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestNATSAnswers(t *testing.T) {
	n, caller, _ := startNATS(t, StandardLimits, echo)
	large := `{"token_ids":[5` + strings.Repeat(" ", countedFrom) + `]}`
	var calls sync.WaitGroup
	for i := range 40 {
		calls.Go(func() {
			body := `{"token_ids":[5]}`
			if i%4 == 0 {
				body = large
			}
			answer, err := caller.request(soon(t), body)
			if err != nil {
				t.Error(err)
				return
			}
			defer answer.Close()
			if chunk, err := answer.Next(); err != nil || len(chunk.Output.TokenIDs) != 1 ||
				chunk.Output.TokenIDs[0] != 5 {
				t.Errorf("got %v, %v", chunk, err)
			}
		})
	}
	calls.Wait()
	for body, want := range map[string]string{"{": "unexpected end", `{"token_ids":1}`: "token_ids"} {
		if _, err := caller.request(soon(t), body); !errors.Is(err, ErrRefused) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
	}
	if err := caller.nats.Publish(subject, []byte("garbage")); err != nil { // there is no address for a refusal
		t.Fatal(err)
	}
	n.plane.Unregister(path)
	if _, err := caller.request(soon(t), "{}"); !errors.Is(err, ErrRefused) ||
		!strings.Contains(err.Error(), "unknown endpoint") {
		t.Errorf("got %v", err)
	}
	n.Withdraw(path)
	if _, err := caller.request(soon(t), "{}"); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("got %v", err)
	}
}

func TestNATSOverload(t *testing.T) {
	enough := make(chan struct{})
	_, caller, _ := startNATS(t, Limits{Active: 1, Queued: 1}, echoAfter(enough))
	results := make(chan error)
	for range 5 {
		go func() {
			_, err := caller.request(soon(t), "{}")
			results <- err
		}()
	}
	expectOverload(t, results, 3)
	close(enough)
	expectServed(t, results, 2)
}

// TestNATSRestart: under load the server is restarted twice. What was acknowledged is answered, once; what is sent
// after that is served again.
func TestNATSRestart(t *testing.T) {
	_, caller, server := startNATS(t, StandardLimits, echo)
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for range 8 {
		load.Go(func() {
			for ctx.Err() == nil {
				answer, err := caller.request(ctx, `{"token_ids":[1,2,3]}`)
				if err != nil { // it was not acknowledged
					time.Sleep(10 * time.Millisecond)
					continue
				}
				tokens := 0
				for {
					chunk, err := answer.Next()
					if err == io.EOF {
						break
					}
					if err != nil {
						t.Error(err)
						break
					}
					tokens += len(chunk.Output.TokenIDs)
				}
				answer.Close()
				if tokens != 3 {
					t.Errorf("got %d tokens", tokens)
				}
			}
		})
	}
	again := func() error { // a request may get lost when the server goes
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		answer, err := caller.request(ctx, "{}")
		if err == nil {
			answer.Close()
		}
		return err
	}
	for range 2 {
		time.Sleep(200 * time.Millisecond)
		server.Stop()
		time.Sleep(200 * time.Millisecond)
		server.Restart()
		recovered := time.Now()
		for {
			err := again()
			if err == nil {
				break
			}
			if time.Since(recovered) > time.Minute {
				t.Fatalf("not served since: %v", err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	time.Sleep(200 * time.Millisecond)
	stop()
	load.Wait()
}
