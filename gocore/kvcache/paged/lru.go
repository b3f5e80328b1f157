package paged

import (
	"math/bits"

	"dynosim/gocore/kvcache"
)

// LRUPool is the block pool by the rules of vLLM's own block manager:
//
//   - A block is registered under its content when its tokens have been computed. It can be found from then on.
//   - Equal blocks are not merged: a block whose content is registered already is registered once more. A lookup finds
//     the copy that was registered first.
//   - A block that no request holds goes back to the free queue. Blocks without content are taken from it first, then
//     the registered block that has been there longest. Its registration lasts until it is taken.
//
// What a request holds is a list of slots, one for each registered block, and a number of further blocks without a
// registration, which the pool only counts.
//
//	held by requests                 in the free queue
//	registered | unregistered        registered, oldest first | without content
//
// Groups of layers share the pool: a content is registered for one group (InGroup), so that equal tokens in two groups
// are two blocks, and two events.
//
// An LRUPool is not safe for concurrent use.
type LRUPool struct {
	capacity  int
	inUse     int // blocks that requests hold
	evictable int // registered blocks that no request holds
	loose     int // unregistered blocks that requests hold
	named     names

	registered table
	copies     copies

	watched   bool
	lost      []Slot // evicted since TakeEvicted, if watched
	recording bool
	events    []Event
	evicted   []kvcache.BlockID // as they were registered, InGroup
}

// copies are the blocks whose content was registered already when they were. Each lives in the table under an alias,
// which no content has.
type copies struct {
	of        map[kvcache.BlockID][]Slot // in order of registration
	content   map[Slot]kvcache.BlockID
	lastAlias kvcache.BlockID
	orphans   int // contents of which only copies are left
	// counts has the number of contents in of by their hash, a power of two of them: most contents that are looked up have
	// no copies, and a count of 0 says so for less than the map.
	counts []uint32
}

// add adds a copy of a content, in a pool of capacity blocks.
func (c *copies) add(id kvcache.BlockID, slot Slot, capacity int) {
	of := c.of[id]
	c.of[id] = append(of, slot)
	if len(of) > 0 {
		return
	}
	if c.counts == nil {
		c.counts = make([]uint32, 1<<max(6, bits.Len(uint(capacity))-2))
	}
	c.counts[c.hash(id)]++
}

// remove removes a content, whose last copy is gone.
func (c *copies) remove(id kvcache.BlockID) {
	delete(c.of, id)
	c.counts[c.hash(id)]--
}

// lacks reports whether a content certainly has no copies.
func (c *copies) lacks(id kvcache.BlockID) bool { return c.counts == nil || c.counts[c.hash(id)] == 0 }

func (c *copies) hash(id kvcache.BlockID) uint64 {
	return uint64(id) * 0x9e3779b97f4a7c15 >> (64 - bits.Len(uint(len(c.counts)-1)))
}

// copied marks, as pins, a block under its own id of which there may be copies.
const copied = 1

// firstAlias counts down from the id below Partial; the ids of contents grow from below.
const firstAlias = Partial - 1

// groupBits begin above all ids of prompts, and below the bit that marks private ones.
const groupBits, groupMask = 56, 63

// InGroup returns the id of a content in a group of layers; group 0 has the ids as they are.
func InGroup(id kvcache.BlockID, group int) kvcache.BlockID {
	return id | kvcache.BlockID(group)<<groupBits
}

// GroupOf returns the group of a content.
func GroupOf(id kvcache.BlockID) int { return int(id>>groupBits) & groupMask }

// inAnyGroup returns the id of a content whatever its group.
func inAnyGroup(id kvcache.BlockID) kvcache.BlockID {
	return id &^ (groupMask << groupBits)
}

// NewLRU returns a pool of capacity blocks without content.
func NewLRU(capacity int) *LRUPool {
	p := &LRUPool{
		capacity:   capacity,
		registered: newTable(capacity),
		copies: copies{of: map[kvcache.BlockID][]Slot{}, content: map[Slot]kvcache.BlockID{},
			lastAlias: firstAlias},
	}
	p.registered.clearQueues()
	return p
}

// Record makes the pool keep its events until TakeEvents fetches them.
func (p *LRUPool) Record() { p.recording = true }

// Watch makes the pool keep the slots that it evicts until TakeEvicted fetches them.
func (p *LRUPool) Watch() { p.watched = true }

// TakeEvicted returns the slots of the blocks that have been evicted since the last call. The slice is valid until the
// pool changes.
func (p *LRUPool) TakeEvicted() []Slot {
	lost := p.lost
	p.lost = p.lost[:0]
	return lost
}

// TakeEvents returns the events since the last call, in order. The slice is valid until the pool changes again. A
// content is announced with the first of its copies, and its removal with the last one.
func (p *LRUPool) TakeEvents() []Event {
	events := p.events
	p.events = p.events[:0]
	return events
}

// Capacity returns the number of blocks.
func (p *LRUPool) Capacity() int { return p.capacity }

// InUse returns the number of blocks that requests hold; a shared block counts once.
func (p *LRUPool) InUse() int { return p.inUse }

// Free returns the number of blocks that no request holds, registered or not.
func (p *LRUPool) Free() int { return p.capacity - p.inUse }

// Find returns the copy of a content that was registered first, and whether a request holds it. It changes nothing.
func (p *LRUPool) Find(id kvcache.BlockID) (slot Slot, inUse, ok bool) {
	slot = p.registered.find(id)
	if slot == noSlot {
		if p.copies.orphans == 0 || p.copies.lacks(id) {
			return noSlot, false, false
		}
		of := p.copies.of[id]
		if len(of) == 0 {
			return noSlot, false, false
		}
		slot = of[0]
	}
	return slot, p.registered.at(slot).refs > 0, true
}

// Hold adds a reference to a registered block.
func (p *LRUPool) Hold(slot Slot) {
	b := p.registered.at(slot)
	if b.refs == 0 {
		p.registered.unlink(b)
		p.evictable--
		p.inUse++
	}
	b.refs++
}

// Take gives count unregistered blocks to a request. It reports false, and changes nothing, if fewer are free.
func (p *LRUPool) Take(count int) bool {
	if count > p.Free() {
		return false
	}
	loose := p.Free() - p.evictable
	p.lost = p.named.take(p.lost, min(count, loose))
	for range count - loose {
		p.evict()
	}
	p.inUse += count
	p.loose += count
	p.publishEvicted()
	return true
}

// Register registers unregistered blocks of a request, the continuation of the registered ones in held, under ids. It
// returns held with their slots appended.
func (p *LRUPool) Register(held []Slot, ids []kvcache.BlockID) []Slot {
	if p.loose -= len(ids); p.loose < 0 {
		panic("paged: a block was registered that no request holds")
	}
	first := len(held)
	p.registered.expectAfter(held)
	var isNew []bool
	for _, id := range ids {
		slot, known := p.register(id)
		held = append(held, slot)
		if p.recording {
			isNew = append(isNew, !known)
		}
	}
	if p.recording {
		p.publishNew(held, first, isNew)
	}
	return held
}

// register gives an unregistered block a content, and tells whether there is a copy of it already.
func (p *LRUPool) register(id kvcache.BlockID) (slot Slot, known bool) {
	first, _, known := p.Find(id)
	if !known {
		return p.registered.insert(id), false
	}
	p.registered.at(first).pins = copied
	slot = p.registered.insert(p.copies.lastAlias)
	p.copies.lastAlias--
	p.copies.add(id, slot, p.capacity)
	p.copies.content[slot] = id
	return slot, true
}

// Release takes the blocks of a request back, last to first: its unregistered blocks lose their content, and the
// registered ones that no other request holds enter the free queue.
func (p *LRUPool) Release(held []Slot, unregistered int) {
	p.Discard(unregistered)
	for i := len(held) - 1; i >= 0; i-- {
		p.Drop(held[i])
	}
}

// Discard takes unregistered blocks back.
func (p *LRUPool) Discard(unregistered int) {
	p.loose -= unregistered
	p.inUse -= unregistered
	p.named.free(PartialSlot, unregistered)
}

// DiscardNamed takes back an unregistered block that has a name or, PartialSlot, none.
func (p *LRUPool) DiscardNamed(slot Slot) {
	p.loose--
	p.inUse--
	p.named.free(slot, 1)
}

// Name returns a name for an unregistered block that a request holds. TakeEvicted tells when a request takes the block
// after this one has given it back.
func (p *LRUPool) Name() Slot { return p.named.next() }

// Drop takes a registered block back from a request.
func (p *LRUPool) Drop(slot Slot) {
	b := p.registered.at(slot)
	if b.refs--; b.refs == 0 {
		p.registered.pushBack(0, slot)
		p.evictable++
		p.inUse--
	}
}

// RegisterInGroup registers an unregistered block of a request, which another group than 0 has. Blocks that follow each
// other are announced together.
func (p *LRUPool) RegisterInGroup(key *kvcache.Key, block, group int) Slot {
	if p.loose--; p.loose < 0 {
		panic("paged: a block was registered that no request holds")
	}
	id := key.Block(block)
	slot, known := p.register(InGroup(id, group))
	if !p.recording || known {
		return slot
	}
	e := kvcache.Event{Kind: kvcache.Stored, Group: group}
	if block > 0 {
		e.Parent, e.HasParent = key.Block(block-1), true
	}
	if n := len(p.events) - 1; n >= 0 && e.HasParent && p.events[n].endsAt(e.Parent, group) {
		p.events[n].Blocks = p.events[n].Blocks.Append(id, 1)
		return slot
	}
	e.Blocks = kvcache.BlocksOf(id)
	p.publish(e)
	return slot
}

// endsAt reports whether an event tells of blocks of a group that have been stored, the last of which is id.
func (e *Event) endsAt(id kvcache.BlockID, group int) bool {
	return e.Kind == kvcache.Stored && e.Group == group && e.Blocks.Last() == id
}

// evict takes the content of the registered block that has been in the free queue longest. There must be one.
func (p *LRUPool) evict() {
	victim, ok := p.registered.front(0)
	if !ok {
		panic("paged: no block to evict")
	}
	if p.watched {
		p.lost = append(p.lost, victim)
	}
	id, last := p.forget(victim)
	if p.recording && last {
		p.evicted = append(p.evicted, id)
	}
	p.evictable--
	p.registered.unlink(p.registered.at(victim))
	p.registered.remove(victim)
}

// forget removes a block from the copies of its content, and tells whether it was the last of them.
func (p *LRUPool) forget(victim Slot) (id kvcache.BlockID, last bool) {
	id = p.registered.id(victim)
	if id <= p.copies.lastAlias {
		if p.registered.at(victim).pins != copied || p.copies.lacks(id) || len(p.copies.of[id]) == 0 {
			return id, true
		}
		p.copies.orphans++
		return id, false
	}
	id = p.copies.content[victim]
	delete(p.copies.content, victim)
	others := p.copies.of[id]
	for i, slot := range others {
		if slot == victim {
			others = append(others[:i], others[i+1:]...)
			break
		}
	}
	if len(others) > 0 {
		p.copies.of[id] = others
		return id, false
	}
	p.copies.remove(id)
	last = p.registered.find(id) == noSlot
	if last {
		p.copies.orphans--
	}
	return id, last
}

// content returns what a registered block holds.
func (p *LRUPool) content(slot Slot) kvcache.BlockID {
	if id := p.registered.id(slot); id <= p.copies.lastAlias {
		return id
	}
	return p.copies.content[slot]
}

// publishNew announces each unbroken run of new contents among the blocks from held[first] on.
func (p *LRUPool) publishNew(held []Slot, first int, isNew []bool) {
	for i := 0; i < len(isNew); i++ {
		if !isNew[i] {
			continue
		}
		e := kvcache.Event{Kind: kvcache.Stored}
		if at := first + i; at > 0 {
			e.Parent, e.HasParent = p.content(held[at-1]), true
		}
		for ; i < len(isNew) && isNew[i]; i++ {
			e.Blocks = e.Blocks.Append(p.content(held[first+i]), 1)
		}
		p.publish(e)
	}
}

func (p *LRUPool) publishEvicted() {
	for rest := p.evicted; len(rest) > 0; {
		group, same := GroupOf(rest[0]), 0
		for ; same < len(rest) && GroupOf(rest[same]) == group; same++ {
			rest[same] = inAnyGroup(rest[same])
		}
		p.publish(kvcache.Event{Kind: kvcache.Removed, Group: group, Blocks: kvcache.BlocksOf(rest[:same]...)})
		rest = rest[same:]
	}
	p.evicted = p.evicted[:0]
}

func (p *LRUPool) publish(e kvcache.Event) {
	p.events = append(p.events, Event{Event: e, Free: p.Free() - p.evictable, Active: p.inUse, Inactive: p.evictable})
}
