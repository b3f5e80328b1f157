package cluster

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/zeebo/xxh3"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/naming"
)

// Key identifies a full block of tokens and everything before it, by 128 bits of hash.
type Key [16]byte

// Keys are those of the full blocks of a sequence. Sequences with different salts have no block in common: each adapter
// of a model has a salt of its own, as what it computes can be used by no other.
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

// apply follows the cache events of a worker. Blocks that only one request can have are not named.
func (c *Cluster) apply(cached naming.Cache, events []kvcache.Event) {
	for _, e := range events {
		for _, id := range e.Blocks {
			if id >= kvcache.PrivateIDs {
				continue
			}
			if e.Kind == kvcache.Stored {
				c.names.Stored(cached, uint32(id))
			} else {
				c.names.Removed(cached, uint32(id))
			}
		}
	}
}

// Empty empties the caches of all workers that have nothing to do, in device and host memory, and returns how many have.
func (c *Cluster) Empty() (busy int) {
	for k, p := range c.fleet.Pools() {
		for i := range p.Len() {
			w := c.worker(k, i)
			blocks := make([]kvcache.BlockID, 0, len(w.cached))
			for _, id := range slices.Sorted(maps.Keys(w.cached)) {
				blocks = append(blocks, kvcache.BlockID(id))
			}
			if !p.Empty(i, blocks) {
				busy++
			}
		}
	}
	c.reportLoads()
	return busy
}
