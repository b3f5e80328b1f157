package rendezvous

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"dynosim/gocore/handoff"
	"dynosim/gocore/protocol/bootstrap"
)

// engine answers at once whatever it is asked for, except for what is in never.
type engine struct {
	never   handoff.Action
	missing int

	mu    sync.Mutex
	asked []handoff.Action
	at    map[handoff.Action]time.Time
	tell  func(bootstrap.Fact)
}

var answers = map[handoff.Action][]bootstrap.FactKind{
	handoff.Submit: {bootstrap.PromptComputed}, handoff.Release: {bootstrap.Released},
	handoff.CancelSource: {bootstrap.Canceled},
	handoff.Reserve:      {bootstrap.Queued, bootstrap.RoomFound}, handoff.Activate: {bootstrap.Activated},
	handoff.CancelDestination: {bootstrap.Canceled},
}

func (e *engine) Do(action handoff.Action, tell func(bootstrap.Fact)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, action)
	if e.at == nil {
		e.at = map[handoff.Action]time.Time{}
	}
	e.at[action] = time.Now()
	e.tell = tell
	if action == e.never {
		return
	}
	for _, kind := range answers[action] {
		tell(bootstrap.Fact{Kind: kind, MissingTokens: e.missing})
	}
}

func (e *engine) log() []handoff.Action {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.asked)
}

// await waits until the engine has been asked for something.
func (e *engine) await(t *testing.T, action handoff.Action) {
	t.Helper()
	eventually(t, fmt.Sprint(action), func() bool { return slices.Contains(e.log(), action) })
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in time", what)
		}
	}
}

func config(order handoff.Order) Config {
	return Config{EngineType: "vllm", Order: order, Ranks: 2, PerRank: 2, TimeoutMs: 60_000,
		Log: slog.New(slog.DiscardHandler)}
}

// listen starts a listener, and checks at the end of the test that no goroutine is left.
func listen(t testing.TB, c Config) *Listener {
	t.Helper()
	before := runtime.NumGoroutine()
	l, err := Listen("127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		for range 3000 {
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		stacks := make([]byte, 1<<16)
		t.Errorf("goroutines are left:\n%s", stacks[:runtime.Stack(stacks, true)])
	})
	return l
}

func newIdentity() bootstrap.Identity {
	return bootstrap.Identity{HandoffID: uuid.New(), Room: rand.Uint64() >> 1, RequestID: uuid.New()}
}

// run starts something and returns what it will return.
func run(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

func wait(t testing.TB, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		t.Fatal("no end")
		return nil
	}
}

// TestHandoff hands requests over in both orders, either side first.
func TestHandoff(t *testing.T) {
	const (
		source      = "[submit release]"
		destination = "[reserve activate]"
	)
	for _, order := range []handoff.Order{handoff.SourceFirst, handoff.DestinationFirst} {
		for _, late := range []string{"source", "destination"} {
			l := listen(t, config(order))
			c := NewConnector(config(order))
			id := newIdentity()
			var here, there engine
			var served, ran <-chan error
			serve := func() {
				served = run(func() error {
					return l.Serve(t.Context(), id, 1, bootstrap.Held{PromptTokens: 5},
						&here)
				})
			}
			connect := func() {
				ran = run(func() error { return c.Run(t.Context(), l.Addr().String(), id, 0, &there) })
			}
			first, second := serve, connect
			if late == "source" {
				first, second = connect, serve
			}
			first()
			eventually(t, "the first half", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.table.Len() == 1 })
			second()
			if err := errors.Join(wait(t, served), wait(t, ran)); err != nil {
				t.Errorf("%v, late %s: %v", order, late, err)
			}
			if got := fmt.Sprint(here.log()); got != source {
				t.Errorf("source: got %s", got)
			}
			if got := fmt.Sprint(there.log()); got != destination {
				t.Errorf("destination: got %s", got)
			}
			if err := l.Serve(t.Context(), id, 0, bootstrap.Held{}, &here); err == nil ||
				!strings.Contains(err.Error(), "duplicate") {
				t.Errorf("again: got %v", err)
			}
		}
	}
}

func TestTransferTakesTime(t *testing.T) {
	l := listen(t, config(handoff.SourceFirst))
	c := NewConnector(config(handoff.SourceFirst))
	held := bootstrap.Held{PromptTokens: 50, Transfer: handoff.Transfer{BytesPerToken: 1_000_000, BandwidthGBs: 1}}
	var taken []time.Duration
	for range 100 { // on a busy machine it may take some to find the processor free
		id := newIdentity()
		var here, there engine
		served := run(func() error { return l.Serve(t.Context(), id, 0, held, &here) })
		ran := run(func() error { return c.Run(t.Context(), l.Addr().String(), id, 0, &there) })
		if err := errors.Join(wait(t, served), wait(t, ran)); err != nil {
			t.Fatal(err)
		}
		took := there.at[handoff.Activate].Sub(there.at[handoff.Reserve])
		if took < 50*time.Millisecond {
			t.Errorf("took %v, want 50 ms", took)
		}
		if took < 100*time.Millisecond {
			return
		}
		taken = append(taken, took)
	}
	t.Errorf("took %v, want 50 ms", taken)
}

// TestCancel ends the interest of either client while the decode worker looks for room, and while the prompt is
// computed.
func TestCancel(t *testing.T) {
	for _, c := range []struct {
		name                string
		sourceLeaves        bool
		stuck               handoff.Action
		source, destination string
	}{
		{"source, no room", true, handoff.Reserve, "[submit cancel source]", "[reserve cancel destination]"},
		{"destination, no room", false, handoff.Reserve, "[submit cancel source]", "[reserve cancel destination]"},
		{"source, no prompt", true, handoff.Submit, "[submit cancel source]", "[]"},
		{"destination, no prompt", false, handoff.Submit, "[submit cancel source]", "[]"},
		{"source, not activated", true, handoff.Activate, "[submit cancel source]",
			"[reserve activate cancel destination]"},
		{"destination, not activated", false, handoff.Activate, "[submit cancel source]",
			"[reserve activate cancel destination]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := listen(t, config(handoff.SourceFirst))
			connector := NewConnector(config(handoff.SourceFirst))
			id := newIdentity()
			here, there := engine{never: c.stuck}, engine{never: c.stuck}
			sourceCtx, sourceLeaves := context.WithCancelCause(t.Context())
			destinationCtx, destinationLeaves := context.WithCancelCause(t.Context())
			defer sourceLeaves(nil)
			defer destinationLeaves(nil)
			served := run(func() error { return l.Serve(sourceCtx, id, 0, bootstrap.Held{PromptTokens: 5}, &here) })
			ran := run(func() error { return connector.Run(destinationCtx, l.Addr().String(), id, 0, &there) })
			stuck := &here
			if c.stuck != handoff.Submit {
				stuck = &there
			}
			stuck.await(t, c.stuck)
			gone := errors.New("the client has gone")
			if c.sourceLeaves {
				sourceLeaves(gone)
				if c.stuck != handoff.Submit { // one thing at a time
					eventually(t, "the source to have left", func() bool { return fmt.Sprint(here.log()) == c.source })
					there.tell(bootstrap.Fact{Kind: answers[c.stuck][0]})
				}
			} else {
				destinationLeaves(gone)
			}
			sourceErr, destinationErr := wait(t, served), wait(t, ran)
			if sourceErr == nil || destinationErr == nil {
				t.Errorf("got %v and %v", sourceErr, destinationErr)
			}
			if got := fmt.Sprint(here.log()); got != c.source {
				t.Errorf("source: got %s", got)
			}
			if got := fmt.Sprint(there.log()); got != c.destination {
				t.Errorf("destination: got %s", got)
			}
			if c.sourceLeaves != errors.Is(sourceErr, gone) || c.sourceLeaves == errors.Is(destinationErr, gone) {
				t.Errorf("causes: %v and %v", sourceErr, destinationErr)
			}
		})
	}
}

// TestKilled breaks the connection while the request is on both sides.
func TestKilled(t *testing.T) {
	l := listen(t, config(handoff.SourceFirst))
	id := newIdentity()
	here := engine{}
	served := run(func() error { return l.Serve(t.Context(), id, 0, bootstrap.Held{PromptTokens: 5}, &here) })
	conn := register(t, l, id)
	here.await(t, handoff.Submit)
	_ = conn.Close()
	// Whether it reads or writes next is left to chance.
	if err := wait(t, served); err == nil ||
		!strings.Contains(err.Error(), "lost") && !errors.Is(err, syscall.EPIPE) &&
			!errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("source: got %v", err)
	}
	if got := fmt.Sprint(here.log()); got != "[submit cancel source]" {
		t.Errorf("source: got %s", got)
	}

	there := engine{never: handoff.Activate}
	id = newIdentity()
	ran := run(func() error { return NewConnector(l.config).Run(t.Context(), l.Addr().String(), id, 0, &there) })
	served = run(func() error { return l.Serve(t.Context(), id, 0, bootstrap.Held{PromptTokens: 5}, &here) })
	there.await(t, handoff.Activate)
	l.Close()
	if err := wait(t, ran); err == nil {
		t.Error("destination: success")
	}
	if got := fmt.Sprint(there.log()); got != "[reserve activate cancel destination]" {
		t.Errorf("destination: got %s", got)
	}
	if err := wait(t, served); err == nil {
		t.Error("source: success")
	}
}

// register connects as a destination that sends nothing but its introduction.
func register(t *testing.T, l *Listener, id bootstrap.Identity) net.Conn {
	t.Helper()
	conn := connect(t, l)
	message := bootstrap.Register{EngineType: "vllm", Order: l.config.Order}
	if _, err := conn.Write(bootstrap.AppendFrame(bootstrap.Header[:],
		bootstrap.Frame{Identity: id, Message: message})); err != nil {
		t.Fatal(err)
	}
	return conn
}

func connect(t *testing.T, l *Listener) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}

// reply returns what a peer gets before its connection is closed, "" for nothing.
func reply(t *testing.T, conn net.Conn) string {
	t.Helper()
	var replies []string
	for in := bufio.NewReader(conn); ; {
		f, err := bootstrap.ReadFrame(in)
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "timeout") {
				t.Error("the connection stays open")
			}
			return strings.Join(replies, "; ")
		}
		replies = append(replies, f.Message.String())
	}
}

// Destinations that are refused, or turn out to be none.
func TestRefused(t *testing.T) {
	l := listen(t, config(handoff.SourceFirst))
	for name, data := range map[string][]byte{
		"another protocol": []byte("GET / HTTP/1.1\r\n\r\n"),
		"a huge length":    append(bootstrap.Header[:], 0xff, 0xff, 0xff, 0xff),
		"no length":        append(bootstrap.Header[:], 0, 0, 0, 0),
		"no JSON":          append(bootstrap.Header[:], 5, 0, 0, 0, 'h', 'e', 'l', 'l', 'o'),
		"not Register": bootstrap.AppendFrame(bootstrap.Header[:],
			bootstrap.Frame{Identity: newIdentity(), Message: bootstrap.Complete{}}),
	} {
		conn := connect(t, l)
		_, _ = conn.Write(data)
		if got := reply(t, conn); got != "" {
			t.Errorf("%s: got %s", name, got)
		}
	}

	id := newIdentity()
	first := register(t, l, id)
	eventually(t, "the first half", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.table.Len() == 1 })
	if got := reply(t, register(t, l, id)); got != "ProtocolError: duplicate destination participant" {
		t.Errorf("duplicate: got %s", got)
	}
	other := id
	other.Room++
	if err := l.Serve(t.Context(), other, 0, bootstrap.Held{}, &engine{}); err == nil ||
		!strings.Contains(err.Error(), "different identities") {
		t.Errorf("mismatch: got %v", err)
	}
	if got := reply(t, first); got != "ProtocolError: the sides of the hand-off have different identities" {
		t.Errorf("mismatch: got %s", got)
	}

	for range 4 {
		register(t, l, newIdentity())
	}
	eventually(t, "four halves", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.table.Len() == 4 })
	if got := reply(t, register(t, l, newIdentity())); got != "Overloaded" {
		t.Errorf("overload: got %s", got)
	}
}

// A destination that goes before its request comes leaves nothing behind.
func TestEarlyLeave(t *testing.T) {
	l := listen(t, config(handoff.SourceFirst))
	conn := register(t, l, newIdentity())
	eventually(t, "the half", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.table.Len() == 1 })
	_ = conn.Close()
	eventually(t, "its end", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.table.Len() == 0 &&
			len(l.conns) == 0
	})

	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client has gone")
	served := run(func() error { return l.Serve(ctx, newIdentity(), 0, bootstrap.Held{}, &engine{}) })
	eventually(t, "the half", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.table.Len() == 1 })
	cancel(gone)
	if err := wait(t, served); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

func TestLimit(t *testing.T) {
	l := listen(t, config(handoff.SourceFirst))
	ctx, cancel := context.WithCancel(t.Context())
	var served []<-chan error
	for range 2 {
		served = append(served, run(func() error {
			return l.Serve(ctx, newIdentity(), 1, bootstrap.Held{},
				&engine{})
		}))
	}
	eventually(t, "two halves", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.table.Len() == 2 })
	err := l.Serve(ctx, newIdentity(), 1, bootstrap.Held{}, &engine{})
	if err == nil || err.Error() != "mocker handoff session limit reached for DP rank 1" {
		t.Errorf("got %v", err)
	}
	cancel()
	for _, s := range served {
		_ = wait(t, s)
	}
	served = append(served, run(func() error { return l.Serve(ctx, newIdentity(), 1, bootstrap.Held{}, &engine{}) }))
	var limit *LimitError
	if err := wait(t, served[2]); errors.As(err, &limit) {
		t.Errorf("a place was not given back")
	}
}

func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	err = NewConnector(config(handoff.SourceFirst)).Run(t.Context(), address, newIdentity(), 0, &engine{})
	if err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("got %v", err)
	}
	for host, want := range map[string]string{"h": "h:5", "::1": "[::1]:5", "[::1]": "[::1]:5"} {
		if got := Address(host, 5); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// Strangers that send nothing do not keep other connections out, however many they are.
func TestStrangers(t *testing.T) {
	l := listen(t, config(handoff.SourceFirst))
	for i := range maxStrangers + 100 {
		conn := connect(t, l)
		if i%2 == 0 {
			_, _ = conn.Write(bootstrap.Header[:3])
		}
	}
	eventually(t, "the limit", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.strangers.Len() == maxStrangers })
	id := newIdentity()
	served := run(func() error { return l.Serve(t.Context(), id, 0, bootstrap.Held{}, &engine{}) })
	if err := NewConnector(l.config).Run(t.Context(), l.Addr().String(), id, 0, &engine{}); err != nil {
		t.Error(err)
	}
	if err := wait(t, served); err != nil {
		t.Error(err)
	}
}

// FuzzPeers plays a decode worker, or a prefill worker, that sends anything after a good beginning. The session ends in
// the end, and the engine does not keep the request unless it has been handed over.
func FuzzPeers(f *testing.F) {
	frame := func(id bootstrap.Identity, m bootstrap.Message) []byte {
		return bootstrap.AppendFrame(nil, bootstrap.Frame{Identity: id, Message: m})
	}
	id := bootstrap.Identity{HandoffID: uuid.MustParse("981915ce-eff2-4b23-a4e6-21f941d1648b")}
	for _, m := range []bootstrap.Message{
		bootstrap.Ack{ActionID: 1, Outcome: bootstrap.Accepted}, bootstrap.Reserved{MissingTokens: 5},
		bootstrap.Registered{}, bootstrap.Action{ID: 1, Verb: handoff.Reserve}, bootstrap.Complete{},
	} {
		f.Add(true, frame(id, m))
		f.Add(false, append(frame(id, bootstrap.Registered{}), frame(id, m)...))
	}
	f.Fuzz(func(t *testing.T, source bool, data []byte) {
		here, there := net.Pipe()
		p := newPeer(here, id)
		go p.read(bufio.NewReader(here))
		go func() {
			go func() { _, _ = io.Copy(io.Discard, there) }()
			_, _ = io.Copy(there, bytes.NewReader(data))
			_ = there.Close()
		}()
		e := &engine{}
		var s session = bootstrap.NewDestination(bootstrap.Register{EngineType: "vllm"}, 1000)
		if source {
			s = bootstrap.NewSource(handoff.SourceFirst, bootstrap.Held{PromptTokens: 5}, 1000)
		}
		err := wait(t, run(func() error { return p.converse(t.Context(), s, e, time.Now()) }))
		log := e.log()
		if len(log) == 0 {
			return
		}
		last := log[len(log)-1]
		freed := last == handoff.Release || last == handoff.CancelSource || last == handoff.CancelDestination
		if source != freed && err == nil || err != nil && !freed {
			t.Fatalf("%v after %v", err, log)
		}
	})
}

// BenchmarkHandoff measures a whole hand-off between engines that answer at once, in microseconds: from the beginning
// to the end on both sides, and the part from the end of the prompt to the activation.
func BenchmarkHandoff(b *testing.B) {
	for _, order := range []handoff.Order{handoff.SourceFirst, handoff.DestinationFirst} {
		b.Run(map[handoff.Order]string{handoff.SourceFirst: "vllm", handoff.DestinationFirst: "sglang"}[order],
			func(b *testing.B) {
				l := listen(b, config(order))
				c := NewConnector(config(order))
				var spans []time.Duration
				for b.Loop() {
					id := newIdentity()
					var here, there engine
					served := run(func() error {
						return l.Serve(b.Context(), id, 0, bootstrap.Held{PromptTokens: 5},
							&here)
					})
					if err := c.Run(b.Context(), l.Addr().String(), id, 0, &there); err != nil {
						b.Fatal(err)
					}
					if err := wait(b, served); err != nil {
						b.Fatal(err)
					}
					spans = append(spans, there.at[handoff.Activate].Sub(here.at[handoff.Submit]))
				}
				slices.Sort(spans)
				b.ReportMetric(float64(spans[len(spans)/2].Nanoseconds())/1e3, "us/held-to-active")
			})
	}
}
