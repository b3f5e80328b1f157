package openai

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are pipes in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	p.conns <- far
	return near, nil
}

// inBubble runs a server and a client that keeps its connections, on a clock that only moves on when all of them wait:
// what depends on time limits does not depend on how busy the machine is.
func inBubble(t *testing.T, change func(*Config), f func(t *testing.T, s *Server, client *http.Client)) {
	synctest.Test(t, func(t *testing.T) {
		s := serverOf(t, fast, change)
		listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		server := &http.Server{Handler: s}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(listener) }()
		transport := &http.Transport{DialContext: listener.dial}
		defer func() {
			transport.CloseIdleConnections()
			_ = server.Close()
			if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
			time.Sleep(time.Minute) // connections that were broken off are kept for a moment
		}()
		f(t, s, &http.Client{Transport: transport})
	})
}

// send makes a request of a path.
func send(t *testing.T, client *http.Client, method, path, body string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://server"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return answer{response.StatusCode, response.Header, string(text)}
}

// TestSlowBody: a client that does not send its body is cut off, with or without a length, and holds no memory.
func TestSlowBody(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *Server, client *http.Client) {
		for _, length := range []int64{-1, 1 << 19} {
			reader, writer := io.Pipe()
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://server/v1/completions", reader)
			r.ContentLength = length
			begun := time.Now()
			response, err := client.Transport.RoundTrip(r)
			if err == nil {
				_ = response.Body.Close()
				if response.StatusCode != 408 {
					t.Errorf("length %d: got %d", length, response.StatusCode)
				}
			}
			if took := time.Since(begun); took != bodyTimeout {
				t.Errorf("length %d: cut off after %v", length, took)
			}
			_ = writer.Close()
		}
		eventually(t, "nothing is held", func() bool { return s.bodies.unused() == maxBodies })
		body := `{"prompt":"` + strings.Repeat("x", 1000) + `"}`
		if got := send(t, client, http.MethodPost, "/v1/completions", body); got.status != 200 {
			t.Errorf("got %d", got.status)
		}
	})
}

// TestStuckReader: a client that does not read is cut off, and its call ends.
func TestStuckReader(t *testing.T) {
	longer := func(c *Config) { c.Models[0].MaxLength = 60_000 }
	inBubble(t, longer, func(t *testing.T, s *Server, client *http.Client) {
		var stuck []io.Closer
		for range 3 {
			body := strings.NewReader(`{"prompt":"x","max_tokens":50000,"n":2,"stream":true}`)
			response, err := client.Post("http://server/v1/completions", "", body)
			if err != nil {
				t.Fatal(err)
			}
			stuck = append(stuck, response.Body)
		}
		eventually(t, "all calls have ended", func() bool {
			return s.config.Models[0].Deployment.Open() == 0 && s.InFlight() == 0
		})
		for _, body := range stuck {
			_ = body.Close()
		}
	})
}

// TestConnectionIsUsedAgain: the deadline of one answer, which net/http takes back, does not meet the next one.
func TestConnectionIsUsedAgain(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *Server, client *http.Client) {
		for range 3 {
			if got := send(t, client, http.MethodPost, "/v1/completions",
				`{"prompt":"x","stream":true}`); got.status != 200 {
				t.Fatalf("got %d", got.status)
			}
			time.Sleep(2 * writeTimeout) // past the deadline
			for _, path := range []string{"/v1/models", "/health", "/metrics"} {
				if got := send(t, client, http.MethodGet, path, ""); got.status != 200 {
					t.Fatalf("%s: got %d", path, got.status)
				}
			}
		}
	})
}
