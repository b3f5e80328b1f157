package store

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"dynosim/gocore/protocol/discovery"
)

// Memory is a registry within one process. Each of its stores is a [discovery.Store] for one worker.
type Memory struct {
	mu      sync.Mutex
	records map[place][]byte
}

type place struct {
	bucket discovery.Bucket
	key    string
}

// NewMemory returns an empty registry.
func NewMemory() *Memory { return &Memory{records: map[place][]byte{}} }

// Open returns a store of this registry.
func (m *Memory) Open() discovery.Store {
	return &memoryStore{id: discovery.RandomID(), registry: m, own: map[place]bool{}}
}

type memoryStore struct {
	id       uint64
	registry *Memory
	own      map[place]bool
}

func (s *memoryStore) InstanceID() uint64 { return s.id }

func (s *memoryStore) Put(r discovery.Record) error {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	at := place{r.Bucket, r.Key}
	if _, ok := s.registry.records[at]; ok {
		return fmt.Errorf("%s/%s: %w", r.Bucket, r.Key, discovery.ErrExists)
	}
	s.registry.records[at] = r.Document
	s.own[at] = true
	return nil
}

func (s *memoryStore) Delete(bucket discovery.Bucket, key string) error {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	delete(s.registry.records, place{bucket, key})
	delete(s.own, place{bucket, key})
	return nil
}

func (s *memoryStore) List(bucket discovery.Bucket) ([]discovery.Record, error) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	var all []discovery.Record
	for at, document := range s.registry.records {
		if at.bucket == bucket {
			all = append(all, discovery.Record{Bucket: bucket, Key: at.key, Document: document})
		}
	}
	slices.SortFunc(all, func(a, b discovery.Record) int { return cmp.Compare(a.Key, b.Key) })
	return all, nil
}

func (s *memoryStore) Close() error {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	for at := range s.own {
		delete(s.registry.records, at)
	}
	clear(s.own)
	return nil
}
