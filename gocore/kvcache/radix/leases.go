package radix

import "dynosim/gocore/kvcache"

// LeasePool is the KV cache as SGLang itself keeps it: slots in whole pages, and a tree of pages that can be reused. It
// is not safe for concurrent use.
//
// It differs from Pool, which is Dynamo's: a prefix is looked up and locked before room is made for the rest, equal
// pages are merged when they enter the tree, nothing enters it while a request decodes, and requests own slots page by
// page.
type LeasePool struct {
	tree
	total, free int  // slots
	uses        Time // of the tree so far
	recording   bool
	host        *host   // nil without a host tier
	window      *window // nil without layers that have a window
	deep        int32   // pages that the last look-up found, with or without window parts
	events      []kvcache.Event
	evicted     []stretch // scratch
}

// Lease is what one request has in a LeasePool: pages that the tree has, which it shares, and then pages of its own.
type Lease struct {
	Key    kvcache.Key
	node   ref // where the shared pages end; locked
	cached int // tokens of the shared pages
	slots  int // of shared and own pages

	// With a host tier.
	below    ref   // where the pages end that the host has, behind the shared ones; root if there are none
	inserted int32 // pages put into the tree so far

	// With a second pool for the layers with a window.
	unseen int   // tokens from the first one on whose own window slots were given back
	from   int32 // the first page whose window part is locked
	over   bool  // the request ends
	deep   int32 // pages whose full part was in the tree when the request came
}

// NewLeases returns a pool of total free slots, whole pages.
func NewLeases(total, pageSize int) *LeasePool {
	return &LeasePool{tree: newTree(pageSize), total: total, free: total}
}

// Total returns the number of slots.
func (p *LeasePool) Total() int { return p.total }

// Free returns the number of slots that neither a request nor the tree has.
func (p *LeasePool) Free() int { return p.free }

// Available returns the number of slots that are free or can be made so.
func (p *LeasePool) Available() int { return p.free + p.evictable }

// Record makes the pool keep its events until TakeEvents fetches them. It must be called while the pool is unused.
func (p *LeasePool) Record() { p.recording = true }

// TakeEvents returns the events since the last call, in order. The slice is valid until the pool changes again.
func (p *LeasePool) TakeEvents() []kvcache.Event {
	events := p.events
	p.events = events[:0]
	return events
}

func (p *LeasePool) now() Time {
	p.uses++
	return p.uses
}

// Refresh finds how many of the first tokens tokens of key are in the tree, in whole pages, and how many of these on
// the device, and makes them the youngest. A node in which they end is cut there.
func (p *LeasePool) Refresh(key *kvcache.Key, tokens int) (cached, device int) {
	end := p.refresh(key, tokens)
	cached = int(p.nodes[end].end()) * p.pageSize
	if p.host == nil {
		return cached, cached
	}
	end, _ = p.divide(end)
	return cached, int(p.nodes[end].end()) * p.pageSize
}

func (p *LeasePool) refresh(key *kvcache.Key, tokens int) ref {
	return p.use(root, key, int32(tokens/p.pageSize))
}

// use follows key from the node from, at most to page limit, and makes everything it comes through the youngest: also
// the rest of a node in which it ends, and which is cut there.
func (p *LeasePool) use(from ref, key *kvcache.Key, limit int32) ref {
	if p.window != nil {
		return p.useWindow(key, limit)
	}
	end, child, common := p.walk(from, key, limit)
	now := p.now()
	if common > 0 {
		end = p.split(child, common)
		p.nodes[child].used = now
	}
	p.nodes[end].used = now
	if p.host != nil {
		p.touch(end, now)
		p.listHalved()
	}
	return end
}

// Open makes l, which has nothing yet, share what Refresh finds, and returns the number of tokens.
func (p *LeasePool) Open(l *Lease, tokens int) (cached int) {
	l.node = p.refresh(&l.Key, tokens)
	if p.host != nil {
		l.node, l.below = p.divide(l.node)
	}
	p.lock(l.node)
	if p.window != nil {
		l.from, l.deep = p.lockWindow(l.node), p.deep
	}
	l.cached = int(p.nodes[l.node].end()) * p.pageSize
	l.slots, l.unseen = l.cached, l.cached
	return l.cached
}

// Cached returns the number of tokens that l shares.
func (p *LeasePool) Cached(l *Lease) int { return l.cached }

// Grow gives l pages for its first tokens tokens.
func (p *LeasePool) Grow(l *Lease, tokens int) {
	had := l.slots
	p.Fit(l, tokens)
	p.Take(l.slots - had)
}

// Take takes free slots for requests that Fit gives them to. It panics if there are too few.
func (p *LeasePool) Take(slots int) {
	p.free -= slots
	if p.window != nil {
		p.window.free -= slots
	}
	if p.free < 0 || p.window != nil && p.window.free < 0 {
		panic("radix: requests took slots that are not free")
	}
}

// Fit makes the slots that l has those of its first tokens tokens; Take has taken them.
func (p *LeasePool) Fit(l *Lease, tokens int) {
	l.slots = (tokens + p.pageSize - 1) / p.pageSize * p.pageSize
}

// MakeRoom evicts until slots slots are free or nothing is left to evict, and reports whether they are.
func (p *LeasePool) MakeRoom(slots int) bool {
	if p.window != nil {
		return p.makeRoomWindow(slots)
	}
	if p.free >= slots {
		return true
	}
	if !p.recording && p.host == nil {
		p.free += p.evict(slots-p.free, nil)
		return p.free >= slots
	}
	p.evicted = p.evicted[:0]
	if p.host != nil {
		p.free += p.demote(slots-p.free, &p.evicted)
	} else {
		p.free += p.evict(slots-p.free, &p.evicted)
	}
	p.announceEvicted()
	return p.free >= slots
}

// announceEvicted records what has just been evicted.
func (p *LeasePool) announceEvicted() {
	if !p.recording {
		return
	}
	var gone kvcache.Blocks
	for i := range p.evicted {
		for first, n := range p.evicted[i].runs() {
			gone = gone.Append(first, n)
		}
	}
	if len(gone) > 0 {
		p.events = append(p.events, kvcache.Event{Kind: kvcache.Removed, Blocks: gone})
	}
}

// Share puts the whole pages of the first tokens tokens of l into the tree. Where the tree has equal ones, l uses those
// from now on and its own become free. A node ends with the prompt, so that the pages behind it can be evicted by
// themselves.
func (p *LeasePool) Share(l *Lease, tokens, promptTokens int) {
	pages, known := int32(tokens/p.pageSize), int32(l.cached/p.pageSize)
	if pages < known {
		panic("radix: a request shares less than it did")
	}
	if p.host != nil {
		p.shareTiered(l, pages, known, int32(promptTokens/p.pageSize))
		return
	}
	if p.window != nil {
		p.shareWindow(l, tokens, pages, known)
		return
	}
	end := p.use(l.node, &l.Key, pages)
	at := p.nodes[end].end()
	p.free += int(at-known) * p.pageSize
	if at < pages {
		end = p.addChild(end, node{key: l.Key, first: at, pages: pages - at})
		p.nodes[end].used = p.now() // younger than the rest of a node that was cut for it
		p.announce(&l.Key, int(at), int(pages))
	}
	cut := int(p.nodes[l.node].end())
	p.moveLock(l.node, end)
	l.node, l.cached = end, int(pages)*p.pageSize
	if prompt := promptTokens / p.pageSize; prompt < int(pages) && prompt != cut {
		if _, child, common := p.walk(root, &l.Key, int32(prompt)); common > 0 {
			p.split(child, common)
		}
	}
}

// announce records that pages from..to-1 of key entered the tree.
func (p *LeasePool) announce(key *kvcache.Key, from, to int) { p.announceIn(0, key, from, to) }

// announceIn does what announce does, in a group of layers.
func (p *LeasePool) announceIn(group int, key *kvcache.Key, from, to int) {
	to = min(to, key.Shareable) // only this request can have the pages behind
	if !p.recording || from >= to {
		return
	}
	e := kvcache.Event{Kind: kvcache.Stored, Group: group, Blocks: key.Prompt.Blocks(from, to)}
	if from > 0 {
		e.Parent, e.HasParent = key.Block(from-1), true
	}
	p.events = append(p.events, e)
}

// End tells that the next Share of l is its last.
func (l *Lease) End() { l.over = true }

// Close gives back the pages that only l has; those in the tree stay until they are evicted.
func (p *LeasePool) Close(l *Lease) {
	p.free += l.slots - l.cached
	if p.window != nil {
		p.closeWindow(l)
	}
	p.unlock(l.node)
	*l = Lease{Key: l.Key}
}
