package radix

import "dynosim/gocore/kvcache"

// Pool is the KV cache of one engine: token slots, and the tree of pages that can be reused. It is not safe for
// concurrent use. Slots are counted; which of them a token gets makes no difference.
type Pool struct {
	tree
	total  int // slots
	free   int
	quirks bool
	// leaked slots belong to no request; over-returned ones are counted as free although the tree has them. Both only
	// with quirks.
	leaked, overReturned int
	recorder             *recorder
}

// Holding is what one request has in the pool: a slot for each of its first tokens. The first of them may be shared
// from the tree, the others are its own until the tree adopts them.
//
//	0            hit                  cached             tokens
//	|   shared    |   also in the tree   |   its own slots   |
//
// The slots of the middle part are the tree's by now, except those of pages that the tree had already when the request
// brought them: these duplicates are still its own.
type Holding struct {
	Key        kvcache.Key
	node       ref // where the part that is in the tree ends; locked
	tokens     int
	hit        int
	cached     int // 0 or at least hit; whole pages
	duplicates int

	// While recording.
	announced      int // leading pages whose slots are on record, of those that others may have
	duplicatePages []stretch
}

// New returns a pool of total free slots, whole pages. quirks keeps the reference's errors in the accounting of
// retracted requests.
func New(total, pageSize int, quirks bool) *Pool {
	return &Pool{tree: newTree(pageSize), total: total, free: total, quirks: quirks}
}

// Total returns the number of slots.
func (p *Pool) Total() int { return p.total }

// Free returns the number of unused slots.
func (p *Pool) Free() int { return p.free }

// Evictable returns the number of tokens that only the tree has.
func (p *Pool) Evictable() int { return p.evictable }

// Protected returns the number of tokens of the tree that requests hold.
func (p *Pool) Protected() int { return p.protected }

// Leaked returns the number of slots that are lost.
func (p *Pool) Leaked() int { return p.leaked }

// OverReturned returns the number of slots that were returned although the tree keeps them.
func (p *Pool) OverReturned() int { return p.overReturned }

// Available returns the number of slots that are free or can be made so.
func (p *Pool) Available() int { return p.free + p.evictable }

// Attainable returns the largest number of slots that can ever be available.
func (p *Pool) Attainable() int { return p.total + max(0, p.overReturned-p.leaked) }

// Version returns a number that changes when CachedTokens of a request that holds nothing may.
func (p *Pool) Version() int { return p.version }

// Tokens returns the number of tokens that have a slot.
func (h *Holding) Tokens() int { return h.tokens }

// Cached returns the number of tokens that are in the tree, whole pages, since h was cached last; 0 if it never was.
func (h *Holding) Cached() int { return h.cached }

// Own returns the number of slots that only h has, its duplicates included.
func (h *Holding) Own() int { return h.tokens - max(h.cached, h.hit) + h.duplicates }

// CachedTokens returns how much of the first tokens tokens of key is in the tree. It changes nothing.
func (p *Pool) CachedTokens(key *kvcache.Key, tokens int) int {
	return p.matchLength(key, tokens/p.pageSize) * p.pageSize
}

// Prefill gives h the slots of its tokens up to tokens. A request that has none yet takes over what the tree has, but
// room is made before that, for all of them: an admission can evict the very prefix it would have found. The slots must
// be available. It returns the number of tokens that needed no computation.
func (p *Pool) Prefill(h *Holding, tokens int, now Time) (reused int) {
	p.makeRoom(tokens - h.tokens)
	reused = h.tokens
	if h.tokens == 0 {
		p.takeOver(h, tokens, now)
		reused = h.hit
	}
	p.free -= tokens - reused
	h.tokens = tokens
	if p.free < 0 {
		panic("radix: a request took slots that are not there")
	}
	if p.recorder != nil {
		p.announce(h, reused)
	}
	return reused
}

// takeOver lets h share what the tree has of its first tokens tokens.
func (p *Pool) takeOver(h *Holding, tokens int, now Time) {
	h.node = p.match(&h.Key, tokens/p.pageSize, now)
	p.lock(h.node)
	h.hit = int(p.nodes[h.node].end()) * p.pageSize
	h.announced = h.hit / p.pageSize
}

// Reserve gives h, which has nothing yet, whole pages of slots for its first tokens tokens, which are computed
// elsewhere. What the tree has of them is shared. It returns the number of slots taken, or false if there are not that
// many; the look-up has made the prefix younger all the same.
func (p *Pool) Reserve(h *Holding, tokens int, now Time) (taken int, ok bool) {
	p.takeOver(h, tokens, now)
	rounded := (tokens + p.pageSize - 1) / p.pageSize * p.pageSize
	taken = rounded - h.hit
	if taken > p.Available() {
		p.unlock(h.node)
		h.clear()
		return 0, false
	}
	p.makeRoom(taken)
	p.free -= taken
	h.tokens = rounded
	return taken, true
}

// Activate tells that the first tokens tokens of h have arrived in the slots that Reserve has taken for them. It
// returns the number of slots that are not needed after all, and caches.
func (p *Pool) Activate(h *Holding, tokens int, now Time) (surplus int) {
	surplus = h.tokens - tokens
	p.free += surplus
	h.tokens = tokens
	p.Cache(h, now)
	return surplus
}

// Cache puts the whole pages of h into the tree, as far as they have not been put there before. What the tree has
// already stays as it is, and h keeps its duplicates.
func (p *Pool) Cache(h *Holding, now Time) {
	if aligned := p.floor(h.tokens); aligned > h.cached {
		end := p.adopt(h, aligned, now)
		p.moveLock(h.node, end)
		h.node = end
		h.cached = aligned
	}
}

// adopt inserts the first tokens tokens of h.
func (p *Pool) adopt(h *Holding, tokens int, now Time) ref {
	if p.recorder != nil {
		p.announce(h, h.cached)
	}
	known := max(h.cached, h.hit)
	end, added := p.insert(h.node, &h.Key, tokens/p.pageSize, now)
	duplicates := tokens - known - added*p.pageSize
	h.duplicates += duplicates
	if p.recorder != nil && duplicates > 0 {
		h.duplicatePages = append(h.duplicatePages,
			stretch{h.Key, known / p.pageSize, (known + duplicates) / p.pageSize})
	}
	return end
}

// Take takes slots for the tokens of one decode step. It reports false if there are not that many; then nothing has
// changed.
func (p *Pool) Take(slots int) bool {
	if p.Available() < slots {
		return false
	}
	p.makeRoom(slots)
	p.free -= slots
	return true
}

// GiveBack returns slots that were taken for tokens that did not come.
func (p *Pool) GiveBack(slots int) { p.free += slots }

// DecodeOne gives h a slot that was taken for it, for its next token, and caches.
func (p *Pool) DecodeOne(h *Holding, now Time) {
	h.tokens++
	p.Cache(h, now)
}

// Decode does what DecodeOne does, for count tokens, one after the other, of pages that no other request has. DecodeOne
// must have come before, so that the pages they fill are new to the tree. now is when the last of these pages was full.
func (p *Pool) Decode(h *Holding, count int, now Time) {
	h.tokens += count
	aligned := p.floor(h.tokens)
	if aligned == h.cached {
		return
	}
	if p.recorder != nil {
		p.announce(h, h.cached)
	}
	end := p.extend(h.node, &h.Key, (aligned-h.cached)/p.pageSize)
	p.nodes[end].used = now
	p.moveLock(h.node, end)
	h.node = end
	h.cached = aligned
}

// LastDecode gives h a slot that was taken for it, for its last token. Nothing is cached: that is left to Finish.
func (p *Pool) LastDecode(h *Holding) { h.tokens++ }

// Finish dissolves h: whole pages go to the tree and can be evicted, its other slots become free.
func (p *Pool) Finish(h *Holding, now Time) {
	aligned := p.floor(h.tokens)
	p.free += h.tokens - aligned
	end := root
	if aligned > 0 {
		end = p.adopt(h, aligned, now)
	}
	p.ReturnDuplicates(h)
	p.unlock(h.node)
	p.offer(end)
	h.clear()
}

// Release dissolves h without another insertion: pages in the tree stay and can be evicted.
func (p *Pool) Release(h *Holding) {
	p.free += h.tokens - max(h.cached, h.hit)
	if p.recorder != nil {
		p.recorder.withdraw(stretch{h.Key, max(h.cached, h.hit) / p.pageSize, h.announced})
	}
	p.ReturnDuplicates(h)
	p.unlock(h.node)
	h.clear()
}

// Retract does what Release does, as decode pressure makes it happen. With quirks it returns all slots from cached on
// and nothing else: duplicates, which lie below, are lost; and if h has never cached, the slots it shares are returned
// too, although the tree keeps them.
func (p *Pool) Retract(h *Holding) {
	if p.quirks {
		p.leaked += h.duplicates
		h.duplicates = 0
		if h.cached < h.hit {
			p.free += h.hit
			p.overReturned += h.hit
		}
		if p.recorder != nil {
			p.recorder.noteQuirks(h, p.pageSize)
		}
	}
	p.Release(h)
}

// ReturnDuplicates frees the slots of h of which the tree has a copy; from then on h uses that. It returns their
// number.
func (p *Pool) ReturnDuplicates(h *Holding) int {
	returned := h.duplicates
	p.free += returned
	h.duplicates = 0
	if p.recorder != nil {
		p.recorder.withdraw(h.duplicatePages...)
		h.duplicatePages = nil
	}
	return returned
}

// ReturnLeaked frees the slots that were lost and returns their number.
func (p *Pool) ReturnLeaked() int {
	returned := p.leaked
	p.free += returned
	p.leaked = 0
	if p.recorder != nil {
		p.recorder.withdraw(p.recorder.leaked...)
		p.recorder.leaked = nil
	}
	return returned
}

// makeRoom evicts until slots slots are free, if it can.
func (p *Pool) makeRoom(slots int) {
	if p.free >= slots {
		return
	}
	if p.recorder == nil {
		p.free += p.evict(slots-p.free, nil)
		return
	}
	rec := p.recorder
	rec.evicted = rec.evicted[:0]
	p.free += p.evict(slots-p.free, &rec.evicted)
	rec.withdrawEvicted(rec.evicted)
}

// clear leaves a holding without anything, of the same sequence.
func (h *Holding) clear() { *h = Holding{Key: h.Key} }

func (p *Pool) floor(tokens int) int { return tokens - tokens%p.pageSize }
