package router

import (
	"slices"

	"dynosim/gocore/kvcache"
)

// index knows which blocks each worker has cached: one set of blocks per worker. The zero value is empty and ready.
//
// Stored adds to the set and Removed takes away. Neither looks at parents: a block whose ancestors are gone stays in
// the set, and counts again as soon as they come back. Blocks with private ids are left out, because no prompt can name
// them.
type index struct {
	units           unitTable // one holder per unit and worker
	unknownRemovals int64     // blocks removed by a worker that did not have them
}

// apply takes note of an event of a worker.
func (x *index) apply(worker int32, e kvcache.Event) {
	change := x.store
	if e.Kind == kvcache.Removed {
		change = x.remove
	}
	var run stretch
	for _, blocks := range e.Blocks {
		if blocks.First >= kvcache.PrivateIDs {
			continue
		}
		for id, left := uint64(blocks.First), blocks.Number; left > 0; {
			unit, first, n := inUnit(id, left)
			if unit != run.unit {
				change(worker, run)
				run = stretch{unit: unit}
			}
			run.blocks.add(first, n)
			id += uint64(n)
			left -= n
		}
	}
	change(worker, run)
}

// store adds the blocks of run to a worker's set. They may be there already.
func (x *index) store(worker int32, run stretch) {
	if run.blocks.empty() {
		return
	}
	list := x.units.holders(run.unit)
	i := lowerBound(list, worker)
	if i < len(list) && list[i].worker == worker {
		list[i].blocks.include(&run.blocks)
		return
	}
	x.units.insert(run.unit, i, holder{blocks: run.blocks, worker: worker})
}

// remove takes the blocks of run out of a worker's set. Those that are not there are only counted.
func (x *index) remove(worker int32, run stretch) {
	if run.blocks.empty() {
		return
	}
	list := x.units.holders(run.unit)
	i := lowerBound(list, worker)
	if i == len(list) || list[i].worker != worker {
		x.unknownRemovals += int64(run.blocks.len())
		return
	}
	x.unknownRemovals += int64(run.blocks.without(&list[i].blocks))
	list[i].blocks.exclude(&run.blocks)
	if list[i].blocks.empty() {
		x.units.remove(run.unit, i)
	}
}

// overlaps returns how many leading blocks of a prompt each worker has cached; workers without any are left out.
func (x *index) overlaps(q *query, prompt []stretch) []match {
	return x.units.leading(q, prompt)
}

// clone returns an index with the same blocks.
func (x *index) clone() index {
	copied := *x
	copied.units.entries = slices.Clone(x.units.entries)
	copied.units.lists.sizes = slices.Clone(x.units.lists.sizes)
	for i, size := range copied.units.lists.sizes {
		copied.units.lists.sizes[i] = listSize{places: slices.Clone(size.places), spare: slices.Clone(size.spare)}
	}
	return copied
}

// copyCaches notes what another router knows of caches.
func (k *KV) copyCaches(from *KV) {
	k.index = from.index.clone()
	for g := range from.beside.groups {
		k.beside.groups[g] = from.beside.groups[g].clone()
	}
	if from.lower != nil {
		k.lower = from.lower.clone()
	}
}
