package paged

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"dynosim/gocore/kvcache"
)

// The table against a Go map. The groups of the ids are chosen so that most of them want the last few places of the
// index, which makes long probe runs that wrap around, the case in which removal can go wrong.
func TestTable(t *testing.T) {
	for name, crowded := range map[string]bool{"crowded": true, "spread": false} {
		for _, expected := range []int{0, 100, 1000} {
			t.Run(fmt.Sprint(name, expected), func(t *testing.T) { compareTable(t, crowded, expected) })
		}
	}
}

func compareTable(t *testing.T, crowded bool, expected int) {
	const numIDs = 400 // of 200 groups: the index grows from 64 to 512 places
	rng := rand.New(rand.NewPCG(5, 6))
	ids := idsWithHome(numIDs, crowded)
	tab := newTable(expected * groupSize / 2)
	want := map[kvcache.BlockID]Slot{}
	for step := range 5000 {
		limit := 10 + step*numIDs/5000 // few ids at first, so that every size of the table is lived in
		id := ids[rng.IntN(min(limit, numIDs))]
		if slot, ok := want[id]; ok {
			tab.at(slot).refs = 0
			tab.remove(slot)
			delete(want, id)
		} else {
			want[id] = tab.insert(id)
		}
		if len(tab.index) != tab.places() || 2*tab.used > len(tab.index) {
			t.Fatalf("step %d: %d places for %d groups, of which %d are found", step, len(tab.index), tab.used,
				tab.places())
		}
		for _, id := range ids {
			got := tab.find(id)
			if got != want[id] || got != noSlot && tab.id(got) != id {
				t.Fatalf("step %d: id %d: got slot %d, want %d", step, id, got, want[id])
			}
		}
	}
}

// idsWithHome lists n ids, two to a group; if crowded, nine of ten groups have their home among the last three of 64
// places, and so in the last 24 of 512.
func idsWithHome(n int, crowded bool) []kvcache.BlockID {
	tab := table{shift: 64 - 6}
	var ids []kvcache.BlockID
	for id := kvcache.BlockID(0); len(ids) < n; id += groupSize {
		if !crowded || len(ids)%20 == 0 || tab.home(numberOf(id)) >= 61 {
			ids = append(ids, id, id+1+id/groupSize%(groupSize-1))
		}
	}
	return ids
}
