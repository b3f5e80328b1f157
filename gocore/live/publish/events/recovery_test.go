package events

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/live/blocks"
)

// ask answers a query in JSON.
func ask(t *testing.T, f *Feed, query string) string {
	t.Helper()
	var q Query
	if err := json.Unmarshal([]byte(query), &q); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(f.Answer(q))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAnswers are queries that the reference was asked and what it answered, the words of errors apart.
func TestAnswers(t *testing.T) {
	idle := NewFeed(9, 0)
	busy := NewFeed(9, 0)
	for i := range uint64(5) {
		busy.Apply([]blocks.Change{stored(i, i+1)})
	}
	event5 := `{"worker_id":9,"storage_tier":"device","residency_domain":"worker","event":{"event_id":5,` +
		`"data":{"stored":{"parent_hash":4,"start_position":null,` +
		`"blocks":[{"block_hash":5,"tokens_hash":105,"mm_extra_info":null}]}},"dp_rank":0}}`
	event4 := `{"worker_id":9,"storage_tier":"device","residency_domain":"worker","event":{"event_id":4,` +
		`"data":{"stored":{"parent_hash":3,"start_position":null,` +
		`"blocks":[{"block_hash":4,"tokens_hash":104,"mm_extra_info":null}]}},"dp_rank":0}}`
	nothing := `{"TreeDump":{"events":[],"last_event_id":0,"reset_scope":"all"}}`
	for _, test := range []struct {
		feed        *Feed
		query, want string
	}{
		{idle, `{"worker_id":9,"dp_rank":0,"start_event_id":null,"end_event_id":null}`, nothing},
		{idle, `{"worker_id":9,"dp_rank":0}`, nothing},
		{idle, `{"worker_id":9,"dp_rank":0,"start_event_id":50,"end_event_id":null}`, nothing},
		{idle, `{"worker_id":9,"dp_rank":0,"start_event_id":0,"end_event_id":0}`, nothing},
		{idle, `{"worker_id":9,"dp_rank":0,"start_event_id":null,"end_event_id":5}`, nothing},
		{idle, `{"worker_id":9,"dp_rank":0,"start_event_id":50,"end_event_id":1}`,
			`{"InvalidRange":{"start_id":50,"end_id":1}}`},
		{busy, `{"worker_id":9,"dp_rank":0,"start_event_id":3,"end_event_id":1}`,
			`{"InvalidRange":{"start_id":3,"end_id":1}}`},
		{busy, `{"worker_id":9,"dp_rank":0,"start_event_id":50,"end_event_id":null}`,
			`{"TooNew":{"requested_start":50,"requested_end":5,"newest_available":5}}`},
		{busy, `{"worker_id":9,"dp_rank":0,"start_event_id":6,"end_event_id":8}`,
			`{"TooNew":{"requested_start":6,"requested_end":8,"newest_available":5}}`},
		{busy, `{"worker_id":9,"dp_rank":0,"start_event_id":5,"end_event_id":null}`,
			`{"Events":{"events":[` + event5 + `],"last_event_id":5}}`},
		{busy, `{"worker_id":9,"dp_rank":0,"start_event_id":4,"end_event_id":4}`,
			`{"Events":{"events":[` + event4 + `,` + event5 + `],"last_event_id":5}}`},
		{busy, `{"worker_id":8,"dp_rank":0,"start_event_id":1}`, `{"Error":"worker_id: got 8, this is worker 9"}`},
		{busy, `{"worker_id":9,"dp_rank":3,"start_event_id":1}`, `{"Error":"dp_rank: got 3, this is rank 0"}`},
	} {
		if got := ask(t, test.feed, test.query); got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.query, got, test.want)
		}
	}
}

func TestRecentEvents(t *testing.T) {
	f := NewFeed(9, 0)
	for i := range uint64(recentEvents + 10) {
		f.Apply([]blocks.Change{stored(0, i+1)})
	}
	for _, test := range []struct {
		start  uint64
		events int // -1: a dump
	}{{0, -1}, {10, -1}, {11, recentEvents}, {recentEvents + 10, 1}} {
		a := f.Answer(Query{WorkerID: 9, StartEventID: &test.start})
		switch {
		case test.events == -1 && (a.TreeDump == nil || len(a.TreeDump.Events) != recentEvents+10 ||
			a.TreeDump.LastEventID != recentEvents+10):
			t.Errorf("from %d: want a dump of everything", test.start)
		case test.events > 0 && (a.Events == nil || len(a.Events.Events) != test.events ||
			a.Events.Events[0].Event.ID != test.start):
			t.Errorf("from %d: want %d events", test.start, test.events)
		}
	}
}

func TestTreeDump(t *testing.T) {
	for _, test := range []struct {
		name    string
		changes []blocks.Change
		want    string
	}{
		{"a chain of several events", []blocks.Change{stored(0, 1, 2), stored(2, 3)}, "0 stored 1 2 3; "},
		{"paths part", []blocks.Change{stored(0, 1, 2, 3), stored(2, 4, 5), stored(2, 6)},
			"0 stored 1 2; 1 stored after 2: 3; 2 stored after 2: 4 5; 3 stored after 2: 6; "},
		{"two roots", []blocks.Change{stored(0, 5), stored(0, 1), stored(5, 6)}, "0 stored 5 6; 1 stored 1; "},
		{"a leaf is gone", []blocks.Change{stored(0, 1, 2, 3), removed(3)}, "0 stored 1 2; "},
		{"blocks out of reach", []blocks.Change{stored(0, 1, 2, 3), stored(0, 8), removed(2)},
			"0 stored 1; 1 stored 8; "},
		{"and can again", []blocks.Change{stored(0, 1, 2, 3), removed(2), stored(1, 2)}, "0 stored 1 2 3; "},
		{"nothing", []blocks.Change{stored(0, 1), removed(1)}, ""},
	} {
		f := NewFeed(9, 0)
		f.Apply(test.changes)
		a := f.Answer(Query{WorkerID: 9})
		if got := brief(a.TreeDump.Events); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

// TestDumpIsTheHistory applies random changes to one feed, and its dump to another: both dump the same.
func TestDumpIsTheHistory(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	f := NewFeed(9, 0)
	var leaves []uint64
	for i := range uint64(4000) {
		if len(leaves) > 0 && rng.IntN(3) == 0 {
			at := rng.IntN(len(leaves))
			f.Apply([]blocks.Change{removed(leaves[at])})
			leaves = slices.Delete(leaves, at, at+1)
			continue
		}
		var parent uint64
		if len(leaves) > 0 && rng.IntN(4) > 0 {
			parent = leaves[rng.IntN(len(leaves))]
		}
		f.Apply([]blocks.Change{stored(parent, 2*i+1, 2*i+2)})
		leaves = append(leaves, 2*i+2, 2*i+1)
	}
	first := f.Answer(Query{WorkerID: 9}).TreeDump.Events
	copied := NewFeed(9, 0)
	known := map[uint64]bool{}
	for _, e := range first {
		s := e.Event.Data.Stored
		if s.ParentHash != nil && !known[*s.ParentHash] {
			t.Fatalf("event %d continues a block that no event before it has", e.Event.ID)
		}
		for _, b := range s.Blocks {
			known[b.BlockHash] = true
		}
		copied.tiers[kvcache.Device].index.apply(e.Event.Data)
	}
	if got, want := brief(copied.Answer(Query{WorkerID: 9}).TreeDump.Events),
		brief(first); got != want || len(first) < 100 {
		t.Errorf("got %s, want %s", got, want)
	}
}
