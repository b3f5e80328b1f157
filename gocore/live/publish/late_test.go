package publish

import (
	"testing"
	"time"

	"dynosim/gocore/live/blocks"
	"dynosim/gocore/live/publish/events"
)

// TestKVEventLag: changes are published in order after the lag, and until then recovery does not know of them.
func TestKVEventLag(t *testing.T) {
	known := func(w *Worker) []events.RouterEvent {
		return w.Answer(1, events.Query{WorkerID: 5, DPRank: 1}).TreeDump.Events
	}
	never := start(t, Config{WorkerID: 5, Ranks: 2, KVEvents: true, BlockSize: 2, KVEventLag: time.Hour})
	never.Cache(1, hold(blocks.New(2), 1, 2))

	const lag = 30 * time.Millisecond
	w := start(t, Config{WorkerID: 5, Ranks: 2, KVEvents: true, BlockSize: 2, KVEventLag: lag})
	table, last, want := blocks.New(2), time.Time{}, []uint64(nil)
	for n := range uint32(3) {
		changes := hold(table, n, n)
		want = append(want, changes[0].Blocks[0].Hash)
		last = time.Now()
		w.Cache(1, changes)
	}
	for deadline := last.Add(patience); len(known(w)) < len(want); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d changes were published", len(known(w)), len(want))
		}
	}
	if waited := time.Since(last); waited < lag {
		t.Errorf("published %v after the change, want at least %v", waited, lag)
	}
	start := uint64(1)
	for i, e := range w.Answer(1, events.Query{WorkerID: 5, DPRank: 1, StartEventID: &start}).Events.Events {
		if stored := e.Event.Data.Stored; stored == nil || stored.Blocks[0].BlockHash != want[i] {
			t.Errorf("event %d is %+v, want block %d", i+1, e.Event, want[i])
		}
	}
	if n := len(known(never)); n != 0 {
		t.Errorf("%d changes were published an hour early", n)
	}
}

// TestLateEventsAreSent has a subscriber hear a change after its lag.
func TestLateEventsAreSent(t *testing.T) {
	w := start(t, Config{WorkerID: 5, Ranks: 1, KVEvents: true, BlockSize: 2, KVEventLag: time.Millisecond})
	table, n := blocks.New(2), uint32(0)
	heard := subscribe(t, w.channelOf(events.KVTopic, 0).Port, events.KVTopic,
		func() { n++; w.Cache(0, hold(table, n, n)) })
	changes := hold(table, n+1, n+1)
	w.Cache(0, changes)
	for {
		_, e := open(t, hear(t, heard), one)
		if e.Event.Data.Stored.Blocks[0].BlockHash == changes[0].Blocks[0].Hash {
			return
		}
	}
}
