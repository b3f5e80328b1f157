package cluster

import (
	"encoding/binary"
	"slices"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/live/blocks"
)

// publishedBlocks knows the blocks of requests and caches well enough to report them outside: by hash and by tokens.
type publishedBlocks struct {
	blockSize int
	known     map[uint32]*publishedBlock // while a request holds them
}

// publishedBlock is a block that a request holds.
type publishedBlock struct {
	hash    uint64
	tokens  []uint32
	holders int
}

// publishedCache is what a worker has cached, by the hashes under which that was published.
type publishedCache map[uint32]uint64

// hash returns how a block is called outside.
func (k Key) hash() uint64 { return binary.LittleEndian.Uint64(k[:8]) }

// hold notes the blocks of a request, if changes of caches are published. A nil one notes nothing.
func (t *publishedBlocks) hold(ids []uint32, r *Request) {
	if t == nil {
		return
	}
	for i, id := range ids {
		b := t.known[id]
		if b == nil {
			b = &publishedBlock{hash: r.Keys[i].hash(), tokens: slices.Clone(r.Tokens[i*t.blockSize : (i+1)*t.blockSize])}
			t.known[id] = b
		}
		b.holders++
	}
	r.Tokens = nil
}

// release ends what hold began.
func (t *publishedBlocks) release(ids []uint32) {
	if t == nil {
		return
	}
	for _, id := range ids {
		b := t.known[id]
		if b.holders--; b.holders == 0 {
			delete(t.known, id)
		}
	}
}

// changes translates cache events of a worker in device memory. Blocks that only one request can have are left out, and
// groups of layers beside the first.
func (t *publishedBlocks) changes(cached publishedCache, events []kvcache.Event) (list []blocks.Change) {
	for _, e := range events {
		if e.Group != 0 || e.Tier != kvcache.Device {
			continue
		}
		change := blocks.Change{Kind: e.Kind}
		if e.Kind == kvcache.Stored {
			t.stored(&change, cached, e)
		} else {
			removed(&change, cached, e.Blocks)
		}
		if len(change.Blocks) > 0 {
			list = append(list, change)
		}
	}
	return list
}

func (t *publishedBlocks) stored(change *blocks.Change, cached publishedCache, e kvcache.Event) {
	if e.HasParent {
		change.Parent, change.HasParent = cached[uint32(e.Parent)]
	}
	for id := range e.Blocks.All() {
		b := t.known[uint32(id)]
		if id >= kvcache.PrivateIDs || b == nil {
			return // what follows cannot be named either
		}
		cached[uint32(id)] = b.hash
		change.Blocks = append(change.Blocks, blocks.Block{Hash: b.hash, Tokens: b.tokens})
	}
}

func removed(change *blocks.Change, cached publishedCache, gone kvcache.Blocks) {
	for id := range gone.All() {
		if hash, has := cached[uint32(id)]; has && id < kvcache.PrivateIDs {
			delete(cached, uint32(id))
			change.Blocks = append(change.Blocks, blocks.Block{Hash: hash})
		}
	}
}
