package paged

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/kvcache"
)

// The table against a Go map. The ids are chosen so that most of them want the last few places of the table, which makes
// long probe runs that wrap around, the case in which removal can go wrong.
func TestTable(t *testing.T) {
	for name, crowded := range map[string]bool{"crowded": true, "spread": false} {
		t.Run(name, func(t *testing.T) {
			const numSlots = 200 // the table grows from 64 to 512 places
			rng := rand.New(rand.NewPCG(5, 6))
			ids := idsWithHome(numSlots, crowded)
			blocks := make([]block, 1+numSlots)
			for i, id := range ids {
				blocks[1+i].id = id
			}
			var tab table
			want := map[kvcache.BlockID]Slot{}
			for step := range 5000 {
				limit := 10 + step*numSlots/5000 // few ids at first, so that every size of the table is lived in
				slot := Slot(1 + rng.IntN(min(limit, numSlots)))
				id := blocks[slot].id
				if _, ok := want[id]; ok {
					tab.remove(blocks, slot)
					delete(want, id)
				} else {
					tab.insert(blocks, slot)
					want[id] = slot
				}
				if tab.used != len(want) {
					t.Fatalf("step %d: %d used, want %d", step, tab.used, len(want))
				}
				if len(tab.slots) != tab.places() {
					t.Fatalf("step %d: %d places, of which %d are used", step, len(tab.slots), tab.places())
				}
				for _, id := range ids {
					if got := tab.find(blocks, id); got != want[id] {
						t.Fatalf("step %d: id %d: got slot %d, want %d", step, id, got, want[id])
					}
				}
			}
		})
	}
}

// idsWithHome lists n ids; if crowded, nine of ten have their home among the last three of 64 places, and so in the last
// 24 of 512.
func idsWithHome(n int, crowded bool) []kvcache.BlockID {
	tab := table{shift: 64 - 6}
	var ids []kvcache.BlockID
	for id := kvcache.BlockID(0); len(ids) < n; id++ {
		if !crowded || len(ids)%10 == 0 || tab.home(id) >= 61 {
			ids = append(ids, id)
		}
	}
	return ids
}
