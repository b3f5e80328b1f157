package etcd

import (
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"dynosim/gocore/protocol/discovery"
)

// newGuarded starts an etcd that wants a password and whose tokens live for a second, the least that there is.
func newGuarded(t *testing.T) (*server, Config) {
	t.Helper()
	etcd, address := newServer(t, "http", "--auth-token-ttl", "1")
	admin, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	ctx := t.Context()
	_, err1 := admin.UserAdd(ctx, "root", "secret")
	_, err2 := admin.UserGrantRole(ctx, "root", "root")
	_, err3 := admin.AuthEnable(ctx)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return etcd, Config{Endpoints: []string{address}, LeaseTTL: 3 * time.Second, Username: "root", Password: "secret"}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	_, config := newGuarded(t)
	s := open(t, config)
	defer func() { _ = s.Close() }()
	put(t, s, "a")
	wrong := config
	wrong.Password = "wrong"
	if _, err := Open(t.Context(), wrong, slog.Default()); err == nil ||
		!strings.Contains(err.Error(), "authentication failed") {
		t.Errorf("got %v", err)
	}
	anonymous := open(t, Config{Endpoints: config.Endpoints, LeaseTTL: config.LeaseTTL}) // leases need no password
	defer func() { _ = anonymous.Close() }()
	if err := anonymous.Put(record("b")); err == nil {
		t.Error("a client without a password may write")
	}
}

// TestExpiredToken: a call with a token that has expired gets a new one.
func TestExpiredToken(t *testing.T) {
	t.Parallel()
	_, config := newGuarded(t)
	s := open(t, config)
	defer func() { _ = s.Close() }()
	put(t, s, "a")
	first := s.login.current()
	waitFor(t, "a new token", func() bool {
		time.Sleep(2 * time.Second) // every use prolongs the life of a token
		if !holds(s, "a") {
			t.Log("the record is not there") // a lease that was lost on a slow machine comes back
		}
		return s.login.current() != first
	})
	waitFor(t, "the record under a new token", func() bool { return holds(s, "a") })
}

// TestStallBeyondToken: etcd does not run for longer than token and lease live, and accepts neither when it does again.
func TestStallBeyondToken(t *testing.T) {
	t.Parallel()
	etcd, config := newGuarded(t)
	s := open(t, config)
	defer func() { _ = s.Close() }()
	put(t, s, "a")
	old := s.login.current()
	etcd.signal(syscall.SIGSTOP)
	time.Sleep(config.LeaseTTL + 2*time.Second)
	etcd.signal(syscall.SIGCONT)
	waitFor(t, "a new token", func() bool { return s.login.current() != old })
	waitFor(t, "the record to come back", func() bool {
		reader, err := Open(t.Context(), config, slog.New(slog.DiscardHandler))
		if err != nil {
			return false
		}
		defer func() { _ = reader.Close() }()
		return holds(reader, "a")
	})
}

// TestForgottenToken: an etcd that was restarted knows the user, but no token.
func TestForgottenToken(t *testing.T) {
	t.Parallel()
	etcd, config := newGuarded(t)
	s := open(t, config)
	defer func() { _ = s.Close() }()
	put(t, s, "a")
	etcd.kill()
	etcd.start()
	waitFor(t, "a record under a new token", func() bool {
		err := s.Put(record("b"))
		return err == nil || errors.Is(err, discovery.ErrExists)
	})
	waitFor(t, "both records", func() bool { return holds(s, "a", "b") })
}
