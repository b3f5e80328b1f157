package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"dynosim/gocore/live/store/kubernetes/apiserver"
	"dynosim/gocore/protocol/discovery"
)

// store is the part of one worker in the resource of its process; it implements [discovery.Store].
type store struct {
	resource *Resource
	id       uint64
	own      map[place]bool
	closed   bool
}

type place struct {
	bucket discovery.Bucket
	key    string
}

// Open returns a store for one more worker.
func (r *Resource) Open() discovery.Store {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &store{resource: r, id: instanceID(r.config.name(), r.workers), own: map[place]bool{}}
	r.workers++
	r.open++
	return s
}

// InstanceID implements [discovery.Store].
func (s *store) InstanceID() uint64 { return s.id }

// Put implements [discovery.Store].
func (s *store) Put(record discovery.Record) error {
	r := s.resource
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.closed {
		return errors.New("discovery: the store is closed")
	}
	records := r.records[record.Bucket]
	if _, ok := records[record.Key]; ok {
		return fmt.Errorf("kubernetes: %s/%s: %w", record.Bucket, record.Key, discovery.ErrExists)
	}
	ctx, cancel := context.WithTimeout(context.Background(), attempts*requestTimeout)
	defer cancel()
	records[record.Key] = record.Document
	if err := r.apply(ctx); err != nil {
		delete(records, record.Key)
		return fmt.Errorf("kubernetes: %s/%s: %w", record.Bucket, record.Key, err)
	}
	s.own[place{record.Bucket, record.Key}] = true
	return nil
}

// Delete implements [discovery.Store]. A record that cannot be removed now is removed with the next change.
func (s *store) Delete(bucket discovery.Bucket, key string) error {
	r := s.resource
	r.mu.Lock()
	defer r.mu.Unlock()
	if !s.own[place{bucket, key}] {
		return nil
	}
	delete(s.own, place{bucket, key})
	delete(r.records[bucket], key)
	ctx, cancel := context.WithTimeout(context.Background(), attempts*requestTimeout)
	defer cancel()
	if err := r.apply(ctx); err != nil {
		return fmt.Errorf("kubernetes: %s/%s: %w", bucket, key, err)
	}
	return nil
}

// List implements [discovery.Store]. It does not check whether the pods of the records are ready.
func (s *store) List(bucket discovery.Bucket) ([]discovery.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	var found metadataList
	if err := s.resource.client.List(ctx, s.resource.kind, apiserver.Selector{}, &found); err != nil {
		return nil, fmt.Errorf("kubernetes: %s: %w", bucket, explain(err))
	}
	return recordsOf(found.Items)[bucket], nil
}

// recordsOf returns the records in resources, in the order of their keys.
func recordsOf(resources []metadata) map[discovery.Bucket][]discovery.Record {
	records := map[discovery.Bucket][]discovery.Record{}
	for _, r := range resources {
		for bucket, documents := range r.records() {
			for key, document := range documents {
				records[bucket] = append(records[bucket],
					discovery.Record{Bucket: bucket, Key: key, Document: document})
			}
		}
	}
	for _, list := range records {
		slices.SortFunc(list, func(a, b discovery.Record) int { return cmp.Compare(a.Key, b.Key) })
	}
	return records
}

// Close implements [discovery.Store]. The last one deletes the resource. No error keeps a worker from ending: the
// records are deleted with its pod at the latest.
func (s *store) Close() error {
	r := s.resource
	if !s.leave() {
		return nil
	}
	r.stop()
	<-r.done
	return nil
}

// leave removes the records of a worker, and reports whether it was the last one.
func (s *store) leave() (last bool) {
	r := s.resource
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.closed {
		return false
	}
	s.closed = true
	r.open--
	for at := range s.own {
		delete(r.records[at.bucket], at.key)
	}
	if !r.written {
		return r.open == 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	err := r.withdraw(ctx)
	if err != nil {
		r.log.Warn("kubernetes: records stay until the pod has gone", "resource", r.config.name(), "cause", err)
	}
	return r.open == 0
}

// withdraw writes the records that are left, or deletes the resource if there are none. Without the permission to
// delete it, it is written empty.
func (r *Resource) withdraw(ctx context.Context) error {
	if r.open > 0 {
		return r.apply(ctx)
	}
	err := r.remove(ctx)
	if err == nil {
		return nil
	}
	r.log.Warn("kubernetes: the resource of this process cannot be deleted, so it is emptied", "cause", err)
	err = r.apply(ctx)
	r.written = false
	return err
}
