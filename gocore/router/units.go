package router

import "dynosim/gocore/kvcache"

// Block ids are grouped into units of consecutive ones, so that one entry and one set say which of them a worker has.
// Prompts are interned in order of appearance, hence the blocks that a prompt does not share with earlier ones are
// numbered consecutively, and a unit mostly is a stretch of one prompt. Nothing depends on it but speed.

// stretch is a run of blocks of a prompt that lie in one unit, by ascending id.
type stretch struct {
	unit   uint64
	blocks blockSet
}

// appendStretches appends the first blocks blocks of a prompt.
func appendStretches(dst []stretch, p kvcache.Prompt, blocks int) []stretch {
	for s := 0; blocks > 0; s++ {
		left := min(p.PerSegment, blocks)
		blocks -= left
		id := uint64(p.Segments[s]) * uint64(p.PerSegment)
		for left > 0 {
			unit, first, n := inUnit(id, left)
			last := len(dst) - 1
			if last < 0 || dst[last].unit != unit || dst[last].blocks.end() > first {
				dst = append(dst, stretch{unit: unit})
				last++
			}
			dst[last].blocks.add(first, n)
			id += uint64(n)
			left -= n
		}
	}
	return dst
}

// inUnit returns the unit of a block, the place of the block in that unit, and how many of the blocks from id to
// id+number-1 the unit has.
func inUnit(id uint64, number int) (unit uint64, first, n int) {
	first = int(id % unitBlocks)
	return id / unitBlocks, first, min(number, unitBlocks-first)
}

// holder says that a worker has blocks of one unit.
type holder struct {
	blocks blockSet
	worker int32
	refs   int32 // equal holders; the tracker counts them, the index does not
}

// unitTable maps units to the holders of their blocks, by ascending worker. A worker may have several holders in a
// unit; it has the union of their blocks.
//
// It is a hash table with open addressing and linear probing over a store of lists. Neither has pointers, so that the
// garbage collector never looks inside, and a unit without holders takes no space. The zero value is empty and ready.
type unitTable struct {
	entries []unitEntry // the length is a power of two, at most half of them are used
	used    int
	shift   uint // 64 - log2(len(entries))
	lists   listStore
}

// unitEntry is free when its list is empty.
type unitEntry struct {
	unit uint64
	list listRef
}

// holders returns the list of a unit, empty if there is none. It may be changed in place, and is valid until the next
// insert.
func (t *unitTable) holders(unit uint64) []holder {
	if t.used == 0 {
		return nil
	}
	return t.lists.view(t.find(unit).list)
}

// find returns the entry of a unit or the free one where it belongs. The table must not be empty.
func (t *unitTable) find(unit uint64) *unitEntry {
	mask := len(t.entries) - 1
	for i := t.home(unit); ; i = (i + 1) & mask {
		if e := &t.entries[i]; e.list.len == 0 || e.unit == unit {
			return e
		}
	}
}

// home returns where the entry of a unit belongs. Four consecutive units lie side by side, in one line of a processor's
// cache, and these fours are spread over the table (Fibonacci hashing).
func (t *unitTable) home(unit uint64) int {
	return int(unit/4*0x9E3779B97F4A7C15>>t.shift)&^3 | int(unit%4)
}

// insert puts h at place i of the unit's list.
func (t *unitTable) insert(unit uint64, i int, h holder) {
	if 2*(t.used+1) > len(t.entries) {
		t.grow()
	}
	e := t.find(unit)
	if e.list.len == 0 {
		e.unit = unit
		t.used++
	}
	t.lists.insert(&e.list, i, h)
}

// remove takes out place i of the unit's list.
func (t *unitTable) remove(unit uint64, i int) {
	e := t.find(unit)
	t.lists.remove(&e.list, i)
	if e.list.len == 0 {
		t.used--
		t.close(unit)
	}
}

// close moves later entries of a probe run over the entry that has just become free, so that no tombstones are needed.
func (t *unitTable) close(unit uint64) {
	mask := len(t.entries) - 1
	hole := t.home(unit)
	for t.entries[hole].list.len != 0 {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; t.entries[i].list.len != 0; i = (i + 1) & mask {
		if home := t.home(t.entries[i].unit); (i-home)&mask >= (i-hole)&mask { // its run began at or before the hole
			t.entries[hole] = t.entries[i]
			hole = i
		}
	}
	t.entries[hole] = unitEntry{}
}

func (t *unitTable) grow() {
	old := t.entries
	if len(old) == 0 {
		t.entries, t.shift = make([]unitEntry, 64), 64-6
		return
	}
	t.entries = make([]unitEntry, 2*len(old))
	t.shift--
	for _, e := range old {
		if e.list.len != 0 {
			*t.find(e.unit) = e
		}
	}
}

// lowerBound returns the place of the first holder whose worker is not below worker.
func lowerBound(list []holder, worker int32) int {
	low, high := 0, len(list)
	for low < high {
		if middle := (low + high) / 2; list[middle].worker < worker {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// match says that a worker has the first blocks blocks of a prompt.
type match struct {
	worker int32
	blocks int32
}

// query is the room a search needs.
type query struct {
	alive []match // have all stretches so far, by ascending worker
	ended []match
	lists [][]holder // of the stretches that were looked up
}

// leading returns the workers that have the first block of a prompt, and how many leading blocks each of them has. A
// worker appears once, in no particular order. The result belongs to q.
func (t *unitTable) leading(q *query, prompt []stretch) []match {
	q.alive, q.ended = q.alive[:0], q.ended[:0]
	if len(prompt) == 0 {
		return nil
	}
	q.lists = t.lookUp(q.lists[:0], prompt)
	q.begin(&prompt[0], q.lists[0])
	for i := 1; i < len(prompt) && len(q.alive) > 0; i++ {
		if i == len(q.lists) {
			q.lists = t.lookUp(q.lists, prompt[i:])
		}
		q.extend(&prompt[i], q.lists[i])
	}
	q.ended = append(q.ended, q.alive...)
	return q.ended
}

// lookUpAtOnce is how many stretches are looked up together: a processor then waits for their entries at the same time,
// which matters once the table is larger than its cache.
const lookUpAtOnce = 4

// lookUp appends the holders of the next stretches of a prompt.
func (t *unitTable) lookUp(dst [][]holder, prompt []stretch) [][]holder {
	for i := range min(lookUpAtOnce, len(prompt)) {
		dst = append(dst, t.holders(prompt[i].unit))
	}
	return dst
}

// begin sorts the holders of the first stretch of a prompt into those that have all of it and those that have less.
func (q *query) begin(s *stretch, list []holder) {
	whole := s.blocks.len()
	for len(list) > 0 {
		worker := list[0].worker
		var have blockSet
		list = union(&have, list, worker)
		if n := s.blocks.leading(&have); n == whole {
			q.alive = append(q.alive, match{worker, n})
		} else if n > 0 {
			q.ended = append(q.ended, match{worker, n})
		}
	}
}

// extend adds the leading blocks of the next stretch, and keeps only those workers alive that have all of it. Those
// without a holder, mostly far more than there are holders, are passed over in runs.
func (q *query) extend(s *stretch, list []holder) {
	kept, rest, whole := q.alive[:0], q.alive, s.blocks.len()
	for len(list) > 0 {
		worker, i := list[0].worker, 0
		for i < len(rest) && rest[i].worker < worker {
			i++
		}
		q.ended, rest = append(q.ended, rest[:i]...), rest[i:]
		if len(rest) == 0 {
			break
		}
		var have blockSet
		list = union(&have, list, worker)
		if rest[0].worker != worker {
			continue
		}
		m, n := rest[0], s.blocks.leading(&have)
		m.blocks, rest = m.blocks+n, rest[1:]
		if n == whole {
			kept = append(kept, m)
		} else {
			q.ended = append(q.ended, m)
		}
	}
	q.alive, q.ended = kept, append(q.ended, rest...)
}

// union adds the blocks of worker, whose holders must come first if it has any, and returns the others behind them.
func union(have *blockSet, list []holder, worker int32) (rest []holder) {
	for len(list) > 0 && list[0].worker == worker {
		have.include(&list[0].blocks)
		list = list[1:]
	}
	return list
}
