// Package bustest runs a NATS server inside a test.
package bustest

import (
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Server is a NATS server with JetStream that can go away and come back at the same address.
type Server struct {
	URL string

	t       testing.TB
	options server.Options
	running *server.Server
}

// Start runs a server until the test ends. change may change its options.
func Start(t testing.TB, change ...func(*server.Options)) *Server {
	t.Helper()
	s := &Server{t: t, options: server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir(),
	}}
	for _, c := range change {
		c(&s.options)
	}
	s.Restart()
	t.Cleanup(s.Stop)
	return s
}

// Stop ends the server.
func (s *Server) Stop() {
	s.running.Shutdown()
	s.running.WaitForShutdown()
}

// Restart runs a server that was stopped again; what JetStream has stored is still there.
func (s *Server) Restart() {
	s.t.Helper()
	options := s.options
	running, err := server.NewServer(&options)
	if err != nil {
		s.t.Fatal(err)
	}
	running.Start()
	if !running.ReadyForConnections(time.Minute) {
		s.t.Fatal("the NATS server does not start")
	}
	s.running, s.URL = running, running.ClientURL()
	s.options.Port = running.Addr().(*net.TCPAddr).Port
}

// Connect returns a connection that comes back as fast as others do; it ends with the test.
func (s *Server) Connect(t testing.TB) *nats.Conn {
	t.Helper()
	c, err := nats.Connect(s.URL, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
