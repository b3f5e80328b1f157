package paged

import "dynosim/gocore/kvcache"

// Slot is the place of one block in the pool. Requests keep the slots they hold; the number itself means nothing.
type Slot int32

// PartialSlot is where all partial blocks are: nothing is to be known of them but how many there are.
const PartialSlot Slot = -1

// Partial stands for a block that is not full yet, in the list given to Use. No other request can share it.
const Partial = ^kvcache.BlockID(0)

// noSlot marks a block that Use still has to find room for.
const noSlot Slot = 0

// Pool is the paged KV cache of one engine. It is not safe for concurrent use.
type Pool struct {
	capacity int
	active   int
	partial  int // of the active blocks
	inactive int
	aside    int // of the partial blocks, those for UsePartial

	full                table
	queues              evictionQueues
	restoreDeepestFirst bool

	recording bool
	events    []Event
	evicted   []kvcache.BlockID
	announced []kvcache.Run // room for the blocks of all events
	isNew     []bool        // scratch
}

// Event is a kvcache.Event together with the occupancy of the pool when it was published.
type Event struct {
	kvcache.Event
	Free, Active, Inactive int
}

// New returns a pool of capacity free slots. prefixCaching tells whether blocks can be shared at all; the caller gives
// every block a private id when it is off.
func New(capacity int, policy Policy, prefixCaching bool) *Pool {
	p := &Pool{
		capacity: capacity,
		full:     newTable(capacity),
		// A group that is put back goes root first. Lineage evicts leaves first, so the group leaves deepest first; an
		// LRU has no such rule, and without prefix caching every block is a root of its own.
		restoreDeepestFirst: policy == Lineage && prefixCaching,
		queues:              newEvictionQueues(policy, capacity),
	}
	p.full.clearQueues()
	return p
}

// Record makes the pool keep its events until TakeEvents fetches them.
func (p *Pool) Record() { p.recording = true }

// TakeEvents returns the events since the last call, in order. They are valid until the pool changes again.
func (p *Pool) TakeEvents() []Event {
	events := p.events
	p.events, p.announced = p.events[:0], p.announced[:0]
	return events
}

// Capacity returns the number of slots.
func (p *Pool) Capacity() int { return p.capacity }

// Active returns the number of slots held by requests or reserved; a shared block counts once.
func (p *Pool) Active() int { return p.active }

// Available returns the number of slots that are free or evictable.
func (p *Pool) Available() int { return p.capacity - p.active }

// Free returns the number of slots without content.
func (p *Pool) Free() int { return p.capacity - p.active - p.inactive }

// Found is what a pool knows of a full block.
type Found struct {
	Cached bool
	InUse  bool // a request has it; a reservation does not count
}

// Lookup reports whether a full block is cached. It changes nothing, not even ages.
func (p *Pool) Lookup(id kvcache.BlockID) Found {
	slot := p.full.find(id)
	if slot == noSlot {
		return Found{}
	}
	b := p.full.at(slot)
	return Found{Cached: true, InUse: b.refs > b.pins}
}

// Use acquires blocks, the continuation of what the caller already holds, and returns held with their slots appended.
// It is all or nothing: when free and evictable slots do not suffice it reports false, and the cached blocks it touched
// have become the youngest.
func (p *Pool) Use(held []Slot, blocks []kvcache.BlockID) ([]Slot, bool) {
	first, missing := len(held), 0
	for _, id := range blocks {
		slot := noSlot
		if id != Partial {
			slot = p.acquire(id)
		}
		if slot == noSlot {
			missing++
		}
		held = append(held, slot)
	}
	if missing > p.Available() {
		p.putBack(held[first:])
		return held[:first], false
	}
	if p.recording {
		p.fillRecorded(held, first, blocks)
		return held, true
	}
	for i, id := range blocks {
		if held[first+i] == noSlot {
			held[first+i] = p.fill(id)
		}
	}
	return held, true
}

// UsePartial acquires one partial block, as a generated token needs it when it opens a block; one that was set aside,
// if there is any.
func (p *Pool) UsePartial(held []Slot) ([]Slot, bool) {
	if p.aside > 0 {
		p.aside--
		return append(held, PartialSlot), true
	}
	if p.Available() == 0 {
		return held, false
	}
	held = append(held, p.fill(Partial))
	if p.recording {
		p.publishEvicted()
	}
	return held, true
}

// Promote makes the last block of held, a partial one, the full block id. When that block is cached already, the
// partial's slot becomes free and the cached block is held instead.
func (p *Pool) Promote(held []Slot, id kvcache.BlockID) {
	last := len(held) - 1
	p.full.expectAfter(held[:last])
	if known := p.acquire(id); known != noSlot {
		p.drop(PartialSlot)
		held[last] = known
		return
	}
	held[last] = p.complete(id)
	if p.recording {
		p.publishStored(held, last, []kvcache.BlockID{id})
	}
}

// Release drops one reference of every block of held, deepest first. A full block without references stays cached, a
// partial one becomes free. held must be everything the caller holds: Lineage relies on the order.
func (p *Pool) Release(held []Slot) {
	for i := len(held) - 1; i >= 0; i-- {
		p.drop(held[i])
	}
}

// acquire adds a reference to a cached block; noSlot when it is not cached.
func (p *Pool) acquire(id kvcache.BlockID) Slot {
	slot := p.full.find(id)
	if slot == noSlot {
		return noSlot
	}
	b := p.full.at(slot)
	if b.refs == 0 {
		p.full.unlink(b)
		p.queues.touch(id)
		p.inactive--
		p.active++
	}
	b.refs++
	return slot
}

// putBack undoes what a failed Use acquired.
func (p *Pool) putBack(slots []Slot) {
	for i := range slots {
		if p.restoreDeepestFirst {
			i = len(slots) - 1 - i
		}
		if slots[i] != noSlot {
			p.drop(slots[i])
		}
	}
}

func (p *Pool) drop(slot Slot) {
	if slot == PartialSlot {
		if p.partial == 0 {
			panic(notHeld)
		}
		p.partial--
		p.active--
		return
	}
	b := p.full.at(slot)
	if b.refs <= 0 {
		panic(notHeld)
	}
	b.refs--
	if b.refs > 0 {
		return
	}
	p.active--
	p.inactive++
	p.full.pushBack(p.queues.queueOf(p.full.id(slot)), slot)
}

const notHeld = "paged: a block was released that no request holds"

// fill makes room, evicting when no slot is free, and gives it to one request as block id. The caller has checked that
// there is room.
func (p *Pool) fill(id kvcache.BlockID) Slot {
	if p.active+p.inactive == p.capacity {
		p.evict()
	}
	p.active++
	if id == Partial {
		p.partial++
		return PartialSlot
	}
	p.queues.touch(id)
	return p.full.insert(id)
}

// complete makes a partial block the full block id, which is not in the pool.
func (p *Pool) complete(id kvcache.BlockID) Slot {
	p.partial--
	p.queues.touch(id)
	return p.full.insert(id)
}

// evict removes the oldest inactive block. There must be one.
func (p *Pool) evict() {
	victim := p.oldest()
	if p.recording {
		p.evicted = append(p.evicted, p.full.id(victim))
	}
	p.full.unlink(p.full.at(victim))
	p.inactive--
	p.full.remove(victim)
}
