package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"dynosim/gocore/guard"
	"dynosim/gocore/protocol/discovery"
)

// Reader sees the records of all workers. It has none of its own.
type Reader struct {
	store   *Store
	changed chan struct{}
	stop    context.CancelFunc
	done    chan struct{}
}

// recordsPrefix begins the keys of all buckets.
const recordsPrefix = "v1/"

// OpenReader fails soon if no etcd answers.
func OpenReader(ctx context.Context, c Config, log *slog.Logger) (*Reader, error) {
	s := &Store{log: log}
	err := s.connect(ctx, c)
	if err == nil {
		if _, err = s.List(discovery.Models); err != nil {
			_ = s.client.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("etcd at %s: %w", strings.Join(c.Endpoints, ", "), err)
	}
	life, stop := context.WithCancel(context.Background())
	r := &Reader{store: s, changed: make(chan struct{}, 1), stop: stop, done: make(chan struct{})}
	go guard.Func(func() { r.watch(life) })()
	return r, nil
}

// List returns the records of all workers in a bucket, in the order of their keys.
func (r *Reader) List(bucket discovery.Bucket) ([]discovery.Record, error) {
	return r.store.List(bucket)
}

// Changed returns a channel with an item when records may have changed.
func (r *Reader) Changed() <-chan struct{} { return r.changed }

// Close ends the connection.
func (r *Reader) Close() {
	r.stop()
	<-r.done
	_ = r.store.client.Close()
}

// watch tells of changes. A watch that etcd ends is begun again.
func (r *Reader) watch(ctx context.Context) {
	defer close(r.done)
	for ctx.Err() == nil {
		for range r.store.client.Watch(ctx, recordsPrefix, clientv3.WithPrefix()) {
			select {
			case r.changed <- struct{}{}:
			default:
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryDelay):
		}
	}
}
