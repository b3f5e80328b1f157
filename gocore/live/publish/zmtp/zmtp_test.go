package zmtp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
)

const patience = time.Minute

func listenPub(t *testing.T) *Pub {
	t.Helper()
	p, err := ListenPub("127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// subscribe connects another implementation of ZeroMQ and waits until the subscription has arrived.
func subscribe(t *testing.T, p *Pub, topic string) zmq4.Socket {
	t.Helper()
	before := topics(p)
	s := zmq4.NewSub(context.Background(), zmq4.WithLogger(log.New(io.Discard, "", 0)))
	t.Cleanup(func() { s.Close() })
	if err := s.Dial("tcp://" + address(p.Port())); err != nil {
		t.Fatal(err)
	}
	if err := s.SetOption(zmq4.OptionSubscribe, topic); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the subscription", func() bool { return topics(p) > before })
	return s
}

// topics counts subscriptions.
func topics(p *Pub) int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	n := 0
	for s := range p.subs {
		s.mu.Lock()
		n += len(s.topics)
		s.mu.Unlock()
	}
	return n
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still waiting for %s", what)
		}
	}
}

// receive writes the next message as its frames and an error.
func receive(t *testing.T, s zmq4.Socket) string {
	t.Helper()
	m, err := receiveMessage(t, s)
	return fmt.Sprintf("%q %v", m.Frames, err)
}

func receiveMessage(t *testing.T, s zmq4.Socket) (zmq4.Msg, error) {
	t.Helper()
	type received struct {
		zmq4.Msg
		error
	}
	got := make(chan received, 1)
	go func() {
		m, err := s.Recv()
		got <- received{m, err}
	}()
	select {
	case r := <-got:
		return r.Msg, r.error
	case <-time.After(patience):
		t.Fatal("no message")
		return zmq4.Msg{}, nil
	}
}

func frames(parts ...string) [][]byte {
	list := make([][]byte, len(parts))
	for i, p := range parts {
		list[i] = []byte(p)
	}
	return list
}

func TestPub(t *testing.T) {
	p := listenPub(t)
	p.Send(frames("kv", "no subscriber yet"))
	kv, all := subscribe(t, p, "kv"), subscribe(t, p, "")
	long := strings.Repeat("x", 300)
	p.Send(frames("kv-events", "", long))
	p.Send(frames("load", "1"))
	p.Send(frames("kv", "2"))
	for _, want := range []string{fmt.Sprintf(`["kv-events" "" "%s"] <nil>`, long), `["kv" "2"] <nil>`} {
		if got := receive(t, kv); got != want {
			t.Errorf("kv: got %s, want %s", got, want)
		}
	}
	receive(t, all)
	if got := receive(t, all); got != `["load" "1"] <nil>` {
		t.Errorf("all: got %s", got)
	}
	kv.Close()
	eventually(t, "the subscriber to be gone", func() bool { return topics(p) == 1 })
	p.Send(frames("kv", "3"))
	receive(t, all)
	if got := receive(t, all); got != `["kv" "3"] <nil>` {
		t.Errorf("all, after kv has left: got %s", got)
	}
}

func TestSendLazily(t *testing.T) {
	p := listenPub(t)
	subscribe(t, p, "a")
	made := 0
	message := func() [][]byte { made++; return frames("x") }
	p.SendLazily("b", message)
	p.SendLazily("ab", message)
	if made != 1 {
		t.Errorf("made %d messages, want 1", made)
	}
}

func TestRouter(t *testing.T) {
	r, err := ListenRouter("127.0.0.1:0", slog.New(slog.DiscardHandler), func(request [][]byte) iter.Seq[[][]byte] {
		return slices.Values([][][]byte{frames("", "you said"), request})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var wait sync.WaitGroup
	for i := range 3 {
		wait.Go(func() {
			d := zmq4.NewDealer(context.Background(), zmq4.WithLogger(log.New(io.Discard, "", 0)))
			defer d.Close()
			if err := d.Dial("tcp://" + address(r.Port())); err != nil {
				t.Error(err)
				return
			}
			for range 2 {
				if err := d.SendMulti(zmq4.NewMsgFrom(frames("", fmt.Sprint(i))...)); err != nil {
					t.Error(err)
				}
				first, err1 := d.Recv()
				second, err2 := d.Recv()
				if got := fmt.Sprintf("%q %q %v %v", first.Frames, second.Frames, err1,
					err2); got != fmt.Sprintf(`["" "you said"] ["" "%d"] <nil> <nil>`, i) {
					t.Errorf("got %s", got)
				}
			}
		})
	}
	wait.Wait()
}

// dial opens a connection that says what the test wants.
func dial(t *testing.T, port int, say ...[]byte) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address(port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_, _ = c.Write(bytes.Join(say, nil))
	return c
}

func sub(topic string) []byte { return appendFrame(nil, 0, append([]byte{1}, topic...)) }

// TestHostilePeers: whatever some peers do, others are served and new ones come in.
func TestHostilePeers(t *testing.T) {
	p := listenPub(t)
	friend := subscribe(t, p, "")
	huge := binary.BigEndian.AppendUint64([]byte{longFlag}, 1<<62)
	random := make([]byte, 5000)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	hello := append(greeting(), ready("SUB")...)
	for name, say := range map[string][]byte{
		"half open":              nil,
		"half a greeting":        greeting()[:30],
		"random bytes":           random,
		"random after greeting":  append(greeting(), random...),
		"random after handshake": append(hello[:len(hello):len(hello)], random...),
		"a huge frame":           append(hello[:len(hello):len(hello)], huge...),
		"a huge command":         append(greeting(), append([]byte{longFlag | commandFlag}, huge[1:]...)...),
		"a cut-off property":     append(greeting(), appendCommand(nil, "READY", []byte{200})...),
		"a nameless command":     append(greeting(), appendFrame(nil, commandFlag, []byte{9})...),
		"another kind of socket": append(greeting(), ready("PULL")...),
		"many frames":            append(hello[:len(hello):len(hello)], bytes.Repeat([]byte{moreFlag, 1, 0}, 1000)...),
	} {
		c := dial(t, p.Port(), say)
		if strings.HasPrefix(name, "half") {
			continue
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: the connection stays open: %v", name, err)
		}
	}
	late := subscribe(t, p, "")
	p.Send(frames("still", "here"))
	for _, s := range []zmq4.Socket{friend, late} {
		if got := receive(t, s); got != `["still" "here"] <nil>` {
			t.Errorf("got %s", got)
		}
	}
}

// TestStalledSubscriber: one that never reads loses messages beyond the high-water mark, and no other one does.
func TestStalledSubscriber(t *testing.T) {
	p := listenPub(t)
	dial(t, p.Port(), greeting(), ready("SUB"), sub(""))
	eventually(t, "the subscription", func() bool { return topics(p) == 1 })
	friend := subscribe(t, p, "")
	payload := strings.Repeat("x", 1<<20)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 60 {
		p.Send(frames("big", payload))
		if m, err := receiveMessage(t, friend); err != nil || len(m.Bytes()) < 1<<20 {
			t.Fatalf("message %d: got %d bytes, %v", i, len(m.Bytes()), err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if p.Dropped() == 0 {
		t.Error("nothing was dropped")
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > maxQueuedBytes+8<<20 {
		t.Errorf("memory has grown by %d MiB", grown>>20)
	}
	p.Close() // waits no longer than lingerTimeout for the one that does not read
}

// TestHalfOpenPeers: connections that do not introduce themselves give way to one that does.
func TestHalfOpenPeers(t *testing.T) {
	p := listenPub(t)
	friend := subscribe(t, p, "")
	for range 2 * maxPeers {
		dial(t, p.Port())
	}
	late := subscribe(t, p, "")
	p.Send(frames("x"))
	for _, s := range []zmq4.Socket{friend, late} {
		if got := receive(t, s); got != `["x"] <nil>` {
			t.Errorf("got %s", got)
		}
	}
}

func TestTooManyPeers(t *testing.T) {
	p := listenPub(t)
	for range maxPeers {
		dial(t, p.Port(), greeting(), ready("SUB"), sub(""))
	}
	eventually(t, "all subscriptions", func() bool { return topics(p) == maxPeers })
	c := dial(t, p.Port())
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("one too many is served: %v", err)
	}
}

// TestSendsWhatIsQueued: Close does not cut off subscribers that read.
func TestSendsWhatIsQueued(t *testing.T) {
	p := listenPub(t)
	s := subscribe(t, p, "")
	for i := range 1000 {
		p.Send(frames("n", fmt.Sprint(i)))
	}
	go p.Close()
	for i := range 1000 {
		if got := receive(t, s); got != fmt.Sprintf(`["n" "%d"] <nil>`, i) {
			t.Fatalf("message %d: got %s", i, got)
		}
	}
}

// TestNewerPeers: subscriptions and signs of life as ZMTP 3.1 has them.
func TestNewerPeers(t *testing.T) {
	p := listenPub(t)
	c := dial(t, p.Port(), greeting(), ready("SUB"),
		appendCommand(nil, "SUBSCRIBE", []byte("a")), appendCommand(nil, "SUBSCRIBE", []byte("b")),
		appendCommand(nil, "CANCEL", []byte("a")), appendCommand(nil, "PING", []byte("\x00\x0ahello")))
	want := append(append(greeting(), ready("PUB")...), appendCommand(nil, "PONG", []byte("hello"))...)
	got := make([]byte, len(want))
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
	p.Send(frames("a"))
	p.Send(frames("bb", "1"))
	want = appendMessage(nil, frames("bb", "1"))
	if _, err := io.ReadFull(c, got[:len(want)]); err != nil || !bytes.Equal(got[:len(want)], want) {
		t.Errorf("got %q, %v, want %q", got[:len(want)], err, want)
	}
}

func TestAddressInUse(t *testing.T) {
	p := listenPub(t)
	if _, err := ListenPub(address(p.Port()), slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "PUB") {
		t.Errorf("got %v", err)
	}
}

func FuzzServer(f *testing.F) {
	f.Add(append(append(greeting(), ready("SUB")...), sub("topic")...))
	f.Add(appendCommand(append(greeting(), ready("XSUB")...), "PING", []byte("\x00\x01x")))
	f.Fuzz(func(t *testing.T, said []byte) {
		r := bufio.NewReader(bytes.NewReader(said))
		if readGreeting(r) != nil || readReady(r, []string{"SUB", "XSUB"}) != nil {
			return
		}
		s := newSubscriber(nil)
		if s.read(r) == nil {
			t.Error("reading never ends without an error")
		}
		if len(s.topics) > maxTopics {
			t.Errorf("%d topics", len(s.topics))
		}
	})
}

func BenchmarkSend(b *testing.B) {
	p, err := ListenPub("127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	c, err := net.Dial("tcp", address(p.Port()))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	go func() { _, _ = io.Copy(io.Discard, c) }()
	_, _ = c.Write(append(append(greeting(), ready("SUB")...), sub("")...))
	for topics(p) == 0 {
		time.Sleep(time.Millisecond)
	}
	message := frames("kv-events", "12345678", "12345678", strings.Repeat("x", 300))
	for b.Loop() {
		p.Send(message)
	}
}

// FuzzRouter: a peer that is through the handshake says anything; every whole message is answered, and the end comes.
func FuzzRouter(f *testing.F) {
	f.Add(appendMessage(nil, frames("", "12345678")))
	f.Add(appendCommand(nil, "PING", []byte("\x00\x01x")))
	f.Fuzz(func(t *testing.T, said []byte) {
		asked := 0
		r := &Router{
			server: &server{peers: map[net.Conn]*visit{}},
			answer: func(request [][]byte) iter.Seq[[][]byte] {
				asked++
				if len(request) > maxFrames {
					t.Errorf("%d frames", len(request))
				}
				return slices.Values([][][]byte{request})
			},
		}
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		defer func() { _ = theirs.Close() }()
		if r.serve(ours, bufio.NewReader(bytes.NewReader(said))) == nil {
			t.Error("serving never ends without an error")
		}
		if asked > len(said)/2 {
			t.Errorf("%d requests in %d bytes", asked, len(said))
		}
	})
}
