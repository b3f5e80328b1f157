package paged

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestNames lets random requests take and give back blocks, some of them with names, and compares which names come
// back, and when, with a plain list of the free blocks.
func TestNames(t *testing.T) {
	back := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := NewLRU(5 + rng.IntN(40))
		p.Watch()
		free := make([]Slot, p.Capacity()) // the last one is taken first
		for i := range free {
			free[i] = PartialSlot
		}
		var held []Slot
		for range 400 {
			switch count := 1 + rng.IntN(8); {
			case rng.IntN(2) == 0:
				if p.Take(count) != (count <= len(free)) {
					t.Fatalf("seed %d: %d of %d free blocks", seed, count, len(free))
				}
				if count > len(free) {
					continue
				}
				var want []Slot
				for range count {
					last := len(free) - 1
					if free[last] != PartialSlot {
						want = append(want, free[last])
					}
					free, held = free[:last], append(held, PartialSlot)
				}
				if got := p.TakeEvicted(); !slices.Equal(got, want) {
					t.Fatalf("seed %d: got %v, want %v", seed, got, want)
				}
				back += len(want)
			case count <= len(held):
				for i, slot := range held[:count] {
					if slot == PartialSlot && rng.IntN(3) == 0 {
						held[i] = p.Name()
					}
					p.DiscardNamed(held[i])
				}
				free, held = append(free, held[:count]...), held[count:]
			}
			if p.Free() != len(free) {
				t.Fatalf("seed %d: %d blocks are free, want %d", seed, p.Free(), len(free))
			}
		}
		names := slices.DeleteFunc(slices.Concat(free, held), func(slot Slot) bool { return slot == PartialSlot })
		slices.Sort(names)
		if len(slices.Compact(names)) != len(names) {
			t.Fatalf("seed %d: two blocks have one name: %v", seed, names)
		}
	}
	if back == 0 {
		t.Error("no name came back")
	}
}
