package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"dynosim/gocore/protocol/discovery"
)

func TestStores(t *testing.T) {
	memory := NewMemory()
	root := t.TempDir()
	shared, err := OpenFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = shared.Close() }()
	for name, open := range map[string]func() discovery.Store{
		"shared file": shared.Open,
		"memory":      memory.Open,
		"file": func() discovery.Store {
			f, err := OpenFile(root)
			if err != nil {
				t.Fatal(err)
			}
			return f
		},
	} {
		one, other := open(), open()
		if one.InstanceID() == other.InstanceID() {
			t.Errorf("%s: got ids %d and %d", name, one.InstanceID(), other.InstanceID())
		}
		put := func(s discovery.Store, key string) error {
			return s.Put(discovery.Record{Bucket: discovery.Instances, Key: key, Document: []byte(key)})
		}
		for _, key := range []string{"n/b_c/x-y/2", "n//k/1"} {
			if err := put(one, key); err != nil {
				t.Fatal(err)
			}
		}
		if err := put(other, "n//k/1"); !errors.Is(err, discovery.ErrExists) {
			t.Errorf("%s: got %v, want %v", name, err, discovery.ErrExists)
		}
		if err := put(other, "n//k/3"); err != nil {
			t.Fatal(err)
		}
		expect(t, other, "n//k/1", "n//k/3", "n/b_c/x-y/2")
		if err := one.Delete(discovery.Instances, "n//k/1"); err != nil {
			t.Error(err)
		}
		expect(t, other, "n//k/3", "n/b_c/x-y/2")
		if err := errors.Join(one.Close(), one.Close()); err != nil {
			t.Error(err)
		}
		expect(t, other, "n//k/3")
		if err := other.Close(); err != nil {
			t.Error(err)
		}
		expect(t, other)
	}
}

func expect(t *testing.T, s discovery.Store, keys ...string) {
	t.Helper()
	records, err := s.List(discovery.Instances)
	if err != nil || len(records) != len(keys) {
		t.Fatalf("got %d records, %v, want %v", len(records), err, keys)
	}
	for i, r := range records {
		if r.Key != keys[i] || string(r.Document) != keys[i] {
			t.Errorf("got %s with %s, want %s", r.Key, r.Document, keys[i])
		}
	}
}

func TestFileNames(t *testing.T) {
	if got := fileName("a/b_c/x-y//7f"); got != "a%2Fb%5Fc%2Fx%2Dy%2F%2F7f" {
		t.Errorf("got %s", got)
	}
}

// TestFileLiveness: records of a living store stay, are written again if they were removed, and those of a dead one
// expire in every store that uses the bucket.
func TestFileLiveness(t *testing.T) {
	const ttl = 9 * time.Second
	root := t.TempDir()
	alive, err := openFile(root, ttl)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = alive.Close() }()
	if err := alive.Put(discovery.Record{Bucket: discovery.Instances, Key: "alive",
		Document: []byte("alive")}); err != nil {
		t.Fatal(err)
	}
	if err := alive.Put(discovery.Record{Bucket: discovery.Instances, Key: "lost",
		Document: []byte("lost")}); err != nil {
		t.Fatal(err)
	}
	dead := alive.path(discovery.Instances, "dead")
	if err := write(dead, []byte("dead")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(alive.path(discovery.Instances, "lost")); err != nil {
		t.Fatal(err)
	}
	expect(t, alive, "alive", "dead")
	longAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(dead, longAgo, longAgo); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, gone := os.Stat(dead)
		_, back := os.Stat(alive.path(discovery.Instances, "lost"))
		if gone != nil && back == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the file of a dead process: %v; the one that was lost: %v", gone, back)
		}
	}
	expect(t, alive, "alive", "lost")
	entries, _ := os.ReadDir(filepath.Join(root, "v1", "instances"))
	if len(entries) != 2 {
		t.Errorf("got %v, want the two records only", entries)
	}
}

// TestFileChanges: a file is read again when it has changed, and only then.
func TestFileChanges(t *testing.T) {
	f, err := OpenFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	path, written := f.path(discovery.Models, "k"), time.Now().Add(-time.Second)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		content string
		at      time.Time
		want    string
	}{
		{"one", written, "one"},
		{"two", written, "one"}, // nothing shows that it is another
		{"two", written.Add(time.Millisecond), "two"},
		{"three", written.Add(time.Millisecond), "three"},
	} {
		if err := errors.Join(os.WriteFile(path, []byte(step.content), 0o644),
			os.Chtimes(path, step.at, step.at)); err != nil {
			t.Fatal(err)
		}
		list, err := f.List(discovery.Models)
		if err != nil || len(list) != 1 || string(list[0].Document) != step.want {
			t.Errorf("after %q: got %v, %v, want %q", step.content, list, err, step.want)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if list, err := f.List(discovery.Models); err != nil || len(list) != 0 || len(f.read[discovery.Models]) != 0 {
		t.Errorf("after the end: got %v, %v, and %d documents are kept", list, err, len(f.read[discovery.Models]))
	}
}
