package router

import (
	"fmt"

	"dynosim/gocore/kvcache"
)

// checkWorker compares the blocks a worker holds with a set. Private ids of the set are not expected.
func (t *unitTable) checkWorker(worker int32, want map[kvcache.BlockID]bool) error {
	numWant := 0
	for id := range want {
		if id >= kvcache.PrivateIDs {
			continue
		}
		numWant++
		var have blockSet
		for _, h := range t.holders(uint64(id) / unitBlocks) {
			if h.worker == worker {
				have.include(&h.blocks)
			}
		}
		if bit := id % unitBlocks; have[bit/64]>>(bit%64)&1 == 0 {
			return fmt.Errorf("worker %d lacks block %d", worker, id)
		}
	}
	numGot := 0
	for _, e := range t.entries {
		var have blockSet
		for _, h := range t.lists.view(e.list) {
			if h.worker == worker {
				have.include(&h.blocks)
			}
		}
		numGot += int(have.len())
	}
	if numGot != numWant {
		return fmt.Errorf("worker %d has %d blocks, want %d", worker, numGot, numWant)
	}
	return nil
}

// check verifies the structure: every entry is found, lists are sorted and in places of their own, and each place is
// either in use or spare.
func (t *unitTable) check() error {
	used := 0
	type place struct{ log, number int }
	owned := map[place]bool{}
	own := func(p place) error {
		if owned[p] {
			return fmt.Errorf("place %v has two owners", p)
		}
		owned[p] = true
		return nil
	}
	for i := range t.entries {
		e := &t.entries[i]
		if e.list.len == 0 {
			if *e != (unitEntry{}) {
				return fmt.Errorf("free entry %+v", *e)
			}
			continue
		}
		used++
		if t.find(e.unit) != e {
			return fmt.Errorf("unit %d is not found", e.unit)
		}
		if err := own(place{size(e.list.len), int(e.list.place)}); err != nil {
			return err
		}
		if err := checkList(t.lists.view(e.list)); err != nil {
			return fmt.Errorf("unit %d: %v", e.unit, err)
		}
	}
	if used != t.used || 2*used > len(t.entries) {
		return fmt.Errorf("%d entries in use of %d, counted %d", used, len(t.entries), t.used)
	}
	numPlaces := 0
	for log, s := range t.lists.sizes {
		numPlaces += len(s.places) >> log
		for _, number := range s.spare {
			if err := own(place{log, int(number)}); err != nil {
				return err
			}
		}
	}
	if numPlaces != len(owned) {
		return fmt.Errorf("%d places, %d of them owned", numPlaces, len(owned))
	}
	return nil
}

func checkList(list []holder) error {
	for i, h := range list {
		if h.blocks.empty() {
			return fmt.Errorf("holder %+v of nothing", h)
		}
		for _, before := range list[:i] {
			if before.worker > h.worker || before.worker == h.worker && before.blocks == h.blocks {
				return fmt.Errorf("holder %+v before %+v", before, h)
			}
		}
	}
	return nil
}
