package paged

import (
	"fmt"

	"dynosim/gocore/kvcache"
)

// check verifies the invariants of doc.go and of the structures behind them.
func (p *Pool) check() error {
	const unseen, free, active, inactive = "unseen", "free", "active", "inactive"
	class := make([]string, len(p.blocks))
	for i := range class {
		class[i] = unseen
	}
	assign := func(slot Slot, name string) error {
		if slot < numQueues || int(slot) >= len(p.blocks) {
			return fmt.Errorf("slot %d is %s but does not exist", slot, name)
		}
		if class[slot] != unseen {
			return fmt.Errorf("slot %d is %s and %s", slot, class[slot], name)
		}
		class[slot] = name
		return nil
	}

	numFree := p.capacity - (len(p.blocks) - numQueues) // never used so far
	for slot := p.freeSlots; slot != noSlot; slot = p.blocks[slot].next {
		if err := assign(slot, free); err != nil {
			return err
		}
		if refs := p.blocks[slot].refs; refs != 0 {
			return fmt.Errorf("free slot %d has %d references", slot, refs)
		}
		numFree++
	}

	numInactive := 0
	for queue := range Slot(numQueues) {
		prev := queue
		for slot := p.blocks[queue].next; slot != queue; slot = p.blocks[slot].next {
			if err := assign(slot, inactive); err != nil {
				return err
			}
			switch b := p.blocks[slot]; {
			case b.prev != prev:
				return fmt.Errorf("queue %d: slot %d follows %d but points back to %d", queue, slot, prev, b.prev)
			case b.refs != 0:
				return fmt.Errorf("inactive slot %d has %d references", slot, b.refs)
			case b.id == Partial:
				return fmt.Errorf("inactive slot %d is partial", slot)
			case queue != 0 && p.queues.uses == nil:
				return fmt.Errorf("queue %d is in use, but only MultiLRU has more than one", queue)
			}
			prev = slot
			numInactive++
		}
		if last := p.blocks[queue].prev; last != prev {
			return fmt.Errorf("queue %d ends at slot %d, its anchor says %d", queue, prev, last)
		}
	}

	numActive, numFull := 0, 0
	for slot := Slot(numQueues); int(slot) < len(p.blocks); slot++ {
		b := p.blocks[slot]
		if class[slot] == free {
			continue
		}
		if class[slot] == unseen {
			if b.refs <= 0 {
				return fmt.Errorf("slot %d (%s) is in no class", slot, pathOf(b.id))
			}
			numActive++
		}
		if b.pins < 0 || b.pins > b.refs {
			return fmt.Errorf("slot %d (%s) has %d references, %d of them pins", slot, pathOf(b.id), b.refs, b.pins)
		}
		if b.id == Partial {
			if b.refs != 1 {
				return fmt.Errorf("partial slot %d has %d references", slot, b.refs)
			}
			continue
		}
		numFull++
		if found := p.byID.find(p.blocks, b.id); found != slot { // also when two slots have this id
			return fmt.Errorf("%s is in slot %d, the table says %d", pathOf(b.id), slot, found)
		}
	}
	inTable := 0
	for _, slot := range p.byID.slots {
		if slot != noSlot {
			inTable++
		}
	}

	for _, count := range []struct {
		name      string
		got, want int
	}{
		{"free + active + inactive", p.Free() + p.active + p.inactive, p.capacity},
		{"free", p.Free(), numFree},
		{"active", p.Active(), numActive},
		{"inactive", p.inactive, numInactive},
		{"available", p.Available(), numFree + numInactive},
		{"full blocks in the table", inTable, numFull},
		{"entries the table counts", p.byID.used, numFull},
		{"places of the table", len(p.byID.slots), p.byID.places()},
	} {
		if count.got != count.want {
			return fmt.Errorf("%s: got %d, want %d", count.name, count.got, count.want)
		}
	}
	return nil
}

// places is how many places home can tell apart: all of them.
func (t *table) places() int {
	if t.slots == nil {
		return 0
	}
	return 1 << (64 - t.shift)
}

// evictionOrder lists the inactive blocks in the order in which they would go.
func (p *Pool) evictionOrder() []kvcache.BlockID {
	var order []kvcache.BlockID
	for queue := range Slot(numQueues) {
		for slot := p.blocks[queue].next; slot != queue; slot = p.blocks[slot].next {
			order = append(order, p.blocks[slot].id)
		}
	}
	return order
}
