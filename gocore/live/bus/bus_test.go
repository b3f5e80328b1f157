package bus

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nkeys"

	"dynosim/gocore/live/bus/bustest"
)

func TestFromEnvironment(t *testing.T) {
	key, _ := nkeys.CreateUser()
	seedBytes, _ := key.Seed()
	seed := string(seedBytes)
	local := []string{"nats://localhost:4222"}
	for _, test := range []struct {
		environment map[string]string
		want        Config
		err         string
	}{
		{nil, Config{Servers: local, Username: "user", Password: "user"}, ""},
		{map[string]string{"NATS_SERVER": "a, tls://b:1 ,"},
			Config{Servers: []string{"nats://a", "tls://b:1"}, Username: "user", Password: "user"}, ""},
		{map[string]string{"NATS_SERVER": "nats://u:p@a"}, Config{Servers: []string{"nats://u:p@a"}}, ""},
		{map[string]string{"NATS_AUTH_USERNAME": "u", "NATS_AUTH_PASSWORD": "p", "NATS_AUTH_TOKEN": "t"},
			Config{Servers: local, Username: "u", Password: "p"}, ""},
		{map[string]string{"NATS_AUTH_TOKEN": "t", "NATS_AUTH_NKEY": seed}, Config{Servers: local, Token: "t"}, ""},
		{map[string]string{"NATS_AUTH_NKEY": seed, "NATS_AUTH_CREDENTIALS_FILE": "f"},
			Config{Servers: local, NKeySeed: seed}, ""},
		{map[string]string{"NATS_AUTH_CREDENTIALS_FILE": "f"}, Config{Servers: local, CredentialsFile: "f"}, ""},
		{map[string]string{"NATS_AUTH_USERNAME": "u"}, Config{}, "NATS_AUTH_USERNAME and NATS_AUTH_PASSWORD: got one"},
		{map[string]string{"NATS_AUTH_NKEY": "SUA"}, Config{}, "NATS_AUTH_NKEY: want the seed"},
		{map[string]string{"NATS_SERVER": "http://a:1"}, Config{},
			`NATS_SERVER: got "http://a:1", want nats://HOST:PORT`},
		{map[string]string{"NATS_SERVER": "nats://u:secret@a:b"}, Config{}, `NATS_SERVER: got "a:b", want`},
	} {
		got, err := FromEnvironment(func(name string) string { return test.environment[name] })
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v: got %v, want %s", test.environment, err, test.err)
			}
		} else if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%v: got %+v, %v", test.environment, got, err)
		}
	}
}

func TestNoServer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for server, want := range map[string]string{
		"nats://127.0.0.1:1": "NATS at nats://127.0.0.1:1: nats: no servers available for " +
			"connection; start nats-server",
		"nats://u:secret@" + silent.Addr().String(): "NATS at nats://u:xxxxx@" + silent.Addr().String() + ": ",
	} {
		_, err := Connect(Config{Servers: []string{server}}, slog.New(slog.DiscardHandler))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestLogin(t *testing.T) {
	key, _ := nkeys.CreateUser()
	public, _ := key.PublicKey()
	seed, _ := key.Seed()
	for name, test := range map[string]struct {
		server func(*server.Options)
		login  Config
	}{
		"none": {func(*server.Options) {}, Config{Username: standardUser, Password: standardUser}},
		"password": {func(o *server.Options) { o.Username, o.Password = "u", "p" },
			Config{Username: "u", Password: "p"}},
		"token": {func(o *server.Options) { o.Authorization = "t" }, Config{Token: "t"}},
		"key": {func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} },
			Config{NKeySeed: string(seed)}},
	} {
		s := bustest.Start(t, test.server)
		test.login.Servers = []string{s.URL}
		c, err := Connect(test.login, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c.Close()
		if name == "none" {
			continue
		}
		_, err = Connect(Config{Servers: test.login.Servers, Username: "x", Password: "y"},
			slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), "set NATS_AUTH_USERNAME") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	file := filepath.Join(t.TempDir(), "none.creds")
	if _, err := Connect(Config{Servers: []string{bustest.Start(t).URL}, CredentialsFile: file},
		slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), os.ErrNotExist.Error()) && !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
}

// TestOutage: publishing goes on while the server is away, and what is too much for the buffer is counted.
func TestOutage(t *testing.T) {
	s := bustest.Start(t)
	c, err := Connect(Config{Servers: []string{s.URL}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	subscriber := s.Connect(t)
	messages, err := subscriber.SubscribeSync("events")
	if err := errors.Join(err, subscriber.Flush()); err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		if m, err := messages.NextMsg(time.Minute); err != nil || string(m.Data) != want {
			t.Fatalf("got %v, %v, want %s", m, err, want)
		}
	}
	c.Publish("events", []byte("before"))
	expect("before")
	s.Stop()
	for c.nats.IsConnected() {
		time.Sleep(time.Millisecond)
	}
	for i := range 3 {
		c.Publish("events", fmt.Append(nil, i))
	}
	s.Restart()
	// The subscriber comes back on its own, and misses what is sent before that.
	for c.nats.IsReconnecting() {
		time.Sleep(time.Millisecond)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		c.Publish("events", []byte("after"))
		if m, err := messages.NextMsg(50 * time.Millisecond); err == nil && string(m.Data) == "after" {
			break
		}
	}
	if c.Lost() != 0 {
		t.Errorf("%d messages are lost", c.Lost())
	}
	s.Stop()
	for c.nats.IsConnected() {
		time.Sleep(time.Millisecond)
	}
	for range 12 {
		c.Publish("events", make([]byte, 1_000_000))
	}
	for end := time.Now().Add(time.Minute); c.Lost() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a buffer takes everything")
		}
	}
}

// TestService: tools that ask NATS what there is learn about the endpoints.
func TestService(t *testing.T) {
	s := bustest.Start(t)
	c, err := Connect(Config{Servers: []string{s.URL}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stop, err := c.Serve("a_b.generate-7",
		Service{Name: "a_b", Version: "1.3.1", Description: "about", Endpoint: "generate-7"},
		func(payload []byte, acknowledge func()) {
			if string(payload) == "ping" {
				acknowledge()
			}
		})
	if err != nil {
		t.Fatal(err)
	}
	client := s.Connect(t)
	m, err := client.Request("a_b.generate-7", []byte("ping"), time.Minute)
	if err != nil || len(m.Data) != 0 {
		t.Errorf("got %v, %v", m, err)
	}
	m, err = client.Request("$SRV.INFO.a_b", nil, time.Minute)
	var info micro.Info
	if err != nil || json.Unmarshal(m.Data, &info) != nil || len(info.Endpoints) != 1 ||
		info.Endpoints[0].Subject != "a_b.generate-7" || info.Endpoints[0].QueueGroup != "q" {
		t.Errorf("got %s, %v", m.Data, err)
	}
	stop()
	if _, err := client.Request("a_b.generate-7", []byte("ping"), time.Minute); err == nil {
		t.Error("a stopped service answers")
	}
	if _, err := c.Serve("a b", Service{Name: "a_b", Version: "1.3.1", Endpoint: "e"}, nil); err == nil ||
		!strings.Contains(err.Error(), "NATS subject a b: ") {
		t.Errorf("got %v", err)
	}
}
