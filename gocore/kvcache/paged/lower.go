package paged

import "dynosim/gocore/kvcache"

// Lower is a tier below the pool, such as the memory of the host. Blocks that the pool evicts go there, and Lookup
// finds them there. How they come back, and how long that takes, is for the engine to say: it acquires room with Use,
// which makes them blocks of the pool again.
type Lower interface {
	// Tier names the tier in events and in Found.
	Tier() kvcache.Tier
	// Store takes a block that the pool evicts. It reports a block that makes room for it, which is lost then.
	Store(id kvcache.BlockID) (lost kvcache.BlockID, any bool)
	// Has tells whether a block is there. It changes nothing.
	Has(id kvcache.BlockID) bool
}

// Below puts a tier below an empty pool.
func (p *Pool) Below(lower Lower) { p.lower = lower }

// lookupBelow does what Lookup does, for a block that the pool does not have.
func (p *Pool) lookupBelow(id kvcache.BlockID) Found {
	if p.lower == nil || !p.lower.Has(id) {
		return Found{}
	}
	return Found{Cached: true, Tier: p.lower.Tier()}
}

// sink hands a block that is evicted to the tier below.
func (p *Pool) sink(id kvcache.BlockID) {
	if p.lower == nil {
		return
	}
	if lost, any := p.lower.Store(id); any && p.recording {
		p.lost = append(p.lost, lost)
	}
}

// publishSunk announces what publishEvicted has announced once more, for the tier below: blocks are known by themselves
// there, without the blocks before them.
func (p *Pool) publishSunk() {
	if p.lower == nil {
		return
	}
	for _, id := range p.evicted {
		p.publish(kvcache.Event{Kind: kvcache.Stored, Tier: p.lower.Tier(), Blocks: p.keep([]kvcache.BlockID{id})})
	}
	if len(p.lost) > 0 {
		p.publish(kvcache.Event{Kind: kvcache.Removed, Tier: p.lower.Tier(), Blocks: p.keep(p.lost)})
		p.lost = p.lost[:0]
	}
}
