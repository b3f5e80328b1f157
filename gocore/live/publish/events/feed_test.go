package events

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/live/blocks"
	"dynosim/gocore/live/publish/eventstest"
)

func floatOf(t *testing.T, text string) float64 {
	return math.Float64frombits(binary.BigEndian.Uint64(unhex(t, text)))
}

// stored returns a change: blocks with these hashes, all new, behind parent unless that is 0.
func stored(parent uint64, hashes ...uint64) blocks.Change {
	c := blocks.Change{Parent: parent, HasParent: parent != 0}
	for _, h := range hashes {
		c.Blocks = append(c.Blocks, blocks.Block{Hash: h, TokensHash: h + 100, New: true})
	}
	return c
}

func removed(hashes ...uint64) blocks.Change {
	c := stored(0, hashes...)
	c.Kind = kvcache.Removed
	return c
}

// brief writes events as id, what, hashes.
func brief(events []RouterEvent) string {
	text := ""
	for _, e := range events {
		switch d := e.Event.Data; {
		case d.Stored != nil:
			text += fmt.Sprintf("%d stored", e.Event.ID)
			if d.Stored.ParentHash != nil {
				text += fmt.Sprintf(" after %d:", *d.Stored.ParentHash)
			}
			for _, b := range d.Stored.Blocks {
				text += fmt.Sprintf(" %d", b.BlockHash)
			}
		case d.Removed != nil:
			text += fmt.Sprintf("%d removed %v", e.Event.ID, d.Removed.BlockHashes)
		}
		text += "; "
	}
	return text
}

func TestFeed(t *testing.T) {
	f := NewFeed(7, 1)
	got := brief(f.Apply([]blocks.Change{stored(0, 1, 2), stored(2, 3)}))
	got += brief(f.Apply(nil))
	got += brief(f.Apply([]blocks.Change{removed(3, 2), stored(1, 4)}))
	if want := "1 stored 1 2; 2 stored after 2: 3; 3 removed [3 2]; 4 stored after 1: 4; "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestFeedOfGroups: what concerns subscribers of the engine's own format only is left out.
func TestFeedOfGroups(t *testing.T) {
	f := NewFeed(7, 0)
	own, routers := stored(0, 1), stored(0, 2)
	own.To, routers.To = blocks.Subscribers, blocks.Routers
	if got, want := brief(f.Apply([]blocks.Change{own, routers})), "1 stored 2; "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestRemoveFilter: blocks that look alike from outside are gone when the last one is.
func TestRemoveFilter(t *testing.T) {
	f := NewFeed(7, 0)
	got := brief(f.Apply([]blocks.Change{stored(0, 1, 2), stored(0, 1), removed(1), removed(2, 1), removed(9)}))
	if want := "1 stored 1 2; 2 stored 1; 3 removed [2 1]; 4 removed [9]; "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	again := stored(0, 5)
	f.Apply([]blocks.Change{again})
	again.Blocks[0].New = false // told once more, as SGLang does
	f.Apply([]blocks.Change{again})
	if got, want := brief(f.Apply([]blocks.Change{removed(5)})), "7 removed [5]; "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if len(f.tiers[kvcache.Device].filter) != 0 {
		t.Errorf("the filter remembers %v", f.tiers[kvcache.Device].filter)
	}
}

func TestLoadGauge(t *testing.T) {
	var g LoadGauge
	step := func(nowMs float64, want string) {
		t.Helper()
		used, publish := g.Take(nowMs)
		due, pending := g.DueMs()
		if got := fmt.Sprintf("%d %v, %v %v", used, publish, due, pending); got != want {
			t.Errorf("at %v: got %s, want %s", nowMs, got, want)
		}
	}
	g.Set(0, 5)
	step(10, "0 false, 0 false")
	g.Set(3, 10)
	g.Set(4, 10.5)
	step(10.9, "0 false, 11 true")
	step(11, "4 true, 11 false")
	g.Set(9, 20)
	g.Set(4, 20.5)
	step(21, "4 false, 21 false")
	g.Set(0, 30)
	step(40, "0 true, 31 false")
}

func TestPassCounter(t *testing.T) {
	c := NewPassCounter(9, 1, 100)
	if _, due := c.Heartbeat(1099); due {
		t.Error("a heartbeat within the first second")
	}
	work := engine.Work{Scheduled: engine.Phases{PrefillRequests: 1}}
	if f := c.Next(work, 0.02, 1050); f.CounterID != 1 || f.Work != work || f.WorkerID != 9 || f.DPRank != 1 ||
		f.WallTimeS != 0.02 {
		t.Errorf("got %+v", f)
	}
	if _, due := c.Heartbeat(2049); due {
		t.Error("a heartbeat less than a second after a pass")
	}
	if f, due := c.Heartbeat(2050); !due || f.CounterID != 2 || f.Work != (engine.Work{}) || c.DueMs() != 3050 {
		t.Errorf("got %+v, %v, next due %v", f, due, c.DueMs())
	}
}

// TestTiers: tiers have the blocks apart from each other, and a dump says which has what.
func TestTiers(t *testing.T) {
	host := func(c blocks.Change) blocks.Change {
		c.Tier = kvcache.Host
		return c
	}
	f := NewFeed(7, 0)
	f.Apply([]blocks.Change{stored(0, 1, 2), host(stored(0, 1, 2, 3)), removed(2), host(removed(9))})
	var got []string
	for _, e := range f.Answer(Query{WorkerID: 7}).TreeDump.Events {
		got = append(got, e.StorageTier+": "+brief([]RouterEvent{e}))
	}
	if want := []string{"device: 0 stored 1; ", "host_pinned: 1 stored 1 2 3; "}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	n := NewNative(4, 0)
	for _, c := range []blocks.Change{host(stored(0, 5)), host(removed(5)), removed(5)} {
		c.Blocks[0].Tokens = []uint32{1, 2, 3, 4}
		batch, err := eventstest.Native(n.Message(&c, 0).Payload)
		if want := map[kvcache.Tier]string{kvcache.Host: "CPU_PINNED"}[c.Tier]; err != nil ||
			batch.Events[0].Medium != want {
			t.Errorf("%+v: got %+v, %v", c, batch, err)
		}
	}
}
