package lockstep

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/kvcache"
)

// TestEventsOfRanks stores and removes blocks on two ranks at random, and compares what the merged events leave with
// the union of both.
func TestEventsOfRanks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 0))
	var merger Events
	holders := NewHolders()
	ranks := [2]map[kvcache.BlockID]bool{{}, {}}
	seen := map[kvcache.BlockID]bool{}
	for range 5000 {
		rank := ranks[rng.IntN(2)]
		event := kvcache.Event{Kind: kvcache.Stored}
		for id := kvcache.BlockID(rng.IntN(5)); id < 8; id++ {
			if !rank[id] {
				event.Blocks = event.Blocks.Append(id, 1)
			}
		}
		if rng.IntN(2) == 0 {
			event = kvcache.Event{Kind: kvcache.Removed}
			for id := range kvcache.BlockID(8) {
				if rank[id] && rng.IntN(2) == 0 {
					event.Blocks = event.Blocks.Append(id, 1)
				}
			}
		}
		for id := range event.Blocks.All() {
			rank[id] = event.Kind == kvcache.Stored
		}
		merger.Add(holders, 0, []kvcache.Event{event})
		for _, e := range merger.Take(nil) {
			if e.Kind == kvcache.Stored && e.HasParent && !seen[e.Parent] {
				t.Fatalf("%+v follows a block that the worker does not have", e)
			}
			for id := range e.Blocks.All() {
				if seen[id] == (e.Kind == kvcache.Stored) {
					t.Fatalf("%+v repeats what was known of block %d", e, id)
				}
				seen[id] = e.Kind == kvcache.Stored
			}
		}
		for id := range kvcache.BlockID(8) {
			if want := ranks[0][id] || ranks[1][id]; seen[id] != want {
				t.Fatalf("block %d: the worker has it %t, want %t", id, seen[id], want)
			}
		}
	}
}

// TestTiersAreApart has one rank store a block on the device that another rank has on its host, and both name it: each
// tier, and the names, are counted by themselves.
func TestTiersAreApart(t *testing.T) {
	var merger Events
	holders := NewHolders()
	count := 0
	for _, e := range []kvcache.Event{
		{Kind: kvcache.Held, Tier: kvcache.Host}, {Kind: kvcache.Stored, Tier: kvcache.Host}, {Kind: kvcache.Stored},
		{Kind: kvcache.Removed}, {Kind: kvcache.Removed, Tier: kvcache.Host}, {Kind: kvcache.LetGo, Tier: kvcache.Host},
	} {
		e.Blocks = kvcache.BlocksOf(7)
		merger.Add(holders, 0, []kvcache.Event{e})
		for _, got := range merger.Take(nil) {
			if got.Kind != e.Kind || got.Tier != e.Tier {
				t.Errorf("got %+v, want %+v", got, e)
			}
			count++
		}
	}
	if count != 6 {
		t.Errorf("got %d events, want 6", count)
	}
}
