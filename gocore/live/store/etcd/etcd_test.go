package etcd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dynosim/gocore/live/freeport"
	"dynosim/gocore/protocol/discovery"
)

// server is an etcd process that keeps its data while it is stopped.
type server struct {
	t       *testing.T
	program string
	arguments
	cmd *exec.Cmd
}

type arguments []string

// newServer starts an etcd on free ports. The test is skipped if none is installed.
func newServer(t *testing.T, scheme string, more ...string) (*server, string) {
	t.Helper()
	program, err := exec.LookPath("etcd")
	if err != nil {
		t.Skip("no etcd on PATH (Debian: etcd-server)")
	}
	client, peer, health := scheme+"://"+freeAddress(t), "http://"+freeAddress(t), "http://"+freeAddress(t)
	s := &server{t: t, program: program, arguments: append(arguments{
		"--data-dir", filepath.Join(t.TempDir(), "data"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
		"--listen-metrics-urls", health,
	}, more...)}
	s.start()
	t.Cleanup(s.kill)
	waitFor(t, "etcd to have a leader", func() bool {
		answer, err := http.Get(health + "/health")
		if err == nil {
			_ = answer.Body.Close()
		}
		return err == nil && answer.StatusCode == http.StatusOK
	})
	return s, client
}

func (s *server) start() {
	s.cmd = exec.Command(s.program, s.arguments...)
	endWithTests(s.cmd)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) signal(number syscall.Signal) {
	if err := s.cmd.Process.Signal(number); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// forget removes the data of a server that was killed.
func (s *server) forget() {
	if err := os.RemoveAll(s.arguments[1]); err != nil {
		s.t.Fatal(err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", freeport.Ports(t, 1))
}

func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	// a limit for what never comes
	for end := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// open opens a store, once more if a busy machine takes longer than etcd may take to answer.
func open(t *testing.T, c Config) (s *Store) {
	t.Helper()
	waitFor(t, "the store to open", func() bool {
		var err error
		if s, err = Open(t.Context(), c, slog.New(slog.NewTextHandler(t.Output(), nil))); err != nil {
			t.Log(err)
		}
		return err == nil
	})
	return s
}

func record(key string) discovery.Record {
	return discovery.Record{Bucket: discovery.Instances, Key: key, Document: []byte(key)}
}

func put(t *testing.T, s *Store, keys ...string) {
	t.Helper()
	for _, key := range keys {
		waitFor(t, "the record to be put", func() bool { // as above; then it may be there already
			err := s.Put(record(key))
			if err != nil {
				t.Log(err)
			}
			return err == nil || errors.Is(err, discovery.ErrExists)
		})
	}
}

// holds reports whether these are the records that s sees.
func holds(s *Store, keys ...string) bool {
	found, err := s.List(discovery.Instances)
	if err != nil || len(found) != len(keys) {
		return false
	}
	for i, key := range keys {
		if !reflect.DeepEqual(found[i], record(key)) {
			return false
		}
	}
	return true
}

func TestStore(t *testing.T) {
	t.Parallel()
	_, address := newServer(t, "http")
	config := Config{Endpoints: []string{address}, LeaseTTL: time.Hour} // nothing expires meanwhile
	one, other := open(t, config), open(t, config)
	if one.InstanceID() == 0 || one.InstanceID() == other.InstanceID() {
		t.Errorf("got instance ids %d and %d", one.InstanceID(), other.InstanceID())
	}
	put(t, one, "n/b_c/x-y/2", "n//k/1")
	for _, s := range []*Store{one, other} {
		waitFor(t, discovery.ErrExists.Error(), func() bool {
			return errors.Is(s.Put(record("n//k/1")), discovery.ErrExists)
		})
	}
	put(t, other, "n//k/3")
	waitFor(t, "all records", func() bool { return holds(other, "n//k/1", "n//k/3", "n/b_c/x-y/2") })
	if err := errors.Join(one.Delete(discovery.Instances, "n//k/1"),
		one.Delete(discovery.Instances, "none")); err != nil {
		t.Error(err)
	}
	waitFor(t, "a record to be gone", func() bool { return holds(other, "n//k/3", "n/b_c/x-y/2") })
	if err := errors.Join(one.Close(), one.Close()); err != nil {
		t.Error(err)
	}
	waitFor(t, "records to be gone with their store", func() bool { return holds(other, "n//k/3") })
	if err := one.Put(record("late")); err == nil {
		t.Error("a closed store takes records")
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// TestDocuments: keys are written as they are.
func TestDocuments(t *testing.T) {
	t.Parallel()
	_, address := newServer(t, "http")
	s := open(t, Config{Endpoints: []string{address}, LeaseTTL: 10 * time.Second})
	defer func() { _ = s.Close() }()
	r := discovery.EventChannelRecord("dynamo", "", "kv_metrics", 0xceb9280e261d972d,
		discovery.ZMQ("tcp://192.0.2.2:1"))
	if err := s.Put(r); err != nil {
		t.Fatal(err)
	}
	got, err := s.client.Get(t.Context(), "v1/event_channels/dynamo//kv_metrics/ceb9280e261d972d")
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != string(r.Document) ||
		got.Kvs[0].Lease != int64(s.InstanceID()) {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestLostLease: whatever happened to lease and records, they come back under the same number.
func TestLostLease(t *testing.T) {
	t.Parallel()
	etcd, address := newServer(t, "http")
	config := Config{Endpoints: []string{address}, LeaseTTL: 2 * time.Second}
	s, reader := open(t, config), open(t, config)
	defer func() { _ = errors.Join(s.Close(), reader.Close()) }()
	put(t, s, "a", "b")
	id := s.InstanceID()
	for _, accident := range []struct {
		name   string
		happen func()
	}{
		{"lease revoked", func() { _, _ = reader.client.Revoke(t.Context(), s.lease) }},
		{"record deleted", func() { _, _ = reader.client.Delete(t.Context(), "v1/instances/a") }},
		{"record too many", func() { put(t, s, "c"); s.mu.Lock(); delete(s.own, "v1/instances/c"); s.mu.Unlock() }},
		{"etcd restarted", func() { etcd.kill(); etcd.start() }},
		{"long outage", func() { etcd.kill(); time.Sleep(2 * config.LeaseTTL); etcd.start() }},
		{"etcd lost its data", func() { etcd.kill(); etcd.forget(); etcd.start() }},
	} {
		accident.happen()
		waitFor(t, accident.name, func() bool { return holds(reader, "a", "b") })
		if s.InstanceID() != id {
			t.Errorf("%s: the instance id has changed", accident.name)
		}
	}
	waitFor(t, "records that stay", func() bool { // on a busy machine the lease may have been lost meanwhile
		time.Sleep(config.LeaseTTL + time.Second)
		return holds(reader, "a", "b")
	})
}

// TestOutage: while etcd is away operations fail in time, and what was deleted does not come back with it.
func TestOutage(t *testing.T) {
	t.Parallel()
	etcd, address := newServer(t, "http")
	config := Config{Endpoints: []string{address}, LeaseTTL: 3 * time.Second}
	s := open(t, config)
	put(t, s, "a", "b")
	etcd.kill()
	begin := time.Now()
	if s.Put(record("c")) == nil || s.Delete(discovery.Instances, "b") == nil {
		t.Error("operations succeed without etcd")
	}
	if _, err := s.List(discovery.Instances); err == nil {
		t.Error("List succeeds without etcd")
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("three failures took %v", took)
	}
	etcd.start()
	waitFor(t, "the record that is left", func() bool { return holds(s, "a") })
	etcd.kill()
	begin = time.Now()
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "lease expires") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("taking leave took %v", took)
	}
}

// TestNetworkCut: a connection that is cut without a word for longer than the lease lives.
func TestNetworkCut(t *testing.T) {
	t.Parallel()
	_, address := newServer(t, "http")
	u, _ := url.Parse(address)
	wire := newCable(t, u.Host)
	reader := open(t, Config{Endpoints: []string{address}, LeaseTTL: 10 * time.Second})
	s := open(t, Config{Endpoints: []string{"http://" + wire.listener.Addr().String()}, LeaseTTL: 2 * time.Second})
	defer func() { _ = errors.Join(s.Close(), reader.Close()) }()
	put(t, s, "a")
	wire.cut()
	waitFor(t, "the record to expire", func() bool { return holds(reader) })
	wire.mend()
	waitFor(t, "the record to come back", func() bool { return holds(reader, "a") })
}

// cable forwards connections, and can stop doing so without closing them.
type cable struct {
	listener net.Listener
	mu       sync.Mutex // locked while it is cut
}

func newCable(t *testing.T, to string) *cable {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{listener: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			go c.forward(near, far)
			go c.forward(far, near)
		}
	}()
	return c
}

func (c *cable) forward(from, to net.Conn) {
	defer func() { _ = to.Close() }()
	data := make([]byte, 32<<10)
	for {
		n, err := from.Read(data)
		if err != nil {
			return
		}
		c.mu.Lock()
		_, err = to.Write(data[:n])
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (c *cable) cut()  { c.mu.Lock() }
func (c *cable) mend() { c.mu.Unlock() }

func TestNoServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for _, test := range []struct{ address, want string }{
		{freeAddress(t), "connection refused; start etcd there, or name another server with ETCD_ENDPOINTS"},
		{silent.Addr().String(), "no lease: "},
	} {
		begin := time.Now()
		_, err := Open(context.Background(),
			Config{Endpoints: []string{"http://" + test.address}, LeaseTTL: time.Second}, slog.Default())
		if err == nil || !strings.Contains(err.Error(), test.want) ||
			!strings.HasPrefix(err.Error(), "etcd at http://"+test.address+": ") {
			t.Errorf("got %v, want %s", err, test.want)
		}
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("%v: took %v", err, took)
		}
	}
}

// TestCertificates: etcd and the worker show each other certificates of the same authority.
func TestCertificates(t *testing.T) {
	t.Parallel()
	ca, cert, key := certificates(t)
	_, address := newServer(t, "https", "--cert-file", cert, "--key-file", key, "--trusted-ca-file", ca,
		"--client-cert-auth")
	s := open(t, Config{Endpoints: []string{address}, LeaseTTL: 10 * time.Second, CA: ca, ClientCert: cert,
		ClientKey: key})
	defer func() { _ = s.Close() }()
	put(t, s, "a")
	if !holds(s, "a") {
		t.Error("the record is gone")
	}
	for _, test := range []struct {
		config Config
		want   string
	}{
		{Config{}, "certificate"},
		{Config{CA: ca}, "etcd at " + address},
		{Config{CA: filepath.Join(t.TempDir(), "none.pem")}, "ETCD_AUTH_CA"},
	} {
		test.config.Endpoints, test.config.LeaseTTL = []string{address}, time.Second
		if _, err := Open(t.Context(), test.config, slog.Default()); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}

// certificates writes those of an authority, and of a server and client on this host.
func certificates(t *testing.T) (ca, cert, key string) {
	folder := t.TempDir()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	host := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: authority.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		Subject:     pkix.Name{CommonName: "host"},
	}
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	authorityKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	hostKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	der, err1 := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	ca = write("ca.pem", "CERTIFICATE", der)
	der, err2 := x509.CreateCertificate(rand.Reader, host, authority, hostKey.Public(), authorityKey)
	cert = write("host.pem", "CERTIFICATE", der)
	der, err3 := x509.MarshalECPrivateKey(hostKey)
	key = write("host.key", "EC PRIVATE KEY", der)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return ca, cert, key
}
