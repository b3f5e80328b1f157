package store

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"dynosim/gocore/protocol/discovery"
)

// FuzzFileNames: every key has a file name of its own, from which it can be read again.
func FuzzFileNames(f *testing.F) {
	f.Add("dynamo/backend/generate/aff3a8c19ca935e3")
	f.Add("dynamo//kv_metrics/ü%\x00")
	f.Fuzz(func(t *testing.T, key string) {
		name := fileName(key)
		if strings.ContainsAny(name, "/.\x00") {
			t.Errorf("%q is no name of a file", name)
		}
		if again, err := url.PathUnescape(name); err != nil || again != key {
			t.Errorf("got %q, %v from %q", again, err, key)
		}
	})
}

// FuzzList: whatever lies in a bucket, what belongs there is found.
func FuzzList(f *testing.F) {
	f.Add("dynamo%2Fbackend", []byte("{}"))
	f.Add(".tmp_0", []byte{})
	f.Add("%", []byte("\x00"))
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		store, err := openFile(t.TempDir(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		if err := store.Put(discovery.Record{Bucket: discovery.Models, Key: "mine",
			Document: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		if name == "" || len(name) > 100 || strings.ContainsAny(name, "/\x00") || name == "." || name == ".." ||
			name == "mine" {
			return
		}
		if err := write(store.folder(discovery.Models)+"/"+name, content); err != nil {
			t.Skip(err)
		}
		records, err := store.List(discovery.Models)
		if err != nil || len(records) < 1 || len(records) > 2 {
			t.Errorf("got %v, %v", records, err)
		}
		mine := 0
		for _, r := range records {
			if r.Key == "mine" {
				mine++
			}
		}
		if mine == 0 {
			t.Error("a record is lost")
		}
	})
}
