package paged

import "dynosim/gocore/kvcache"

// table finds the slot of a full block by its id: open addressing with linear probing, holding slots only and comparing
// ids in the pool's blocks. Looking blocks up is most of what a long prompt costs; this is several times faster than a
// Go map and keeps no pointers for the garbage collector.
type table struct {
	slots []Slot // noSlot = empty; the length is a power of two
	used  int
	shift uint // 64 - log2(len(slots))
}

// home spreads consecutive ids over the table (Fibonacci hashing).
func (t *table) home(id kvcache.BlockID) int {
	return int(uint64(id) * 0x9E3779B97F4A7C15 >> t.shift)
}

func (t *table) find(blocks []block, id kvcache.BlockID) Slot {
	if t.used == 0 {
		return noSlot
	}
	mask := len(t.slots) - 1
	for i := t.home(id); ; i = (i + 1) & mask {
		slot := t.slots[i]
		if slot == noSlot || blocks[slot].id == id {
			return slot
		}
	}
}

// insert adds a slot whose id is not in the table.
func (t *table) insert(blocks []block, slot Slot) {
	if 2*(t.used+1) > len(t.slots) {
		t.grow(blocks)
	}
	t.place(blocks, slot)
	t.used++
}

// remove takes a slot out and moves later entries of its probe run up, so that no tombstones are needed.
func (t *table) remove(blocks []block, slot Slot) {
	mask := len(t.slots) - 1
	hole := t.home(blocks[slot].id)
	for t.slots[hole] != slot {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; t.slots[i] != noSlot; i = (i + 1) & mask {
		home := t.home(blocks[t.slots[i]].id)
		if (i-home)&mask >= (i-hole)&mask { // its run began at or before the hole
			t.slots[hole] = t.slots[i]
			hole = i
		}
	}
	t.slots[hole] = noSlot
	t.used--
}

func (t *table) place(blocks []block, slot Slot) {
	mask := len(t.slots) - 1
	i := t.home(blocks[slot].id)
	for t.slots[i] != noSlot {
		i = (i + 1) & mask
	}
	t.slots[i] = slot
}

func (t *table) grow(blocks []block) {
	old := t.slots
	if len(old) == 0 {
		t.slots, t.shift = make([]Slot, 64), 64-6
		return
	}
	t.slots = make([]Slot, 2*len(old))
	t.shift--
	for _, slot := range old {
		if slot != noSlot {
			t.place(blocks, slot)
		}
	}
}
