package plane

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"dynosim/gocore/protocol/wire"
)

const path = "7/generate"

// handlerFunc is a handler of one function.
type handlerFunc func(context.Context, *Call, Reply)

func (f handlerFunc) Serve(ctx context.Context, c *Call, r Reply) { f(ctx, c, r) }

// echo answers with as many tokens as the request has, the same ones.
func echo(_ context.Context, c *Call, r Reply) {
	request, err := wire.DecodeRequest(c.Codec, c.Body)
	if err != nil {
		_ = r.Refuse(err.Error())
		return
	}
	c.Decoded()
	if r.Accept() != nil {
		return
	}
	for _, token := range request.TokenIDs {
		r.Output(wire.Output{TokenIDs: []uint32{token}})
	}
	r.Output(wire.Output{Finish: wire.Finish{Reason: wire.FinishLength}})
	_ = r.Finish()
}

func newPlane(limits Limits) *Plane {
	return New(Config{
		Limits: limits, MaxMessageSize: 1 << 20, Log: slog.New(slog.DiscardHandler),
		Metrics: NewMetrics(prometheus.NewRegistry(), PerWorker),
	})
}

func start(t *testing.T, limits Limits, h handlerFunc) (*TCP, *Caller) {
	t.Helper()
	return listen(t, newPlane(limits), h)
}

func listen(t *testing.T, p *Plane, h handlerFunc) (*TCP, *Caller) {
	t.Helper()
	p.Register(path, Labels{WorkerID: "7"}, h)
	tcp, err := p.ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tcp.Close(); ended(p) })
	caller, err := ListenForAnswers("127.0.0.1:0", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(caller.Close)
	return tcp, caller
}

// ended closes a plane whose way in is closed, and waits until its handlers have returned.
func ended(p *Plane) {
	p.Close()
	// a test that has failed may have left some waiting
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = p.Wait(ctx)
}

func call(t *testing.T, tcp *TCP, c *Caller, path string, codec wire.Codec, body []byte) (*Answer, error) {
	return c.Send(t.Context(), tcp.Addr().String(), path, Outgoing{ID: uuid.NewString(), Codec: codec, Body: body})
}

func TestAnswers(t *testing.T) {
	tcp, caller := start(t, StandardLimits, echo)
	var calls sync.WaitGroup
	for i := range 50 {
		calls.Go(func() {
			codec := wire.Codec(i % 2)
			body, _ := wire.EncodeRequest(codec, wire.Request{TokenIDs: []uint32{uint32(i), 70000}})
			answer, err := call(t, tcp, caller, path, codec, body)
			if err != nil {
				t.Error(err)
				return
			}
			defer answer.Close()
			var got []uint32
			for {
				chunk, err := answer.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Error(err)
					return
				}
				got = append(got, chunk.Output.TokenIDs...)
			}
			if len(got) != 2 || got[0] != uint32(i) {
				t.Errorf("got %v", got)
			}
		})
	}
	calls.Wait()
	if err := tcp.plane.Wait(t.Context()); err != nil || tcp.plane.InFlight() != 0 {
		t.Errorf("got %v, %d in flight", err, tcp.plane.InFlight())
	}
}

// TestClose: a plane that is closed hangs up on frontends that have their answers and stay, and dials no others.
func TestClose(t *testing.T) {
	tcp, caller := start(t, StandardLimits, echo)
	var answers []*Answer
	for range 3 {
		answer, err := call(t, tcp, caller, path, wire.JSON, []byte(`{"token_ids":[5]}`))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Close()
		answers = append(answers, answer)
	}
	tcp.Close()
	if err := tcp.plane.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	tcp.plane.Close()
	if n := tcp.plane.streams.count(); n != 0 {
		t.Errorf("%d streams are open", n)
	}
	for _, a := range answers {
		if chunk, err := a.Next(); err != nil || len(chunk.Output.TokenIDs) != 1 {
			t.Errorf("what was sent before is lost: %v, %v", chunk, err)
		}
	}
	control := wire.Control{ID: "a", Address: caller.listener.Addr().String(), Subject: "a"}
	if _, err := tcp.plane.dial(control, nil); err == nil {
		t.Error("a closed plane dials")
	}
}

// TestRefusals: whatever is wrong, the caller gets an error.
func TestRefusals(t *testing.T) {
	tcp, caller := start(t, StandardLimits, func(ctx context.Context, c *Call, r Reply) {
		if string(c.Body) == "panic" {
			panic("as asked")
		}
		echo(ctx, c, r)
	})
	for _, test := range []struct{ path, body, want string }{
		{path, "{", "unexpected end of JSON"},
		{path, `{"token_ids": "x"}`, "token_ids"},
		{path, "panic", "as asked"},
		{"8/generate", "{}", "Unknown endpoint: 8/generate"},
	} {
		_, err := call(t, tcp, caller, test.path, wire.JSON, []byte(test.body))
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.body, err, test.want)
		}
	}
	// a caller that does not look at the acknowledgement
	_, err := caller.SendOver(t.Context(), Outgoing{uuid.NewString(), wire.JSON, []byte("{}")},
		func(payload []byte) error {
			data, err := wire.AppendFrame(nil, wire.Frame{Path: "8/generate", Payload: payload})
			if err == nil {
				_, _, err = caller.deposit(t.Context(), tcp.Addr().String(), data)
			}
			return err
		})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "unknown endpoint 8/generate") {
		t.Errorf("got %v", err)
	}
}

// TestOverload: with room for one and a queue of two, three of eight requests are served.
func TestOverload(t *testing.T) {
	enough := make(chan struct{})
	tcp, caller := start(t, Limits{Active: 1, Queued: 2}, echoAfter(enough))
	results := make(chan error, 8)
	for range 8 {
		go func() {
			_, err := call(t, tcp, caller, path, wire.JSON, []byte("{}"))
			results <- err
		}()
	}
	expectOverload(t, results, 5)
	close(enough)
	expectServed(t, results, 3)
}

// echoAfter returns a handler that answers requests only once a channel is closed.
func echoAfter(enough <-chan struct{}) func(context.Context, *Call, Reply) {
	return func(ctx context.Context, c *Call, r Reply) {
		<-enough
		echo(ctx, c, r)
	}
}

// expectServed waits for the results of requests, none of which may have failed.
func expectServed(t *testing.T, results <-chan error, requests int) {
	t.Helper()
	for range requests {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// expectOverload waits for the results of requests, all of which must have been refused for want of room.
func expectOverload(t *testing.T, results <-chan error, requests int) {
	t.Helper()
	for range requests {
		if err := <-results; !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "Server overloaded:") {
			t.Errorf("got %v", err)
		}
	}
}

// TestCancellation: a frontend that asks for it, or goes away, ends the context of the handler.
func TestCancellation(t *testing.T) {
	cancelled := make(chan bool)
	tcp, caller := start(t, StandardLimits, func(ctx context.Context, _ *Call, r Reply) {
		_ = r.Accept()
		<-ctx.Done()
		cancelled <- true
	})
	for name, leave := range map[string]func(*Answer){"stop": func(a *Answer) { _ = a.Stop() },
		"close": (*Answer).Close} {
		answer, err := call(t, tcp, caller, path, wire.JSON, []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		leave(answer)
		t.Logf("%s: the handler has to end", name)
		<-cancelled
		answer.Close()
	}
}

// TestHostilePeers: nonsense ends a connection, others are served all the while.
func TestHostilePeers(t *testing.T) {
	tcp, caller := start(t, StandardLimits, echo)
	rng := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 1<<16)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	huge, _ := wire.AppendFrame(nil, wire.Frame{Path: path})
	copy(huge[len(huge)-4:], "\xff\xff\xff\xff")
	garbled, _ := wire.AppendFrame(nil, wire.Frame{Path: path, Payload: noise[:100]})
	for name, data := range map[string][]byte{"noise": noise, "huge": huge, "half": huge[:5], "garbled": garbled,
		"nothing": nil} {
		for range 20 {
			conn, err := net.Dial("tcp", tcp.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_, _ = conn.Write(data)
		}
		answer, err := call(t, tcp, caller, path, wire.JSON, []byte(`{"token_ids":[5]}`))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if chunk, err := answer.Next(); err != nil || len(chunk.Output.TokenIDs) != 1 {
			t.Errorf("%s: got %v, %v", name, chunk, err)
		}
		answer.Close()
	}
	conn, err := net.Dial("tcp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write(huge)
	if ack, err := wire.ReadAck(conn); err != nil || !strings.Contains(ack, "too large") {
		t.Errorf("got %q, %v", ack, err)
	}
}
