// Package naming gives blocks the numbers by which engines and routers know them while a process runs. A block has its
// number while a request holds it or a worker has cached it. Numbers count up and are not used again before 2^32
// others.
package naming

// Table names the blocks that keys of type K identify. It is not safe for concurrent use.
type Table[K comparable] struct {
	byKey  map[K]uint32
	blocks map[uint32]*block[K]
	next   uint32
}

type block[K comparable] struct {
	key     K
	holders int32 // requests
	caches  int32 // of workers
}

// New returns an empty table.
func New[K comparable]() *Table[K] {
	return &Table[K]{byKey: map[K]uint32{}, blocks: map[uint32]*block[K]{}}
}

// Len returns the number of blocks that have a number.
func (t *Table[K]) Len() int { return len(t.blocks) }

// Hold names the blocks of a request until Release.
func (t *Table[K]) Hold(keys []K) []uint32 {
	ids := make([]uint32, len(keys))
	for i, key := range keys {
		ids[i] = t.name(key)
		t.blocks[ids[i]].holders++
	}
	return ids
}

// name returns the number of a block, which gets one if it has none.
func (t *Table[K]) name(key K) uint32 {
	id, known := t.byKey[key]
	if !known {
		id = t.fresh()
		t.byKey[key] = id
		t.blocks[id] = &block[K]{key: key}
	}
	return id
}

// fresh returns the next number that no block has.
func (t *Table[K]) fresh() uint32 {
	for {
		id := t.next
		t.next++
		if _, used := t.blocks[id]; !used {
			return id
		}
	}
}

// Release ends what Hold began.
func (t *Table[K]) Release(ids []uint32) {
	for _, id := range ids {
		b := t.blocks[id]
		b.holders--
		t.forgetUnneeded(id, b)
	}
}

func (t *Table[K]) forgetUnneeded(id uint32, b *block[K]) {
	if b.holders == 0 && b.caches == 0 {
		delete(t.byKey, b.key)
		delete(t.blocks, id)
	}
}

// Cache is the blocks that one worker has cached.
type Cache map[uint32]struct{}

// Stored notes that a worker has cached a block that has a number; one that has none is left out.
func (t *Table[K]) Stored(c Cache, id uint32) {
	b, known := t.blocks[id]
	if _, has := c[id]; has || !known {
		return
	}
	c[id] = struct{}{}
	b.caches++
}

// StoredKey notes that a worker has cached a block, and returns its number.
func (t *Table[K]) StoredKey(c Cache, key K) uint32 {
	id := t.name(key)
	t.Stored(c, id)
	return id
}

// Removed notes that a worker has a block no more.
func (t *Table[K]) Removed(c Cache, id uint32) {
	if _, has := c[id]; !has {
		return
	}
	delete(c, id)
	b := t.blocks[id]
	b.caches--
	t.forgetUnneeded(id, b)
}
