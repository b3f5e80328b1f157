package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"dynosim/gocore/guard"
	"dynosim/gocore/protocol/discovery"
)

// ttl is the age at which a file that was not touched is ignored. Dynamo uses the same.
const ttl = 10 * time.Second

// File keeps records in one folder of the host, a file each:
//
//	ROOT/v1/instances/dynamo%2Fbackend%2Fgenerate%2Faff3a8c19ca935e3
//
// A file appears whole, because readers notice it the moment it appears. It is touched as long as its owner lives.
// Every process that uses a bucket removes files that have expired. So files of other processes may disappear at any
// time, and own ones if this process was suspended for long; these are written again.
type File struct {
	id    uint64
	root  string
	touch time.Duration // between two touches
	ttl   time.Duration

	mu     sync.Mutex
	own    map[string][]byte // by path
	used   map[discovery.Bucket]bool
	read   map[discovery.Bucket]map[string]document // by the name of the file, as List has last read them
	closed bool
	stop   chan struct{}
	done   chan struct{}
}

// OpenFile returns a store in the folder root, which is made if it does not exist.
func OpenFile(root string) (*File, error) { return openFile(root, ttl) }

func openFile(root string, ttl time.Duration) (*File, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, err
	}
	f := &File{
		id: discovery.RandomID(), root: root, ttl: ttl, touch: ttl / 3,
		own: map[string][]byte{}, used: map[discovery.Bucket]bool{}, read: map[discovery.Bucket]map[string]document{},
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	go guard.Func(f.keepAlive)()
	return f, nil
}

// FileRoot returns where the processes of a host meet by default. getenv looks up environment variables.
func FileRoot(getenv func(string) string) string {
	if root := getenv("DYN_FILE_KV"); root != "" {
		return root
	}
	return filepath.Join(os.TempDir(), "dynamo_store_kv")
}

// InstanceID implements [discovery.Store]; it is a random number.
func (f *File) InstanceID() uint64 { return f.id }

// Put implements [discovery.Store].
func (f *File) Put(r discovery.Record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errors.New("discovery: the store is closed")
	}
	if err := os.MkdirAll(f.folder(r.Bucket), 0o755); err != nil {
		return err
	}
	f.used[r.Bucket] = true
	path := f.path(r.Bucket, r.Key)
	if err := write(path, r.Document); err != nil {
		return fmt.Errorf("discovery: %s/%s: %w", r.Bucket, r.Key, err)
	}
	f.own[path] = r.Document
	return nil
}

// Delete implements [discovery.Store].
func (f *File) Delete(bucket discovery.Bucket, key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := f.path(bucket, key)
	delete(f.own, path)
	return remove(path)
}

// List implements [discovery.Store]. It reads only files that have changed since the last time: frontends look often.
func (f *File) List(bucket discovery.Bucket) ([]discovery.Record, error) {
	entries, err := os.ReadDir(f.folder(bucket))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f.mu.Lock()
	before := f.read[bucket]
	f.mu.Unlock()
	var all []discovery.Record
	now := make(map[string]document, len(entries))
	for _, e := range entries {
		key, err := url.PathUnescape(e.Name())
		if strings.HasPrefix(e.Name(), temporary) || err != nil {
			continue
		}
		path := filepath.Join(f.folder(bucket), e.Name())
		info, err := os.Stat(path)
		if err != nil || f.isOld(info) {
			continue
		}
		d := before[e.Name()]
		if !d.isThat(info) {
			d.info = info
			if d.content, err = os.ReadFile(path); err != nil { // it was removed meanwhile
				continue
			}
		}
		now[e.Name()] = d
		all = append(all, discovery.Record{Bucket: bucket, Key: key, Document: d.content})
	}
	f.mu.Lock()
	f.read[bucket] = now
	f.mu.Unlock()
	slices.SortFunc(all, func(a, b discovery.Record) int { return cmp.Compare(a.Key, b.Key) })
	return all, nil
}

// document is a file as it was read.
type document struct {
	info    fs.FileInfo // from just before; nil for no file
	content []byte      // is never changed
}

// isThat reports whether a file has not changed since.
func (d *document) isThat(info fs.FileInfo) bool {
	return d.info != nil && os.SameFile(d.info, info) && d.info.ModTime().Equal(info.ModTime()) &&
		d.info.Size() == info.Size()
}

// Close implements [discovery.Store].
func (f *File) Close() error {
	f.mu.Lock()
	first := !f.closed
	f.closed = true
	var err error
	for path := range f.own {
		err = errors.Join(err, remove(path))
	}
	clear(f.own)
	f.mu.Unlock()
	if first {
		close(f.stop)
	}
	<-f.done
	return err
}

// Open returns a store for one of several workers, which keeps its records here: its Close removes only those.
func (f *File) Open() discovery.Store {
	return &fileShare{File: f, id: discovery.RandomID(), own: map[place]bool{}}
}

type fileShare struct {
	*File
	id  uint64
	mu  sync.Mutex
	own map[place]bool
}

func (s *fileShare) InstanceID() uint64 { return s.id }

func (s *fileShare) Put(r discovery.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.File.Put(r)
	if err == nil {
		s.own[place{r.Bucket, r.Key}] = true
	}
	return err
}

func (s *fileShare) Delete(b discovery.Bucket, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.own, place{b, key})
	return s.File.Delete(b, key)
}

func (s *fileShare) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for at := range s.own {
		errs = append(errs, s.File.Delete(at.bucket, at.key))
	}
	clear(s.own)
	return errors.Join(errs...)
}

func (f *File) keepAlive() {
	defer close(f.done)
	ticker := time.NewTicker(f.touch)
	defer ticker.Stop()
	for {
		select {
		case <-f.stop:
			return
		case <-ticker.C:
			f.renew()
			f.sweep()
		}
	}
}

// renew touches the files of this store.
func (f *File) renew() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for path, document := range f.own {
		if err := os.Chtimes(path, now, now); errors.Is(err, fs.ErrNotExist) {
			_ = write(path, document) // tried again at the next touch
		}
	}
}

// sweep removes expired files in the buckets that this store uses, those of other processes included.
func (f *File) sweep() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for bucket := range f.used {
		entries, err := os.ReadDir(f.folder(bucket))
		if err != nil {
			continue
		}
		for _, e := range entries {
			if path := filepath.Join(f.folder(bucket), e.Name()); f.expired(path) {
				_ = remove(path)
			}
		}
	}
}

func (f *File) expired(path string) bool {
	info, err := os.Stat(path)
	return err == nil && f.isOld(info)
}

func (f *File) isOld(info fs.FileInfo) bool { return time.Since(info.ModTime()) > f.ttl }

func (f *File) folder(b discovery.Bucket) string {
	return filepath.Join(f.root, filepath.FromSlash(string(b)))
}

func (f *File) path(b discovery.Bucket, key string) string {
	return filepath.Join(f.folder(b), fileName(key))
}

// fileName encodes every byte of a key that is neither a letter nor a digit.
func fileName(key string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(key) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}

// temporary begins the names that readers skip.
const temporary = ".tmp_"

// write makes a file appear whole; it must not exist.
func write(path string, document []byte) error {
	draft := filepath.Join(filepath.Dir(path), fmt.Sprintf("%s%016x", temporary, rand.Uint64()))
	if err := os.WriteFile(draft, document, 0o644); err != nil {
		return err
	}
	defer func() { _ = os.Remove(draft) }()
	err := os.Link(draft, path)
	if errors.Is(err, fs.ErrExist) {
		return discovery.ErrExists
	}
	return err
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
