package paged

// names are those of unregistered blocks of which it matters when they are taken again. Free blocks without content are
// taken in the order of a stack:
//
//	taken first  [a] [3 others] [b] [1 other]  all others
//
// It has nothing while no named block is free.
type names struct {
	count  Slot // of names so far: -2, -3 and so on
	spares []Slot
	stack  []freeBlocks // the last ones are taken first
	named  int          // of the stack
}

// freeBlocks are one block with a name, or some without.
type freeBlocks struct {
	name  Slot // PartialSlot for none
	count int
}

// next returns a name that no block has.
func (n *names) next() Slot {
	if last := len(n.spares) - 1; last >= 0 {
		name := n.spares[last]
		n.spares = n.spares[:last]
		return name
	}
	n.count++
	return PartialSlot - n.count
}

// free puts blocks on the stack.
func (n *names) free(name Slot, count int) {
	if name != PartialSlot {
		n.named++
	} else if n.named == 0 || count == 0 {
		return
	} else if top := &n.stack[len(n.stack)-1]; top.name == PartialSlot {
		top.count += count
		return
	}
	n.stack = append(n.stack, freeBlocks{name, count})
}

// take takes blocks from the stack, and appends the names among them.
func (n *names) take(taken []Slot, count int) []Slot {
	for count > 0 && n.named > 0 {
		top := &n.stack[len(n.stack)-1]
		some := min(count, top.count)
		count -= some
		if top.count -= some; top.count > 0 {
			break
		}
		if top.name != PartialSlot {
			taken, n.spares = append(taken, top.name), append(n.spares, top.name)
			n.named--
		}
		n.stack = n.stack[:len(n.stack)-1]
	}
	if n.named == 0 {
		n.stack = n.stack[:0]
	}
	return taken
}

// IsUnregistered reports whether a slot stands for an unregistered block, with a name or without.
func IsUnregistered(slot Slot) bool { return slot <= PartialSlot }
