package blocks

import (
	"fmt"

	"dynosim/gocore/kvcache"
)

// Change is a cache event in terms of the outside world: hashes and tokens instead of ids.
type Change struct {
	Kind  kvcache.EventKind
	Tier  kvcache.Tier
	Group int // of layers; 0 for routers
	To    Audience
	// Blocks of a Stored event follow each other in one sequence. Those of a Removed one are in eviction order and have
	// only a Hash.
	Blocks []Block
	// Parent is the hash of the block before the first stored one, when there is one.
	Parent    uint64
	HasParent bool
}

// Audience tells whom a change concerns. Only with several groups of layers do routers learn of something else than
// subscribers of the engine's own format.
type Audience uint8

const (
	Everyone Audience = iota
	Subscribers
	Routers
)

// Block is a full block as routers and subscribers know it.
type Block struct {
	Hash       uint64   // of the block and everything before it
	TokensHash uint64   // of its own tokens
	Tokens     []uint32 // if the table keeps them; not to be changed
	New        bool     // was not cached before
}

// Resolve translates the cache events of a pass and records what the engine has cached. Blocks that only one request
// can ever have are left out, and so are events without any other blocks. Later changes of the table do not change the
// result.
func (t *Table) Resolve(events []kvcache.Event) []Change {
	var changes []Change
	for _, e := range events {
		if t.groups.Beside > 0 && e.Tier == kvcache.Device {
			t.resolveInGroup(&e, &changes)
			continue
		}
		c := Change{Kind: e.Kind, Tier: e.Tier}
		if _, known := t.blocks[e.Parent]; !known && e.HasParent && e.Tier != kvcache.Device {
			continue // no prompt can reach what follows it there
		}
		switch e.Kind {
		case kvcache.Stored:
			c.Blocks = t.stored(e.Tier, e.Blocks)
		case kvcache.Removed:
			c.Blocks = t.removed(e.Tier, e.Blocks)
		default:
			t.need(&e)
		}
		if len(c.Blocks) == 0 {
			continue
		}
		if e.HasParent {
			c.Parent, c.HasParent = t.mustKnow(e.Parent).key.sequence, true
		}
		changes = append(changes, c)
	}
	return changes
}

// stored records that blocks are cached. Private blocks can only come last.
func (t *Table) stored(tier kvcache.Tier, blocks kvcache.Blocks) []Block {
	list := make([]Block, 0, blocks.Len())
	for id := range blocks.All() {
		if id >= kvcache.PrivateIDs {
			break
		}
		b := t.mustKnow(id)
		list = append(list, b.shown(!b.cached.has(tier)))
		b.cached.set(tier, true)
	}
	return list
}

// removed records that blocks are not cached any more. The result leaves out blocks that were not cached before.
func (t *Table) removed(tier kvcache.Tier, blocks kvcache.Blocks) []Block {
	list := make([]Block, 0, blocks.Len())
	for id := range blocks.All() {
		b, known := t.blocks[id]
		if !known || !b.cached.has(tier) {
			continue
		}
		list = append(list, Block{Hash: b.key.sequence})
		b.cached.set(tier, false)
		t.forgetUnneeded(b)
	}
	return list
}

// shown returns a block as the outside world knows it.
func (b *block) shown(isNew bool) Block {
	return Block{Hash: b.key.sequence, TokensHash: b.tokensHash, Tokens: b.tokens, New: isNew}
}

// need records that a tier below the device begins to need the names of blocks for a group of layers, or needs them no
// more.
func (t *Table) need(e *kvcache.Event) {
	bit := uint64(1) << e.Group
	for id := range e.Blocks.All() {
		if id >= kvcache.PrivateIDs {
			continue
		}
		b := t.mustKnow(id)
		if b.held &^= bit; e.Kind == kvcache.Held {
			b.held |= bit
		}
		t.forgetUnneeded(b)
	}
}

func (t *Table) mustKnow(id kvcache.BlockID) *block {
	b, known := t.blocks[id]
	if !known {
		panic(fmt.Sprintf("blocks: the engine names block %d, which no request holds", id))
	}
	return b
}
