package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/status"

	"dynosim/gocore/guard"
	"dynosim/gocore/protocol/discovery"
)

const (
	requestTimeout = 5 * time.Second // of one operation, reconnecting included
	probeTimeout   = 3 * time.Second // to find out at the start whether there is a server
	revokeTimeout  = 2 * time.Second // to revoke the lease at the end
	retryDelay     = 500 * time.Millisecond
)

// Store is a [discovery.Store] for one worker.
type Store struct {
	client *clientv3.Client
	login  *login // nil without a password
	lease  clientv3.LeaseID
	ttl    time.Duration
	log    *slog.Logger

	mu     sync.Mutex        // locked during a call of etcd, so that calls do not overtake each other
	own    map[string]string // documents by key: what should be there
	closed bool
	stop   context.CancelFunc
	done   chan struct{}
}

// Open takes a lease for one worker. It fails soon if no etcd answers.
func Open(ctx context.Context, c Config, log *slog.Logger) (*Store, error) {
	s := &Store{ttl: c.LeaseTTL, log: log, own: map[string]string{}, done: make(chan struct{})}
	if err := s.connect(ctx, c); err != nil {
		return nil, fmt.Errorf("etcd at %s: %w", strings.Join(c.Endpoints, ", "), err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := s.grant(ctx); err != nil {
		_ = s.client.Close()
		return nil, fmt.Errorf("etcd at %s: no lease: %s; see that it is an etcd and healthy",
			strings.Join(c.Endpoints, ", "), status.Convert(err).Message())
	}
	life, stop := context.WithCancel(context.Background())
	s.stop = stop
	go guard.Func(func() { s.keepAlive(life) })()
	return s, nil
}

// connect sets the client, and checks that etcd accepts the password, if there is one.
func (s *Store) connect(ctx context.Context, c Config) error {
	tls, err := c.tls()
	if err != nil {
		return err
	}
	if err := probe(ctx, c.Endpoints); err != nil {
		return fmt.Errorf("%w; start etcd there, or name another server with ETCD_ENDPOINTS", err)
	}
	options := []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
			MaxDelay: time.Second},
		MinConnectTimeout: probeTimeout,
	})}
	if c.Username != "" {
		s.login = &login{name: c.Username, password: c.Password}
		options = append(options, s.login.options()...)
	}
	s.client, err = clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints,
		TLS:       tls,
		// A connection that was cut without notice ends after some seconds. An etcd that is back after a long outage is
		// found within a second.
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		PermitWithoutStream:  true,
		DialOptions:          options,
		Logger:               zap.NewNop(), // everything that matters is returned as an error
	})
	if err != nil || s.login == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err = s.login.renew(ctx, s.client.ActiveConnection(), ""); err != nil {
		_ = s.client.Close()
	}
	return err
}

// probe returns nil as soon as one of the servers accepts a connection, and an error if none does: the client of etcd
// would go on waiting.
func probe(ctx context.Context, endpoints []string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	results := make(chan error, len(endpoints))
	for _, e := range endpoints {
		go guard.Func(func() {
			u, err := url.Parse(e)
			if err == nil {
				var conn net.Conn
				if conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", u.Host); err == nil {
					_ = conn.Close()
				}
			}
			results <- err
		})()
	}
	var failures error
	for range endpoints {
		err := <-results
		if err == nil {
			return nil
		}
		failures = errors.Join(failures, err)
	}
	return failures
}

// InstanceID implements [discovery.Store]; it is the number of the lease.
func (s *Store) InstanceID() uint64 { return uint64(s.lease) }

// Put implements [discovery.Store].
func (s *Store) Put(r discovery.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := path(r.Bucket, r.Key)
	if s.closed {
		return errors.New("discovery: the store is closed")
	}
	if _, ok := s.own[key]; ok {
		return fmt.Errorf("etcd: %s: %w", key, discovery.ErrExists)
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	err := s.create(ctx, key, string(r.Document))
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		if err = s.grant(ctx); err == nil {
			err = s.create(ctx, key, string(r.Document))
		}
	}
	if err != nil {
		return fmt.Errorf("etcd: %s: %w", key, err)
	}
	s.own[key] = string(r.Document)
	return nil
}

// Delete implements [discovery.Store]. If etcd does not answer, the record is removed as soon as it does.
func (s *Store) Delete(bucket discovery.Bucket, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	delete(s.own, path(bucket, key))
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	if err := s.remove(ctx, path(bucket, key)); err != nil {
		return fmt.Errorf("etcd: %s: %w", path(bucket, key), err)
	}
	return nil
}

// List implements [discovery.Store].
func (s *Store) List(bucket discovery.Bucket) ([]discovery.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	prefix := path(bucket, "")
	found, err := s.client.Get(ctx, prefix, clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
	if err != nil {
		return nil, fmt.Errorf("etcd: %s: %w", bucket, err)
	}
	all := make([]discovery.Record, 0, len(found.Kvs))
	for _, kv := range found.Kvs {
		key := strings.TrimPrefix(string(kv.Key), prefix)
		all = append(all, discovery.Record{Bucket: bucket, Key: key, Document: kv.Value})
	}
	return all, nil
}

// Close implements [discovery.Store]. All records are removed at once, or if etcd does not answer, when the lease
// expires.
func (s *Store) Close() error {
	s.stop()
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	clear(s.own)
	ctx, cancel := context.WithTimeout(context.Background(), revokeTimeout)
	defer cancel()
	_, err := s.client.Revoke(ctx, s.lease)
	_ = s.client.Close()
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("etcd: the records of this worker stay until their lease expires, in %v at most: %w", s.ttl,
			err)
	}
	return nil
}

func path(bucket discovery.Bucket, key string) string { return string(bucket) + "/" + key }
