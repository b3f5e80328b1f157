package paged

// Evictable blocks stand in queues, each a ring of slots through its anchor. The links are in the blocks themselves.

// anchor returns the slot through which the ring of a queue goes; no block lives there.
func anchor(queue int) Slot { return Slot(1 + queue) }

// clearQueues makes all queues empty.
func (t *table) clearQueues() {
	for q := range numQueues {
		*t.at(anchor(q)) = block{prev: anchor(q), next: anchor(q)}
	}
}

// front returns the oldest block of a queue, and whether there is one.
func (t *table) front(queue int) (slot Slot, ok bool) {
	slot = t.at(anchor(queue)).next
	return slot, slot != anchor(queue)
}

// pushBack makes the block at slot the youngest of a queue.
func (t *table) pushBack(queue int, slot Slot) {
	end := t.at(anchor(queue))
	b := t.at(slot)
	b.prev, b.next = end.prev, anchor(queue)
	t.at(end.prev).next = slot
	end.prev = slot
}

// unlink takes a block out of its queue.
func (t *table) unlink(b *block) {
	t.at(b.prev).next = b.next
	t.at(b.next).prev = b.prev
	b.prev, b.next = noSlot, noSlot
}
