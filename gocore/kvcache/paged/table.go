package paged

import (
	"math/bits"

	"dynosim/gocore/kvcache"
)

// table holds the full blocks of the pool and finds them by id. Finding blocks is most of what a long prompt costs, and
// the ids of a prompt come in stretches; so groupSize consecutive ids live together in a group, and the group used last
// is remembered: most blocks are found without hashing, right behind the block before.
//
//	id 41  ->  group number 5, place 1      index (hashed by number)  ->  groups[n].blocks[1]  =  slot 8n + 1
//
// A group is there as long as one of its blocks is. The index is a hash table with open addressing and linear probing.
// Nothing here has pointers for the garbage collector to follow.
type table struct {
	expected int // groups, if the pool will be full

	index  []int32 // places in groups, 0 = empty; the length is a power of two, at most half of it is used
	groups []group // the first holds no blocks but the anchors of the eviction queues
	shift  uint    // 64 - log2(len(index))
	used   int     // groups with blocks
	unused int32   // group given back, linked through its count; 0 = none
	last   int32   // group that was found or made last, or that is expected next, or 0
}

// groupSize is the number of blocks that live together. Engine blocks of 64 tokens in traces of 512 make it 8.
const groupSize = 8

type group struct {
	number uint64 // id / groupSize, plus 1: no group has number 0
	blocks [groupSize]block
	count  int32 // blocks that are there; in an unused group, the next unused one
}

// block is a full block, or the place of one. It is there if it has references or stands in a queue.
type block struct {
	refs       int32
	pins       int32 // of the references, those of reservations
	prev, next Slot  // in its eviction queue, noSlot if it is in none
}

func (b *block) exists() bool { return b.refs > 0 || b.next != noSlot }

func newTable(capacity int) table {
	// Groups are less than full where a prompt or an output ends.
	return table{expected: capacity / (groupSize / 2), groups: make([]group, 1)}
}

func (t *table) at(slot Slot) *block {
	return &t.groups[uint32(slot)/groupSize].blocks[uint32(slot)%groupSize]
}

// id returns the id of the block that lives at slot.
func (t *table) id(slot Slot) kvcache.BlockID {
	number := t.groups[uint32(slot)/groupSize].number
	return kvcache.BlockID((number-1)*groupSize + uint64(slot)%groupSize)
}

func numberOf(id kvcache.BlockID) uint64 { return uint64(id)/groupSize + 1 }

func slotOf(group int32, id kvcache.BlockID) Slot {
	return Slot(group*groupSize + int32(id%groupSize))
}

// home spreads consecutive groups over the index (Fibonacci hashing).
func (t *table) home(number uint64) int {
	return int(number * 0x9E3779B97F4A7C15 >> t.shift)
}

// find returns the slot of a block, noSlot if it is not there.
func (t *table) find(id kvcache.BlockID) Slot {
	g := t.lookup(numberOf(id))
	if g == 0 || !t.groups[g].blocks[id%groupSize].exists() {
		return noSlot
	}
	return slotOf(g, id)
}

// lookup returns the place of a group, 0 if there is none.
func (t *table) lookup(number uint64) int32 {
	if t.used == 0 {
		return 0
	}
	if t.groups[t.last].number == number {
		return t.last
	}
	mask := len(t.index) - 1
	for i := t.home(number); ; i = (i + 1) & mask {
		g := t.index[i]
		if g == 0 {
			return 0
		}
		if t.groups[g].number == number {
			t.last = g
			return g
		}
	}
}

// expectAfter prepares for finding the block that follows those of held: it is likely to live in the group of the last
// one. With many running requests, the index is rarely in the processor's caches.
func (t *table) expectAfter(held []Slot) {
	if last := len(held) - 1; last >= 0 && held[last] > noSlot {
		t.last = int32(held[last]) / groupSize
	}
}

// insert adds a block that is not there, with one reference.
func (t *table) insert(id kvcache.BlockID) Slot {
	g := t.lookup(numberOf(id))
	if g == 0 {
		g = t.add(numberOf(id))
	}
	t.groups[g].count++
	t.groups[g].blocks[id%groupSize] = block{refs: 1}
	return slotOf(g, id)
}

func (t *table) add(number uint64) int32 {
	if 2*(t.used+1) > len(t.index) {
		t.grow()
	}
	g := t.unused
	if g != 0 {
		t.unused = t.groups[g].count
	} else {
		if len(t.groups) == cap(t.groups) {
			t.growGroups()
		}
		g = int32(len(t.groups))
		t.groups = t.groups[:g+1]
	}
	t.groups[g].number, t.groups[g].count = number, 0
	t.place(g)
	t.used++
	t.last = g
	return g
}

// remove takes a block out that has no references and is in no queue, and its group if it was the last one there.
func (t *table) remove(slot Slot) {
	g := int32(slot) / groupSize
	group := &t.groups[g]
	if group.count--; group.count > 0 {
		return
	}
	t.close(g)
	group.number, group.count = 0, t.unused
	t.unused, t.last = g, 0
	t.used--
}

// close moves later entries of a probe run over that of g, so that no tombstones are needed.
func (t *table) close(g int32) {
	mask := len(t.index) - 1
	hole := t.home(t.groups[g].number)
	for t.index[hole] != g {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; t.index[i] != 0; i = (i + 1) & mask {
		home := t.home(t.groups[t.index[i]].number)
		if (i-home)&mask >= (i-hole)&mask { // its run began at or before the hole
			t.index[hole] = t.index[i]
			hole = i
		}
	}
	t.index[hole] = 0
}

func (t *table) place(g int32) {
	mask := len(t.index) - 1
	i := t.home(t.groups[g].number)
	for t.index[i] != 0 {
		i = (i + 1) & mask
	}
	t.index[i] = g
}

// firstPlaces is the length of the first index. The next one holds all groups expected, but for huge pools: memory that
// is never used costs nothing, but a table that grows step by step is written several times.
const firstPlaces, mostPlaces = 512, 1 << 15

func (t *table) grow() {
	old := t.index
	size := firstPlaces
	if len(old) > 0 {
		size = max(2*len(old), min(2*t.expected, mostPlaces))
	}
	t.shift = uint(64 - bits.Len(uint(size-1)))
	t.index = make([]int32, 1<<(64-t.shift))
	for _, g := range old {
		if g != 0 {
			t.place(g)
		}
	}
}

func (t *table) growGroups() {
	size := firstPlaces / 2
	if len(t.groups) > 1 {
		size = max(2*len(t.groups), min(t.expected, mostPlaces/2))
	}
	larger := make([]group, len(t.groups), 1+size)
	copy(larger, t.groups)
	t.groups = larger
}
