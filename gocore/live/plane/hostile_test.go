package plane

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"dynosim/gocore/protocol/wire"
)

// startImpatient does what start does, for a plane that gives peers little time.
func startImpatient(t *testing.T, limits Limits, h handlerFunc, change func(*bounds)) (*TCP, *Caller) {
	t.Helper()
	p := newPlane(limits)
	change(&p.bounds)
	return listen(t, p, h)
}

// say opens a connection and sends something.
func say(t *testing.T, to net.Addr, data []byte) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, _ = conn.Write(data)
	return conn
}

// isClosed waits until the other side has closed a connection.
func isClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error("the connection stays open")
	}
}

func served(t *testing.T, tcp *TCP, caller *Caller) {
	t.Helper()
	answer, err := call(t, tcp, caller, path, wire.JSON, []byte(`{"token_ids":[5]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	if chunk, err := answer.Next(); err != nil || len(chunk.Output.TokenIDs) != 1 {
		t.Errorf("got %v, %v", chunk, err)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still waiting for %s", what)
		}
	}
}

// TestSlowFrames: a peer that begins a frame has to end it in time; one that sends nothing may stay.
func TestSlowFrames(t *testing.T) {
	tcp, caller := startImpatient(t, StandardLimits, echo, func(b *bounds) { b.frame = 2 * time.Second })
	silent := say(t, tcp.Addr(), nil)
	half, _ := wire.AppendFrame(nil, wire.Frame{Path: path, Payload: make([]byte, 1000)})
	dripping := say(t, tcp.Addr(), half[:5])
	go func() {
		for _, b := range half[5:] {
			if _, err := dripping.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	isClosed(t, say(t, tcp.Addr(), half[:100]))
	isClosed(t, dripping)
	body := []byte(`{"token_ids":[5]}`)
	whole, _ := wire.AppendFrame(nil, wire.Frame{Path: "unknown",
		Payload: wire.AppendMessage(nil, wire.Message{Body: body})})
	_, _ = silent.Write(whole)
	if ack, err := wire.ReadAck(silent); err != nil || ack != wire.UnknownEndpoint+"unknown" {
		t.Errorf("got %q, %v", ack, err)
	}
	served(t, tcp, caller)
}

// TestHalfOpenConnections: those that never bring anything give way to those that do.
func TestHalfOpenConnections(t *testing.T) {
	tcp, caller := startImpatient(t, StandardLimits, echo, func(b *bounds) { b.connections = 10 })
	served(t, tcp, caller)
	var idle []net.Conn
	for range 30 {
		idle = append(idle, say(t, tcp.Addr(), nil))
	}
	isClosed(t, idle[0])
	served(t, tcp, caller) // on the connection that it has
	other, err := ListenForAnswers("127.0.0.1:0", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	served(t, tcp, other) // on a new one
}

// TestBusyConnectionsStay: if all connections bring requests, there is no room for more.
func TestBusyConnectionsStay(t *testing.T) {
	tcp, caller := startImpatient(t, StandardLimits, echo, func(b *bounds) { b.connections = 1 })
	served(t, tcp, caller)
	isClosed(t, say(t, tcp.Addr(), nil))
	served(t, tcp, caller)
}

// TestUnreadAnswers: a client that does not read its answer is cut off, and its handler sees that.
func TestUnreadAnswers(t *testing.T) {
	gone := make(chan error, 1)
	tcp, caller := startImpatient(t, Limits{Active: 1}, func(_ context.Context, _ *Call, r Reply) {
		_ = r.Accept()
		var err error
		for err == nil {
			r.Output(wire.Output{TokenIDs: make([]uint32, 1000)})
			err = r.Flush()
		}
		gone <- err
	}, func(b *bounds) { b.write = 200 * time.Millisecond })
	answer, err := call(t, tcp, caller, path, wire.JSON, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	<-gone
	eventually(t, "the stream to end", func() bool { return tcp.plane.streams.count() == 0 })
}

// TestLingeringStreams: frontends that never close a stream do not add up.
func TestLingeringStreams(t *testing.T) {
	tcp, caller := startImpatient(t, Limits{Active: 2, Queued: 1000}, echo,
		func(b *bounds) { b.end, b.lingering = time.Minute, 3 })
	for range 50 {
		answer, err := call(t, tcp, caller, path, wire.JSON, []byte(`{"token_ids":[5]}`))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Close() // much later
		for err == nil {
			_, err = answer.Next()
		}
		if err != io.EOF {
			t.Fatal(err)
		}
	}
	eventually(t, "streams to be closed", func() bool { return tcp.plane.streams.count() <= 6 })
}

// TestBudget: large requests that never end wait for each other, small ones go past them.
func TestBudget(t *testing.T) {
	tcp, caller := startImpatient(t, StandardLimits, echo, func(b *bounds) { b.frame = time.Minute })
	large, _ := wire.AppendFrame(nil, wire.Frame{Path: path, Payload: make([]byte, 1<<20-1000)})
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	counted := false
	var begun []net.Conn
	for range 600 { // more than the budget has room for
		begun = append(begun, say(t, tcp.Addr(), large[:1<<16]))
		if half := tcp.plane.budget.large.TryAcquire(largeBudget / 2); half {
			tcp.plane.budget.large.Release(largeBudget / 2)
		} else {
			counted = true
		}
	}
	served(t, tcp, caller)
	if !counted {
		t.Error("large requests do not count")
	}
	runtime.ReadMemStats(&during)
	if grown := int64(during.HeapAlloc) - int64(before.HeapAlloc); grown > largeBudget {
		t.Errorf("memory has grown by %d MiB", grown>>20)
	}
	for _, conn := range begun {
		_ = conn.Close()
	}
	eventually(t, "the budget to be free", func() bool { return isFree(tcp.plane.budget.large, largeBudget) })
}

// TestLateRequestsLeaveTheBudget: large requests that do not end in time make room for others.
func TestLateRequestsLeaveTheBudget(t *testing.T) {
	tcp, _ := startImpatient(t, StandardLimits, echo, func(b *bounds) { b.frame = 2 * time.Second })
	large, _ := wire.AppendFrame(nil, wire.Frame{Path: path, Payload: make([]byte, 1<<20-1000)})
	say(t, tcp.Addr(), large[:1<<16])
	budget := tcp.plane.budget.large
	eventually(t, "the request to count", func() bool { return !isFree(budget, largeBudget) })
	eventually(t, "the budget to be free", func() bool { return isFree(budget, largeBudget) })
}

// isFree reports whether that much of a budget is not in use.
func isFree(budget *semaphore.Weighted, n int64) bool {
	if !budget.TryAcquire(n) {
		return false
	}
	budget.Release(n)
	return true
}

// TestQueuedRequestsCount: what waits for its turn counts against the budget until it is decoded, or given up.
func TestQueuedRequestsCount(t *testing.T) {
	enough := make(chan struct{})
	tcp, caller := startImpatient(t, Limits{Active: 1, Queued: 100}, func(ctx context.Context, c *Call, r Reply) {
		<-enough
		echo(ctx, c, r)
	}, func(*bounds) {})
	go func() {
		if answer, err := call(t, tcp, caller, path, wire.JSON, []byte("{}")); err == nil {
			answer.Close()
		}
	}()
	eventually(t, "the first request", func() bool { return tcp.plane.InFlight() == 1 })
	frame, _ := wire.AppendFrame(nil, wire.Frame{Path: path, Payload: make([]byte, 10_000)})
	conn := say(t, tcp.Addr(), bytes.Repeat(frame, 20))
	for range 20 {
		if ack, err := wire.ReadAck(conn); err != nil || ack != wire.Accepted {
			t.Fatalf("got %q, %v", ack, err)
		}
	}
	free := func(n int64) bool { return isFree(tcp.plane.budget.small, n) }
	if free(smallBudget - 19*10_000) {
		t.Error("queued requests do not count")
	}
	close(enough)
	eventually(t, "the budget to be free", func() bool { return free(smallBudget) })
}

// TestHTTPBodies: sizes that are too large or not told, and bodies that do not come.
func TestHTTPBodies(t *testing.T) {
	p := newPlane(StandardLimits)
	p.bounds.frame = 3 * time.Second
	p.Register(path, Labels{WorkerID: "7"}, handlerFunc(echo))
	h, err := p.ListenHTTP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	url := fmt.Sprintf("http://%s%s%s", h.Addr(), HTTPRoot, path)
	post := func(body io.Reader) int {
		response, err := http.Post(url, "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
	unsized := func(text string) io.Reader { return io.MultiReader(strings.NewReader(text)) }
	for name, c := range map[string]struct {
		body io.Reader
		want int
	}{
		"told":              {strings.NewReader(`{"token_ids":[5]}`), 200},
		"not told":          {unsized(`{"token_ids":[5]}`), 200},
		"too large":         {strings.NewReader(strings.Repeat(" ", 2<<20)), 413},
		"too large, untold": {unsized(strings.Repeat(" ", 2<<20)), 413},
		"nonsense":          {strings.NewReader("\x00\xff"), 400},
	} {
		if got := post(c.body); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
	head := "POST " + HTTPRoot + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
	var begun []net.Conn
	for _, text := range []string{head, head + "\r\n{", "\x00\xff\r\n\r\n"} {
		begun = append(begun, say(t, h.Addr(), []byte(text)))
	}
	for _, conn := range begun {
		isClosed(t, conn)
	}
	if got := post(strings.NewReader(`{"token_ids":[5]}`)); got != 200 {
		t.Errorf("afterwards: got %d", got)
	}
	eventually(t, "the budget to be free", func() bool {
		return isFree(p.budget.large, largeBudget) && isFree(p.budget.small, smallBudget)
	})
}

// TestHTTPHalfOpenConnections: those that never end a request give way.
func TestHTTPHalfOpenConnections(t *testing.T) {
	p := newPlane(StandardLimits)
	p.bounds.connections = 4
	p.Register(path, Labels{WorkerID: "7"}, handlerFunc(echo))
	h, err := p.ListenHTTP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for range 20 {
		say(t, h.Addr(), []byte("POST "+HTTPRoot+path+" HTTP/1.1\r\n"))
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Post(fmt.Sprintf("http://%s%s%s", h.Addr(), HTTPRoot, path), "application/json",
		strings.NewReader(`{"token_ids":[5]}`))
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("got %v, %v", answer, err)
	}
	_ = answer.Body.Close()
}

func FuzzHTTP(f *testing.F) {
	p := newPlane(StandardLimits)
	p.Register(path, Labels{WorkerID: "7"}, handlerFunc(echo))
	h := &HTTP{plane: p}
	f.Add("POST", HTTPRoot+path, `{"token_ids":[5]}`)
	f.Add("GET", "/", "")
	f.Fuzz(func(t *testing.T, method, target, body string) {
		r, err := http.NewRequest(method, "http://x/", strings.NewReader(body))
		if err != nil {
			return
		}
		r.URL.Path = target
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 && !strings.Contains(w.Body.String(), "error") {
			t.Errorf("status %d without a reason: %q", w.Code, w.Body)
		}
	})
}

// FuzzFrames sends anything over a connection: nothing of the budget may be lost, and no request waits.
func FuzzFrames(f *testing.F) {
	p := newPlane(Limits{Active: 4, Queued: 4})
	p.Register(path, Labels{WorkerID: "7"}, handlerFunc(echo))
	tcp := &TCP{plane: p, connections: map[net.Conn]*visit{}}
	frame, _ := wire.AppendFrame(nil, wire.Frame{Path: path,
		Payload: wire.AppendMessage(nil, wire.Message{Body: []byte("{}")})})
	f.Add(frame)
	f.Add(append(frame, frame[:20]...))
	f.Fuzz(func(t *testing.T, said []byte) {
		if bytes.Contains(said, []byte("tcp_server")) {
			return // it may name any address to dial
		}
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		go func() {
			_, _ = theirs.Write(said)
			_ = theirs.Close()
		}()
		tcp.running.Add(1)
		tcp.converse(ours)
		p.limiter.wait()
		if !p.budget.large.TryAcquire(largeBudget) || !p.budget.small.TryAcquire(smallBudget) {
			t.Fatal("some of the budget is lost")
		}
		p.budget.large.Release(largeBudget)
		p.budget.small.Release(smallBudget)
	})
}
