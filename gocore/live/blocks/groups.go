package blocks

import (
	"slices"

	"dynosim/gocore/kvcache"
)

// Groups are the groups of layers that an engine has beside the one of full attention, which are alike. The zero value
// has none.
type Groups struct {
	Beside int // how many there are, at most 63
	Run    int // blocks that a prefix needs at its end in each of them
}

// path is what a table with several groups knows of a block: where it lies, which groups have it, and what routers
// know.
//
// The events of Dynamo have no groups: a router takes a prefix for cached if it has the blocks of it one after another.
// So events name a block while the group of full attention has it and everything before it, and some prefix that begins
// with all of these ends where all groups have what the next token needs:
//
//	full      a b c d e f     routers know a to e
//	window    - - - d e -     run 2: a prompt can go on behind e; one that shares a, b and c only finds less than the
//	                          router counts
type path struct {
	parent    *block // nil at the beginning
	kids      []*block
	at        int    // the place among the kids of the parent
	groups    uint64 // a bit for each that has the block
	ends      bool   // a prefix may end here, if everything before is there, too
	published bool   // to routers
	below     int    // kids that routers know
}

// Group makes the table, which must be unused, follow several groups.
func (t *Table) Group(g Groups) { t.groups = g }

// link notes the block before another one.
func (b *block) link(parent *block) {
	if b.parent = parent; parent != nil {
		b.at = len(parent.kids)
		parent.kids = append(parent.kids, b)
	}
}

// unlink undoes link.
func (b *block) unlink() {
	if parent := b.parent; parent != nil {
		last := parent.kids[len(parent.kids)-1]
		parent.kids[b.at], last.at = last, b.at
		parent.kids = parent.kids[:len(parent.kids)-1]
	}
}

func (b *block) full() bool { return b.groups&1 != 0 }

// resolveInGroup does what Resolve does with an event of the device, with several groups: subscribers of the engine's
// own format learn of all of them, routers of what they can count.
func (t *Table) resolveInGroup(e *kvcache.Event, changes *[]Change) {
	c := Change{Kind: e.Kind, Tier: e.Tier, Group: e.Group, To: Subscribers}
	touched := t.inGroup(e, &c)
	if len(c.Blocks) == 0 {
		return
	}
	if e.HasParent {
		c.Parent, c.HasParent = t.mustKnow(e.Parent).key.sequence, true
	}
	*changes = append(*changes, c)
	for _, b := range touched {
		if e.Group == 0 {
			t.fullChanged(b, changes)
		} else {
			t.besideChanged(b, t.groups.Run, changes)
		}
	}
	for _, b := range touched {
		if t.blocks[b.id] == b { // not forgotten with one below it
			t.forgetUnneeded(b)
		}
	}
}

// inGroup records what an event says of a group, and lists the blocks for which that is new.
func (t *Table) inGroup(e *kvcache.Event, c *Change) (touched []*block) {
	bit := uint64(1) << e.Group
	for id := range e.Blocks.All() {
		b, known := t.blocks[id]
		switch stored := e.Kind == kvcache.Stored; {
		case id >= kvcache.PrivateIDs, !known && !stored:
			continue
		case !known:
			t.mustKnow(id)
		case stored != (b.groups&bit == 0):
			continue
		}
		b.groups ^= bit
		b.cached.set(kvcache.Device, b.groups != 0)
		one := Block{Hash: b.key.sequence}
		if e.Kind == kvcache.Stored {
			one = b.shown(true)
		}
		c.Blocks = append(c.Blocks, one)
		touched = append(touched, b)
	}
	return touched
}

// fullChanged follows a block that the group of full attention has, or has no more.
func (t *Table) fullChanged(b *block, changes *[]Change) {
	b.ends = t.endsAt(b)
	if !b.full() {
		t.untell(b, changes)
		return
	}
	t.tellBelow(b, changes)
}

// tellBelow tells routers of the prefixes that end at a block of full attention or below it.
func (t *Table) tellBelow(b *block, changes *[]Change) {
	if b.ends && !t.tell(b, changes) {
		return // something before it is missing
	}
	for _, kid := range b.kids {
		if kid.full() && !kid.published {
			t.tellBelow(kid, changes)
		}
	}
}

// besideChanged follows a block that a group beside has, or has no more: prefixes may end, or not, at it and up to
// run-1 blocks below.
func (t *Table) besideChanged(b *block, run int, changes *[]Change) {
	if ends := t.endsAt(b); ends != b.ends {
		b.ends = ends
		if ends {
			t.tell(b, changes)
		} else {
			t.prune(b, changes)
		}
	}
	if run > 1 {
		for _, kid := range b.kids {
			t.besideChanged(kid, run-1, changes)
		}
	}
}

// endsAt reports whether a prefix may end at a block, if the group of full attention has everything before it.
func (t *Table) endsAt(b *block) bool {
	if !b.full() {
		return false
	}
	all := uint64(1)<<t.groups.Beside - 1
	for run := 0; b != nil && run < t.groups.Run; run++ {
		if b.groups>>1 != all {
			return false
		}
		b = b.parent
	}
	return true
}

// tell tells routers of a block and those before it that they do not know. It reports false if one of these is missing.
func (t *Table) tell(b *block, changes *[]Change) bool {
	var chain []*block
	for ; b != nil && !b.published; b = b.parent {
		if !b.full() {
			return false
		}
		chain = append(chain, b)
	}
	if len(chain) == 0 {
		return true
	}
	c := Change{Kind: kvcache.Stored, To: Routers}
	if b != nil {
		c.Parent, c.HasParent = b.key.sequence, true
	}
	for _, b := range slices.Backward(chain) {
		b.published = true
		if b.parent != nil {
			b.parent.below++
		}
		c.Blocks = append(c.Blocks, b.shown(true))
	}
	*changes = append(*changes, c)
	return true
}

// untell makes routers forget a block and all below it, and those above it at and below which no prefix ends any more.
func (t *Table) untell(b *block, changes *[]Change) {
	if !b.published {
		return
	}
	c := Change{Kind: kvcache.Removed, To: Routers}
	c.forget(b)
	*changes = append(*changes, c)
	if b.parent != nil {
		t.prune(b.parent, changes)
	}
}

// forget lists a block and all below it that routers know, the lowest first.
func (c *Change) forget(b *block) {
	for _, kid := range b.kids {
		if kid.published {
			c.forget(kid)
		}
	}
	b.published, b.below = false, 0
	if b.parent != nil {
		b.parent.below--
	}
	c.Blocks = append(c.Blocks, Block{Hash: b.key.sequence})
}

// prune makes routers forget a block, and those above it, at and below which no prefix ends any more.
func (t *Table) prune(b *block, changes *[]Change) {
	c := Change{Kind: kvcache.Removed, To: Routers}
	for ; b != nil && b.published && !b.ends && b.below == 0; b = b.parent {
		c.forget(b)
	}
	if len(c.Blocks) > 0 {
		*changes = append(*changes, c)
	}
}
