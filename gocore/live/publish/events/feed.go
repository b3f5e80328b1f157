package events

import (
	"dynosim/gocore/kvcache"
	"dynosim/gocore/live/blocks"
)

// Feed turns what one rank of a worker does to its cache into router events, and remembers enough of them to help a
// router that has missed some. It is not safe for concurrent use.
//
//	changes -> remove filter -> numbered -> index and recent events (for Answer) -> to be published
type Feed struct {
	workerID uint64
	dpRank   uint32
	lastID   uint64
	tiers    [kvcache.Tiers]tier
	recent   recent
}

// tier holds what is published about a tier of the cache.
type tier struct {
	filter removeFilter
	index  index
}

// NewFeed returns the feed of a rank whose cache is empty.
func NewFeed(workerID uint64, dpRank uint32) *Feed {
	f := &Feed{workerID: workerID, dpRank: dpRank}
	for i := range f.tiers {
		f.tiers[i] = tier{removeFilter{}, newIndex()}
	}
	return f
}

// Apply records changes and returns the events to publish, in order. Their ids go up by one, from 1.
func (f *Feed) Apply(changes []blocks.Change) []RouterEvent {
	events := make([]RouterEvent, 0, len(changes))
	for i := range changes {
		if changes[i].To == blocks.Subscribers {
			continue
		}
		data, ok := f.data(&changes[i])
		if !ok {
			continue
		}
		f.lastID++
		f.tiers[changes[i].Tier].index.apply(data)
		e := f.event(f.lastID, changes[i].Tier, data)
		f.recent.add(e)
		events = append(events, e)
	}
	return events
}

// data returns the router event of a change, if there is one.
func (f *Feed) data(c *blocks.Change) (d Data, ok bool) {
	filter := f.tiers[c.Tier].filter
	if c.Kind == kvcache.Removed {
		hashes := filter.removed(c.Blocks)
		return Data{Removed: &Removed{BlockHashes: hashes}}, len(hashes) > 0
	}
	filter.stored(c.Blocks)
	s := &Stored{Blocks: make([]StoredBlock, len(c.Blocks))}
	if c.HasParent {
		parent := c.Parent
		s.ParentHash = &parent
	}
	for i, b := range c.Blocks {
		s.Blocks[i] = StoredBlock{BlockHash: b.Hash, TokensHash: b.TokensHash}
	}
	return Data{Stored: s}, true
}

func (f *Feed) event(id uint64, tier kvcache.Tier, d Data) RouterEvent {
	return RouterEvent{
		WorkerID:    f.workerID,
		StorageTier: tier.String(),
		Domain:      WorkerDomain,
		Event:       CacheEvent{ID: id, Data: d, DPRank: f.dpRank},
	}
}

// removeFilter counts the cached blocks with a hash. Routers know blocks by hash alone: no removal is
// published while a block with that hash is left.
type removeFilter map[uint64]int

func (f removeFilter) stored(list []blocks.Block) {
	for _, b := range list {
		if b.New {
			f[b.Hash]++
		}
	}
}

// removed removes blocks, and returns the hashes of which no block is left or none was known.
func (f removeFilter) removed(list []blocks.Block) []uint64 {
	hashes := make([]uint64, 0, len(list))
	for _, b := range list {
		if f[b.Hash] > 1 {
			f[b.Hash]--
			continue
		}
		delete(f, b.Hash)
		hashes = append(hashes, b.Hash)
	}
	return hashes
}
