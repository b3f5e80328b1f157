package discovery

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestParseEndpoint(t *testing.T) {
	standard := Endpoint{"dynamo", "backend", "generate"}
	for text, want := range map[string]Endpoint{
		"dyn://a.b.c":     {"a", "b", "c"},
		" /a/b/c/d. ":     {"a", "b", "c_d"},
		"dyn://a":         {"a", "backend", "generate"},
		"":                standard,
		"dyn://a..b":      {"a", "b", "generate"},
		"dyn://n-1.b_2.c": {"n-1", "b_2", "c"},
	} {
		if got, err := ParseEndpoint(text, standard); err != nil || got != want {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	if _, err := ParseEndpoint("dyn://A.b.c", standard); err == nil {
		t.Error("capital letters are accepted")
	}
}

func TestRecords(t *testing.T) {
	e := Endpoint{"dynamo", "backend", "generate"}
	for _, test := range []struct {
		got       Record
		key, want string
	}{
		{
			EndpointRecord(e, 12678662925488567779, map[string]string{"tcp": "127.0.0.1:19100/aff3a8c19ca935e3/generate"}, "cuda"),
			"dynamo/backend/generate/aff3a8c19ca935e3",
			`{"type":"Endpoint","component":"backend","endpoint":"generate","namespace":"dynamo","instance_id":12678662925488567779,"transport":{"tcp":"127.0.0.1:19100/aff3a8c19ca935e3/generate"},"device_type":"cuda"}`,
		},
		{
			EventChannelRecord("dynamo", "backend", "kv-events", 7773960973193825457, ZMQ("tcp://192.0.2.2:34217")),
			"dynamo/backend/kv-events/6be2a85120f7ccb1",
			`{"type":"EventChannel","namespace":"dynamo","component":"backend","topic":"kv-events","instance_id":7773960973193825457,"transport":{"kind":"Zmq","config":{"endpoint":"tcp://192.0.2.2:34217"}}}`,
		},
		{
			EventChannelRecord("dynamo", "", "kv_metrics", 14886171231468991878, NATS("namespace.dynamo")),
			"dynamo//kv_metrics/ce964ddd5d593586",
			`{"type":"EventChannel","namespace":"dynamo","component":"","topic":"kv_metrics","instance_id":14886171231468991878,"transport":{"kind":"Nats","config":{"subject_prefix":"namespace.dynamo"}}}`,
		},
		{
			EndpointRecord(e, 2324035525006360073, map[string]string{"nats_tcp": "dynamo_backend.generate-2040a1ff29647e09"}, "cuda"),
			"dynamo/backend/generate/2040a1ff29647e09",
			`{"type":"Endpoint","component":"backend","endpoint":"generate","namespace":"dynamo","instance_id":2324035525006360073,"transport":{"nats_tcp":"dynamo_backend.generate-2040a1ff29647e09"},"device_type":"cuda"}`,
		},
		{
			ModelRecord(e, 7, []byte(`{"slug":"x"}`)), "dynamo/backend/generate/7",
			`{"type":"Model","namespace":"dynamo","component":"backend","endpoint":"generate","instance_id":7,"card_json":{"slug":"x"}}`,
		},
	} {
		if test.got.Key != test.key || string(test.got.Document) != test.want {
			t.Errorf("got  %s %s\nwant %s %s", test.got.Key, test.got.Document, test.key, test.want)
		}
	}
}

func TestStores(t *testing.T) {
	memory := NewMemory()
	root := t.TempDir()
	shared, err := OpenFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = shared.Close() }()
	for name, open := range map[string]func() Store{
		"shared file": shared.Open,
		"memory":      memory.Open,
		"file": func() Store {
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
		put := func(s Store, key string) error { return s.Put(Record{Instances, key, []byte(key)}) }
		for _, key := range []string{"n/b_c/x-y/2", "n//k/1"} {
			if err := put(one, key); err != nil {
				t.Fatal(err)
			}
		}
		if err := put(other, "n//k/1"); !errors.Is(err, ErrExists) {
			t.Errorf("%s: got %v, want %v", name, err, ErrExists)
		}
		if err := put(other, "n//k/3"); err != nil {
			t.Fatal(err)
		}
		expect(t, other, "n//k/1", "n//k/3", "n/b_c/x-y/2")
		if err := one.Delete(Instances, "n//k/1"); err != nil {
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

func expect(t *testing.T, s Store, keys ...string) {
	t.Helper()
	records, err := s.List(Instances)
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

// TestFileLiveness: records of a living store stay, are written again if somebody removed them, and those of a dead one
// expire in every store that uses the bucket.
func TestFileLiveness(t *testing.T) {
	const ttl = 3 * time.Second
	root := t.TempDir()
	alive, err := openFile(root, ttl)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = alive.Close() }()
	if err := alive.Put(Record{Instances, "alive", []byte("alive")}); err != nil {
		t.Fatal(err)
	}
	if err := alive.Put(Record{Instances, "lost", []byte("lost")}); err != nil {
		t.Fatal(err)
	}
	dead := alive.path(Instances, "dead")
	if err := write(dead, []byte("dead")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(alive.path(Instances, "lost")); err != nil {
		t.Fatal(err)
	}
	expect(t, alive, "alive", "dead")
	longAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(dead, longAgo, longAgo); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, gone := os.Stat(dead)
		_, back := os.Stat(alive.path(Instances, "lost"))
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
