package routing

import (
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/naming"
)

// Event is what a rank has done to a tier of its cache: exactly one of the three. Cleared is about all tiers.
type Event struct {
	Tier    kvcache.Tier
	Stored  []Block // that follow each other
	Removed []uint64
	Cleared bool
	// Parent is the block before the first stored one; nil if that begins a sequence.
	Parent *uint64
}

// EventOf returns an event about a tier that has nothing in it yet, by the name of the tier in messages. It reports
// false if routing does not go by that tier: a store outside of workers is none that one of them has.
func EventOf(tier string) (e Event, counts bool) {
	e.Tier, counts = kvcache.ParseTier(tier)
	return e, counts && e.Tier != kvcache.External
}

// Block is a block by the hash that its worker has for it and everything before it, and by the hash of its tokens
// alone.
type Block struct{ Hash, TokensHash uint64 }

// blocks gives numbers to the blocks of prompts and of caches. A block is known by its chain of hashes of tokens.
type blocks struct{ names *naming.Table[uint64] }

func newBlocks() *blocks { return &blocks{naming.New[uint64]()} }

// hold names the full blocks of a prompt.
func (b *blocks) hold(prompt []uint32, blockSize int, salt string) []uint32 {
	return b.names.Hold(chainsOf(prompt, blockSize, salt))
}

// chainsOf returns the chain of hashes of each full block of a prompt.
func chainsOf(prompt []uint32, blockSize int, salt string) []uint64 {
	chains := make([]uint64, len(prompt)/blockSize)
	for i := range chains {
		chains[i] = kvcache.BlockHash(prompt[i*blockSize : (i+1)*blockSize])
		if i > 0 {
			chains[i] = kvcache.ChainHash(chains[i-1], chains[i])
		} else {
			chains[i] = kvcache.Salted(salt, chains[i])
		}
	}
	return chains
}

// hashed returns a number for each full block of a prompt that it has for ever: a part of its hash. A router that
// remembers what it has sent compares them behind equal beginnings only, so that two blocks with one number do no harm.
func hashed(prompt []uint32, blockSize int, salt string) []uint32 {
	chains := chainsOf(prompt, blockSize, salt)
	numbers := make([]uint32, len(chains))
	for i, chain := range chains {
		numbers[i] = uint32(chain >> 32)
	}
	return numbers
}

func (b *blocks) release(ids []uint32) { b.names.Release(ids) }

// cached is what one rank has cached.
type cached struct {
	named  naming.Cache
	chains map[uint64]chained // by the hashes of the worker
}

// chained is a block of a cache.
type chained struct {
	chain uint64
	id    uint32
	tiers uint8 // that have it, by their bits
}

func (b *blocks) newCache() *cached {
	return &cached{named: naming.Cache{}, chains: map[uint64]chained{}}
}

// drop forgets a cache.
func (b *blocks) drop(c *cached) {
	for _, block := range c.chains {
		b.names.Removed(c.named, block.id)
	}
	clear(c.chains)
}

// stored adds blocks to a cache and returns their numbers. Those after a block that is not known are left out: no
// prompt can reach them.
func (b *blocks) stored(c *cached, e *Event) (ids kvcache.Blocks) {
	var chain uint64
	if e.Parent != nil {
		parent, known := c.chains[*e.Parent]
		if !known {
			return nil
		}
		chain = parent.chain
	}
	for i, block := range e.Stored {
		if i == 0 && e.Parent == nil {
			chain = block.TokensHash
		} else {
			chain = kvcache.ChainHash(chain, block.TokensHash)
		}
		was, known := c.chains[block.Hash]
		if was.tiers>>e.Tier&1 == 1 {
			continue
		}
		if !known {
			was = chained{chain: chain, id: b.names.StoredKey(c.named, chain)}
		}
		was.tiers |= 1 << e.Tier
		c.chains[block.Hash] = was
		ids = ids.Append(kvcache.BlockID(was.id), 1)
	}
	return ids
}

// removed takes blocks out of a tier of a cache and returns their numbers, which are valid until the next call.
func (b *blocks) removed(c *cached, e *Event) (ids kvcache.Blocks) {
	for _, hash := range e.Removed {
		block := c.chains[hash]
		if block.tiers>>e.Tier&1 == 0 {
			continue
		}
		if block.tiers &^= 1 << e.Tier; block.tiers == 0 {
			delete(c.chains, hash)
			b.names.Removed(c.named, block.id)
		} else {
			c.chains[hash] = block
		}
		ids = ids.Append(kvcache.BlockID(block.id), 1)
	}
	return ids
}

// Apply notes what a rank of a worker has done to its cache. Events of others, and in other modes, change nothing.
func (p *Pool) Apply(worker uint64, rank int, e Event) {
	s := p.slot(worker, rank)
	if s < 0 {
		return
	}
	c := p.slots[s].cache
	switch {
	case e.Cleared:
		p.router.Forget(s)
		p.blocks.drop(c)
	case len(e.Stored) > 0:
		p.router.Apply(s, []kvcache.Event{{Kind: kvcache.Stored, Tier: e.Tier, Blocks: p.blocks.stored(c, &e)}})
	case len(e.Removed) > 0:
		p.router.Apply(s, []kvcache.Event{{Kind: kvcache.Removed, Tier: e.Tier, Blocks: p.blocks.removed(c, &e)}})
	}
}

// slot returns the place of a rank of a worker, -1 if there is none.
func (p *Pool) slot(worker uint64, rank int) int {
	i := p.place(worker)
	if i < 0 || p.blocks == nil {
		return -1
	}
	w := p.workers[i]
	if rank < w.firstRank || rank >= w.firstRank+len(w.slots) {
		return -1
	}
	return w.slots[rank-w.firstRank]
}
