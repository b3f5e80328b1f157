package live

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dynosim/gocore/live/plane"
	"dynosim/gocore/protocol/discovery"
	"dynosim/gocore/protocol/wire"

	"github.com/google/uuid"
)

// TestShutdownUnderLoad: clients that are cut off see that, and nothing of the process is left but its closed ports.
func TestShutdownUnderLoad(t *testing.T) {
	const clients = 200
	p, store := startProcess(t, 0)
	records, err := store.List(discovery.Instances)
	if err != nil {
		t.Fatal(err)
	}
	caller, err := plane.ListenForAnswers("127.0.0.1:0", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	output := uint32(3000)
	var begun, whole, broken, silent atomic.Int32
	var all sync.WaitGroup
	for i := range clients {
		var record struct{ Transport map[string]string }
		for _, r := range records {
			if strings.Contains(r.Key, "/generate/") && (record.Transport == nil || i%2 == 1) {
				if err := json.Unmarshal(r.Document, &record); err != nil {
					t.Fatal(err)
				}
			}
		}
		address, path, _ := strings.Cut(record.Transport["tcp"], "/")
		all.Go(func() {
			body, _ := wire.EncodeRequest(wire.JSON, wire.Request{
				TokenIDs: []uint32{1, 2, uint32(i)}, StopConditions: wire.StopConditions{MaxTokens: &output},
			})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			answer, err := caller.Send(ctx, address, path,
				plane.Outgoing{ID: uuid.NewString(), Codec: wire.JSON, Body: body})
			if err != nil {
				if ctx.Err() != nil {
					silent.Add(1)
				}
				broken.Add(1)
				return
			}
			defer answer.Close()
			for begun.Add(1); err == nil; {
				_, err = answer.Next()
			}
			if err == io.EOF {
				whole.Add(1)
			} else {
				broken.Add(1)
			}
		})
	}
	for deadline := time.Now().Add(time.Minute); begun.Load() < clients/2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d have begun", begun.Load(), clients)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	all.Wait() // for those that hear nothing this takes minutes
	if t.Context().Err() == nil && silent.Load() > 0 {
		t.Errorf("%d clients have heard nothing", silent.Load())
	}
	if broken.Load() == 0 || whole.Load()+broken.Load() != clients {
		t.Errorf("%d answers are whole, %d are not", whole.Load(), broken.Load())
	}
	for _, b := range discovery.Buckets {
		if records, err := store.List(b); err != nil || len(records) != 0 {
			t.Errorf("%s: %d records are left, %v", b, len(records), err)
		}
	}
}
