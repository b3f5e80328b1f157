package cluster

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"dynosim/gocore/kvcache"
)

// Key identifies a full block of tokens and everything before it, by 128 bits of hash.
type Key [16]byte

// Keys are those of the full blocks of a sequence. Sequences with different salts have no block in common: each adapter of a
// model has a salt of its own, as what it computes can be used by no other.
func Keys(tokens []uint32, blockSize int, salt string) []Key {
	keys := make([]Key, len(tokens)/blockSize)
	previous := xxh3.HashString128(salt).Bytes()
	buffer := make([]byte, len(previous)+4*blockSize)
	for i := range keys {
		copy(buffer, previous[:])
		for j, token := range tokens[i*blockSize : (i+1)*blockSize] {
			binary.LittleEndian.PutUint32(buffer[len(previous)+4*j:], token)
		}
		previous = xxh3.Hash128(buffer).Bytes()
		keys[i] = previous
	}
	return keys
}

// names gives blocks the numbers by which engines and routers know them. A block has its number while a request holds it or a
// worker has cached it. Numbers count up and are not used again before 2^32 others.
type names struct {
	byKey  map[Key]uint32
	blocks map[uint32]*namedBlock
	next   uint32
}

type namedBlock struct {
	key     Key
	holders int32 // requests
	caches  int32 // of workers
}

func newNames() names {
	return names{byKey: map[Key]uint32{}, blocks: map[uint32]*namedBlock{}}
}

// hold names the blocks of a request until release.
func (n *names) hold(keys []Key) []uint32 {
	ids := make([]uint32, len(keys))
	for i, key := range keys {
		id, known := n.byKey[key]
		if !known {
			id = n.fresh()
			n.byKey[key] = id
			n.blocks[id] = &namedBlock{key: key}
		}
		n.blocks[id].holders++
		ids[i] = id
	}
	return ids
}

// fresh is the next number that no block has.
func (n *names) fresh() uint32 {
	for {
		id := n.next
		n.next++
		if _, used := n.blocks[id]; !used {
			return id
		}
	}
}

func (n *names) release(ids []uint32) {
	for _, id := range ids {
		b := n.blocks[id]
		b.holders--
		n.forgetUnneeded(id, b)
	}
}

func (n *names) forgetUnneeded(id uint32, b *namedBlock) {
	if b.holders == 0 && b.caches == 0 {
		delete(n.byKey, b.key)
		delete(n.blocks, id)
	}
}

// cache is the blocks that one worker has cached.
type cache map[uint32]struct{}

// apply follows the cache events of a worker. Blocks that only one request can have are not named.
func (n *names) apply(c cache, events []kvcache.Event) {
	for _, e := range events {
		for _, id := range e.Blocks {
			if id >= kvcache.PrivateIDs {
				continue
			}
			if e.Kind == kvcache.Stored {
				n.stored(c, uint32(id))
			} else {
				n.removed(c, uint32(id))
			}
		}
	}
}

func (n *names) stored(c cache, id uint32) {
	b, known := n.blocks[id]
	if _, has := c[id]; has || !known {
		return
	}
	c[id] = struct{}{}
	b.caches++
}

func (n *names) removed(c cache, id uint32) {
	if _, has := c[id]; !has {
		return
	}
	delete(c, id)
	b := n.blocks[id]
	b.caches--
	n.forgetUnneeded(id, b)
}
