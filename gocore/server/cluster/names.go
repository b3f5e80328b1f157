package cluster

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/zeebo/xxh3"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/naming"
)

// Key identifies a full block of tokens and everything before it, by 128 bits of hash.
type Key [16]byte

// Keys returns those of the full blocks of a sequence. Sequences with different salts have no block in common: each
// adapter of a model has a salt of its own, as what it computes can be used by no other.
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

// cachesOf returns the empty caches of a worker, or of each of its ranks if a router chooses these: one for each group
// of layers on the device, and one for each below it.
func cachesOf(args engineargs.Args) [][]naming.Cache {
	ranks := make([][]naming.Cache, args.Targets())
	for rank := range ranks {
		caches := make([]naming.Cache, 2*(1+args.LayerGroups().Beside))
		for group := range caches {
			caches[group] = naming.Cache{}
		}
		ranks[rank] = caches
	}
	return ranks
}

// apply follows the cache events of a worker, in each group of layers and below the device. Blocks that only one
// request can have are not named.
func (c *Cluster) apply(ranks [][]naming.Cache, events []kvcache.Event) {
	for _, e := range events {
		cached := ranks[e.Rank]
		to := cached[e.Group]
		if e.Tier != kvcache.Device {
			if to = cached[len(cached)/2+e.Group]; e.Kind != kvcache.Held && e.Kind != kvcache.LetGo {
				continue
			}
		}
		for id := range e.Blocks.All() {
			if id >= kvcache.PrivateIDs {
				continue
			}
			if e.Kind == kvcache.Stored || e.Kind == kvcache.Held {
				c.names.Stored(to, uint32(id))
			} else {
				c.names.Removed(to, uint32(id))
			}
		}
	}
}

// Empty empties the caches of all workers that have nothing to do, in device and host memory, and returns how many
// have.
func (c *Cluster) Empty() (busy int) {
	for k, p := range c.fleet.Pools() {
		for i := range p.Len() {
			w := c.worker(k, i)
			var removed []kvcache.Event
			for rank, cached := range w.cached {
				removed = append(removed, removals(int32(rank), cached)...)
			}
			if !p.Empty(i, removed) {
				busy++
			}
		}
	}
	c.reportLoads()
	return busy
}

// removals returns the events of a rank, or of a worker, whose caches are emptied.
func removals(rank int32, cached []naming.Cache) (removed []kvcache.Event) {
	for group, of := range cached {
		var blocks kvcache.Blocks
		for _, id := range slices.Sorted(maps.Keys(of)) {
			blocks = blocks.Append(kvcache.BlockID(id), 1)
		}
		if len(blocks) == 0 {
			continue
		}
		e := kvcache.Event{Kind: kvcache.Removed, Rank: rank, Group: group, Blocks: blocks}
		below := group - len(cached)/2
		if below >= 0 {
			e.Tier, e.Group = kvcache.Host, below
		}
		if below <= 0 { // of the host, routers know what full attention has
			removed = append(removed, e)
		}
		if below >= 0 {
			e.Kind = kvcache.LetGo
			removed = append(removed, e)
		}
	}
	return removed
}
