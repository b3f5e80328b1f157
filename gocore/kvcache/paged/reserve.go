package paged

import "dynosim/gocore/kvcache"

// Reservation is room for a prompt whose KV comes from another worker. The slots of its blocks are active from the
// start: first those of the longest prefix that was cached, which it pins, then empty ones that wait for their content.
//
//	prompt     a   ab   abc  abcd  partial
//	slots      3   7    9    4     12
//	           pinned   empty
//
// A block that only reservations have counts as cached, not as in use (Lookup). Other requests may use
// it, and then share it as usual.
type Reservation struct {
	slots  []Slot
	pinned int // leading slots
}

// Missing returns the number of blocks that have no content yet.
func (r Reservation) Missing() int { return len(r.slots) - r.pinned }

// Blocks returns the number of blocks that have a place.
func (r Reservation) Blocks() int { return len(r.slots) }

// Reserve takes room for blocks, a whole prompt, and must leave spare blocks available. It is all or nothing: when room
// does not suffice it reports false, and the cached blocks of the prefix have become the youngest.
func (p *Pool) Reserve(blocks []kvcache.BlockID, spare int) (Reservation, bool) {
	r := Reservation{slots: make([]Slot, 0, len(blocks))}
	for _, id := range blocks {
		slot := noSlot
		if id != Partial {
			slot = p.acquire(id)
		}
		if slot == noSlot {
			break
		}
		p.full.at(slot).pins++
		r.slots = append(r.slots, slot)
		r.pinned++
	}
	if len(blocks)-r.pinned+spare > p.Available() {
		p.unpin(r)
		p.putBack(r.slots)
		return Reservation{}, false
	}
	for range len(blocks) - r.pinned {
		r.slots = append(r.slots, p.fill(Partial))
	}
	if p.recording {
		p.publishEvicted()
	}
	return r, true
}

// Activate gives the reserved blocks, the same as at Reserve, to a request, which holds them from now on, and appends
// them to held, which must be empty. A block that has come to be cached meanwhile is shared, and the slot reserved for
// it becomes free.
func (p *Pool) Activate(held []Slot, r Reservation, blocks []kvcache.BlockID) []Slot {
	p.unpin(r)
	held = append(held, r.slots...)
	var isNew []bool
	if p.recording {
		isNew = make([]bool, len(blocks))
	}
	for i := r.pinned; i < len(blocks); i++ {
		if blocks[i] == Partial {
			continue
		}
		if known := p.acquire(blocks[i]); known != noSlot {
			p.drop(PartialSlot)
			held[i] = known
			continue
		}
		held[i] = p.complete(blocks[i])
		if p.recording {
			isNew[i] = true
		}
	}
	if p.recording {
		p.publishNew(held, 0, blocks, isNew)
	}
	return held
}

// Cancel gives a reservation up.
func (p *Pool) Cancel(r Reservation) {
	p.unpin(r)
	p.putBack(r.slots)
}

func (p *Pool) unpin(r Reservation) {
	for _, slot := range r.slots[:r.pinned] {
		p.full.at(slot).pins--
	}
}
