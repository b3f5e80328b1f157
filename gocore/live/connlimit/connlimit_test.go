package connlimit

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"dynosim/gocore/leaktest"
)

// TestMain fails if goroutines are left after the tests.
func TestMain(m *testing.M) { leaktest.Main(m) }

// start serves "ok" at /, and at /slow only after the channel is closed.
func start(t *testing.T, limit int, full Full) (address string, slow chan struct{}, entered chan struct{}) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	slow, entered = make(chan struct{}), make(chan struct{}, 100)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		entered <- struct{}{}
		<-slow
		_, _ = io.WriteString(w, "ok")
	})
	server := &http.Server{Handler: mux}
	ended := make(chan error, 1)
	go func() { ended <- New(inner, limit, full).Serve(server) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
	return inner.Addr().String(), slow, entered
}

func say(t *testing.T, address, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

func get(t *testing.T, client *http.Client, address string) error {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.ReadAll(answer.Body)
	return err
}

// newClient returns a client that opens a connection for each request, or keeps one.
func newClient(t *testing.T, keep bool) *http.Client {
	transport := &http.Transport{DisableKeepAlives: !keep}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestHalfOpen: connections that say nothing, or half of a request, give way.
func TestHalfOpen(t *testing.T) {
	address, slow, entered := start(t, 4, NewestGivesWay)
	client := newClient(t, false)
	answered := make(chan error, 1)
	go func() { answered <- get(t, client, address+"/slow") }()
	<-entered
	for _, text := range []string{"", "G", "GET / HTTP/1.1\r\nHost: x\r\n", "POST / HTTP/1.1\r\n"} {
		for range 30 {
			say(t, address, text)
		}
		for range 3 {
			if err := get(t, client, address); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
	close(slow)
	if err := <-answered; err != nil {
		t.Errorf("a request that was being answered: %v", err)
	}
}

// TestKept: a connection that was kept open for the next request waits like others, and has its place again.
func TestKept(t *testing.T) {
	address, _, _ := start(t, 2, NewestGivesWay)
	client := newClient(t, true)
	for range 5 {
		if err := get(t, client, address); err != nil {
			t.Error(err)
		}
		for range 5 {
			say(t, address, "")
		}
	}
}

// TestAllAnswered: when all are being answered, the newest or the oldest gives way.
func TestAllAnswered(t *testing.T) {
	for full, newestServed := range map[Full]bool{NewestGivesWay: false, OldestGivesWay: true} {
		address, slow, entered := start(t, 2, full)
		for range 2 {
			say(t, address, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
			<-entered
		}
		if err := get(t, newClient(t, false), address); (err == nil) != newestServed {
			t.Errorf("%d: got %v", full, err)
		}
		close(slow)
	}
}

// TestClosed: connections that end leave their places.
func TestClosed(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(inner, 3, NewestGivesWay)
	defer func() { _ = l.Close() }()
	for range 10 {
		conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		ours, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Close(), ours.Close()
		_ = ours.Close()
	}
	if n := l.waiting.Len() + l.answered.Len(); n != 0 {
		t.Errorf("%d places are taken", n)
	}
}
