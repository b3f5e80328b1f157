package paged

import "dynosim/gocore/kvcache"

// Slot is the place of one block in the pool. Requests keep the slots they hold; the number itself means nothing.
type Slot int32

// Partial stands for a block that is not full yet, in the list given to Use. Nobody else can share it.
const Partial = ^kvcache.BlockID(0)

// noSlot marks a block that Use still has to find room for. Slot 0 is the anchor of an eviction queue.
const noSlot Slot = 0

// Pool is the paged KV cache of one engine. It is not safe for concurrent use.
type Pool struct {
	capacity int
	active   int
	inactive int

	blocks    []block // [0, numQueues) are the anchors of the eviction queues
	freeSlots Slot    // slots given back, linked through next
	byID      table

	aside []Slot // for UsePartial

	queues              evictionQueues
	restoreDeepestFirst bool

	recording bool
	events    []Event
	evicted   []kvcache.BlockID
}

type block struct {
	id         kvcache.BlockID
	refs       int32
	pins       int32 // of the references, those of reservations
	prev, next Slot
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
		blocks:   make([]block, numQueues),
		// A group that is put back goes root first. Lineage evicts leaves first, so the group leaves deepest first; an LRU
		// has no such rule, and without prefix caching every block is a root of its own.
		restoreDeepestFirst: policy == Lineage && prefixCaching,
		queues:              newEvictionQueues(policy, capacity),
	}
	for q := range numQueues {
		p.blocks[q] = block{prev: Slot(q), next: Slot(q)}
	}
	return p
}

// Record makes the pool keep its events until TakeEvents fetches them.
func (p *Pool) Record() { p.recording = true }

// TakeEvents returns the events since the last call, in order. The slice is valid until the pool changes again.
func (p *Pool) TakeEvents() []Event {
	events := p.events
	p.events = p.events[:0]
	return events
}

// Capacity is the number of slots.
func (p *Pool) Capacity() int { return p.capacity }

// Active is the number of slots held by requests or reserved; a shared block counts once.
func (p *Pool) Active() int { return p.active }

// Available is the number of slots that are free or evictable.
func (p *Pool) Available() int { return p.capacity - p.active }

// Free is the number of slots without content.
func (p *Pool) Free() int { return p.capacity - p.active - p.inactive }

// Lookup tells whether a full block is cached, and whether a request holds it; a reservation is none. It changes nothing,
// not even ages.
func (p *Pool) Lookup(id kvcache.BlockID) (cached, held bool) {
	slot := p.byID.find(p.blocks, id)
	return slot != noSlot, slot != noSlot && p.blocks[slot].refs > p.blocks[slot].pins
}

// Use acquires blocks, the continuation of what the caller already holds, and returns held with their slots appended. It
// is all or nothing: when free and evictable slots do not suffice it reports false, and the cached blocks it touched
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

// UsePartial acquires one partial block, as a generated token needs it when it opens a block; one that was set aside, if
// there is any.
func (p *Pool) UsePartial(held []Slot) ([]Slot, bool) {
	if last := len(p.aside) - 1; last >= 0 {
		held = append(held, p.aside[last])
		p.aside = p.aside[:last]
		return held, true
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
	if known := p.acquire(id); known != noSlot {
		p.discard(held[last])
		p.active--
		held[last] = known
		return
	}
	p.register(held[last], id)
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
	slot := p.byID.find(p.blocks, id)
	if slot == noSlot {
		return noSlot
	}
	b := &p.blocks[slot]
	if b.refs == 0 {
		p.unlink(slot)
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
	b := &p.blocks[slot]
	if b.refs <= 0 {
		panic("paged: a block was released that nobody holds")
	}
	b.refs--
	if b.refs > 0 {
		return
	}
	p.active--
	if b.id == Partial {
		p.discard(slot)
		return
	}
	p.inactive++
	p.pushBack(p.queues.queueOf(b.id), slot)
}

// fill takes a slot, evicting when none is free, and gives it to one request as block id.
func (p *Pool) fill(id kvcache.BlockID) Slot {
	slot := p.take()
	p.active++
	p.blocks[slot] = block{id: Partial, refs: 1}
	if id != Partial {
		p.register(slot, id)
	}
	return slot
}

func (p *Pool) register(slot Slot, id kvcache.BlockID) {
	p.blocks[slot].id = id
	p.byID.insert(p.blocks, slot)
	p.queues.touch(id)
}

// take finds a slot: one given back earlier, a new one, or the oldest inactive block's. The caller has checked that
// there is one.
func (p *Pool) take() Slot {
	if slot := p.freeSlots; slot != noSlot {
		p.freeSlots = p.blocks[slot].next
		return slot
	}
	if len(p.blocks)-numQueues < p.capacity {
		p.blocks = append(p.blocks, block{})
		return Slot(len(p.blocks) - 1)
	}
	victim := p.oldest()
	if p.recording {
		p.evicted = append(p.evicted, p.blocks[victim].id)
	}
	p.unlink(victim)
	p.inactive--
	p.byID.remove(p.blocks, victim)
	return victim
}

// discard makes the slot of a partial block free.
func (p *Pool) discard(slot Slot) {
	p.blocks[slot] = block{next: p.freeSlots}
	p.freeSlots = slot
}
