package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"dynosim/gocore/protocol/discovery"
)

// grant takes the lease: a new one at first, later the same number again. A lease that exists already is no error, as
// an answer may have been lost. The Grant of the client cannot be used: it has no argument for the number.
func (s *Store) grant(ctx context.Context) error {
	leases := etcdserverpb.NewLeaseClient(s.client.ActiveConnection())
	request := &etcdserverpb.LeaseGrantRequest{TTL: int64(s.ttl / time.Second), ID: int64(s.lease)}
	granted, err := leases.LeaseGrant(ctx, request, grpc.WaitForReady(true))
	if err = rpctypes.Error(err); errors.Is(err, rpctypes.ErrLeaseExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.lease == clientv3.NoLease {
		s.lease = clientv3.LeaseID(granted.ID)
	}
	return nil
}

// keepAlive renews the lease three times in its life, and more often while that fails.
func (s *Store) keepAlive(ctx context.Context) {
	defer close(s.done)
	timer := time.NewTimer(s.ttl / 3)
	defer timer.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := s.renew(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			timer.Reset(s.ttl / 3)
		} else {
			timer.Reset(min(s.ttl/3, retryDelay))
		}
		s.report(err, failing)
		failing = err != nil
	}
}

// report logs when etcd goes away and when it comes back.
func (s *Store) report(err error, before bool) {
	switch {
	case err != nil && !before:
		s.log.Warn("etcd does not answer; frontends lose this worker when its lease expires, until etcd is back",
			"lease_ttl", s.ttl, "cause", err)
	case err == nil && before:
		s.log.Info("etcd answers again, this worker is registered")
	}
}

// renew makes sure that the lease lives, and that exactly the records of this worker are attached to it.
func (s *Store) renew(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, max(s.ttl/3, time.Second))
	defer cancel()
	err := s.extend(ctx)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		s.log.Warn("the lease of this worker has expired; taking it again", "instance_id",
			discovery.Hex(s.InstanceID()))
		err = s.grant(ctx)
	}
	if err != nil {
		return err
	}
	return s.restore(ctx)
}

// extend starts the time to live of the lease again.
func (s *Store) extend(ctx context.Context) error {
	for {
		var used string
		if s.login != nil {
			used = s.login.current()
		}
		_, err := s.client.KeepAliveOnce(ctx, s.lease)
		if s.login == nil || !refusedToken(err) {
			return err
		}
		// the interceptor does that for calls, not for streams
		if err := s.login.renew(ctx, s.client.ActiveConnection(), used); err != nil {
			return err
		}
	}
}

// restore writes missing records and removes records that should not exist.
func (s *Store) restore(ctx context.Context) error {
	lease, err := s.client.TimeToLive(ctx, s.lease, clientv3.WithAttachedKeys())
	if err != nil {
		return err
	}
	present := make(map[string]bool, len(lease.Keys))
	for _, k := range lease.Keys {
		key := string(k)
		present[key] = true
		if _, ok := s.own[key]; !ok {
			err = errors.Join(err, s.remove(ctx, key))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.own)) {
		if present[key] {
			continue
		}
		if failure := s.create(ctx, key, s.own[key]); failure != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", key, failure))
		}
	}
	return err
}

// create writes a record that must not exist. If it is attached to the own lease, an earlier answer was lost, which is
// no error.
func (s *Store) create(ctx context.Context, key, document string) error {
	put := clientv3.OpPut(key, document, clientv3.WithLease(s.lease))
	absent := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	done, err := s.client.Txn(ctx).If(absent).Then(put).Else(clientv3.OpGet(key)).Commit()
	if err != nil || done.Succeeded {
		return err
	}
	held := done.Responses[0].GetResponseRange().Kvs
	if len(held) == 0 || clientv3.LeaseID(held[0].Lease) != s.lease {
		return discovery.ErrExists
	}
	_, err = s.client.Put(ctx, key, document, clientv3.WithLease(s.lease))
	return err
}

// remove deletes a record if it is attached to the own lease.
func (s *Store) remove(ctx context.Context, key string) error {
	own := clientv3.Compare(clientv3.LeaseValue(key), "=", s.lease)
	_, err := s.client.Txn(ctx).If(own).Then(clientv3.OpDelete(key)).Commit()
	return err
}
