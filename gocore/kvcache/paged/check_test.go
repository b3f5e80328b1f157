package paged

import (
	"fmt"

	"dynosim/gocore/kvcache"
)

// check verifies the invariants of doc.go and of the structures behind them.
func (p *Pool) check() error {
	inactive, err := p.checkQueues()
	if err != nil {
		return err
	}
	numFull, numActive, numGroups := 0, 0, 0
	for g := range int32(len(p.full.groups)) {
		group := &p.full.groups[g]
		if group.number == 0 { // the anchors, or unused
			continue
		}
		numGroups++
		count := int32(0)
		for i := range kvcache.BlockID(groupSize) {
			slot := slotOf(g, i)
			b := p.full.at(slot)
			if !b.exists() {
				if *b != (block{}) {
					return fmt.Errorf("slot %d is empty and holds %v", slot, *b)
				}
				continue
			}
			count++
			if b.refs > 0 {
				numActive++
			}
			id := p.full.id(slot)
			switch found := p.full.find(id); {
			case found != slot:
				return fmt.Errorf("%s is in slot %d, the table says %d", pathOf(id), slot, found)
			case b.refs < 0 || b.pins < 0 || b.pins > b.refs:
				return fmt.Errorf("slot %d (%s) has %d references, %d of them pins", slot, pathOf(id), b.refs, b.pins)
			case b.refs == 0 != inactive[slot]:
				return fmt.Errorf("slot %d (%s) has %d references, and is in a queue: %t", slot, pathOf(id), b.refs,
					inactive[slot])
			}
		}
		if count == 0 || count != group.count {
			return fmt.Errorf("group %d has %d blocks and counts %d", group.number, count, group.count)
		}
		numFull += int(count)
	}

	for _, count := range []struct {
		name      string
		got, want int
	}{
		{"free", p.Free(), p.capacity - numFull - p.partial},
		{"active", p.Active(), numActive + p.partial},
		{"inactive", p.inactive, len(inactive)},
		{"available", p.Available(), p.Free() + len(inactive)},
		{"groups the table counts", p.full.used, numGroups},
		{"places of the table", len(p.full.index), p.full.places()},
	} {
		if count.got != count.want {
			return fmt.Errorf("%s: got %d, want %d", count.name, count.got, count.want)
		}
	}
	if p.Free() < 0 || p.aside > p.partial {
		return fmt.Errorf("%d free, %d partial, %d set aside", p.Free(), p.partial, p.aside)
	}
	return nil
}

// checkQueues returns the slots of the inactive blocks.
func (p *Pool) checkQueues() (map[Slot]bool, error) {
	inactive := map[Slot]bool{}
	for queue := range numQueues {
		prev := anchor(queue)
		for slot := p.full.at(prev).next; slot != anchor(queue); slot = p.full.at(slot).next {
			switch b := p.full.at(slot); {
			case inactive[slot]:
				return nil, fmt.Errorf("slot %d is in two queues", slot)
			case b.prev != prev:
				return nil, fmt.Errorf("queue %d: slot %d follows %d but points back to %d", queue, slot, prev, b.prev)
			case queue != 0 && p.queues.uses == nil:
				return nil, fmt.Errorf("queue %d is in use, but only MultiLRU has more than one", queue)
			}
			inactive[slot] = true
			prev = slot
		}
		if last := p.full.at(anchor(queue)).prev; last != prev {
			return nil, fmt.Errorf("queue %d ends at slot %d, its anchor says %d", queue, prev, last)
		}
	}
	return inactive, nil
}

// places returns how many places home can tell apart: all of them.
func (t *table) places() int {
	if t.index == nil {
		return 0
	}
	return 1 << (64 - t.shift)
}

// idAt returns what a request holds with slot.
func (p *Pool) idAt(slot Slot) kvcache.BlockID {
	if slot == PartialSlot {
		return Partial
	}
	return p.full.id(slot)
}

// evictionOrder lists the inactive blocks in the order in which they would go.
func (p *Pool) evictionOrder() []kvcache.BlockID {
	var order []kvcache.BlockID
	for queue := range numQueues {
		for slot := p.full.at(anchor(queue)).next; slot != anchor(queue); slot = p.full.at(slot).next {
			order = append(order, p.full.id(slot))
		}
	}
	return order
}
