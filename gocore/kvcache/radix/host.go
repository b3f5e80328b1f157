package radix

import (
	"slices"

	"dynosim/gocore/kvcache"
)

// WritePolicy says when pages are copied to the host.
type WritePolicy uint8

// The policies of SGLang.
const (
	WriteThrough          WritePolicy = iota // as soon as they are in the tree
	WriteThroughSelective                    // when a second request has them
	WriteBack                                // when they are evicted
)

// HostTier describes memory of the host below a LeasePool: how many pages it has, and how long copies take.
type HostTier struct {
	Pages    int
	Policy   WritePolicy
	LoadFrom int // the fewest tokens that are loaded back
	// A copy of n pages takes LatencyMs + n*StoreMs to the host, LatencyMs + n*LoadMs back.
	StoreMs, LoadMs, LatencyMs float64
}

// HostUse is what a host tier has done, in pages and milliseconds.
type HostUse struct {
	Stored, Loaded    int // pages copied to the host, and back
	Evicted, Resident int // pages that have left the host, and that are there
	// pages that have come from storage behind the host, and room taken for some that are on their way
	Fetched, Fetching int
	StoreMs, LoadMs   float64 // how long copies took
	HeldMs            float64 // how long the scheduler stood still for them
}

// host is the state of a host tier.
//
//	        device            host
//	            insert, load
//	   +---------------------------+
//	   v                           |
//	[device] --store--> [both] --demote--> [host only] --evict--> gone
//
// On a path from the root, nodes that are on the device come first.
type host struct {
	HostTier
	free  int      // pages
	leaf  leafHeap // candidates for eviction
	clock float64  // ms; ahead of the caller's if the scheduler stands still
	// Copies run one at a time in each direction, in order of submission; these are the ends of the last ones.
	storeEnd, loadEnd float64
	stores, loads     []moving
	storing, loading  []moving // not submitted yet; their ends are not set
	// both are nodes that were on the device and on the host, in the order in which they became so. Entries of nodes
	// that are not listed any more are skipped. Only with WriteBack.
	both []listing
	next int32
	use  HostUse

	told func(back bool, startMs, endMs float64, pages int) // of each copy; nil for none
	// pages that are on the host from then on; nil without storage
	passed func(atMs float64, key *kvcache.Key, from, to int)
	// Whether events are to tell routers of pages that come and go here, and of which ones the names are needed.
	toRouters, names bool
}

// moving is a copy of a node, or of all that was loaded above it: it is locked until the end of the copy was noticed.
type moving struct {
	node  ref
	pages int
	endMs float64
	part  stretch // of a copy to the host: its pages, whatever becomes of the node
}

type listing struct {
	node ref
	at   int32
}

// hosted is what the host tier knows of a node.
type hosted struct {
	cold     bool  // is not on the device
	backed   bool  // has a copy on the host
	arriving bool  // is being loaded
	waits    bool  // is in host.leaf
	listed   int32 // its entry in host.both, 0 if there is none
	hits     int32 // requests that inserted it
	coldKids int32 // children that are not on the device
}

// AddHost puts a host tier below the pool, which must be unused.
func (p *LeasePool) AddHost(t HostTier) {
	p.host = &host{HostTier: t, free: t.Pages}
	p.tiered = true
	p.tree.hostLeaves = &p.host.leaf
}

// TellCopies has each copy told when it is submitted: whether it is one to the device, when it begins and ends, and of
// how many pages.
func (p *LeasePool) TellCopies(told func(back bool, startMs, endMs float64, pages int)) {
	p.host.told = told
}

// TellTiers makes events tell of the pages of the host: to routers, and to those that name pages.
func (p *LeasePool) TellTiers(routers, names bool) {
	if p.host != nil {
		p.host.toRouters, p.host.names = routers, names
	}
}

// tellHosted records that the host has the pages of a node from now on, or no more.
func (p *LeasePool) tellHosted(at ref, has bool) {
	h, n := p.host, &p.nodes[at]
	to := min(int(n.end()), n.key.Shareable)
	if !p.recording || !h.toRouters && !h.names || int(n.first) >= to {
		return
	}
	e := kvcache.Event{Kind: kvcache.Removed, Tier: kvcache.Host, Blocks: n.key.Prompt.Blocks(int(n.first), to)}
	name := kvcache.Event{Kind: kvcache.LetGo, Tier: kvcache.Host, Blocks: e.Blocks}
	if has {
		name.Kind = kvcache.Held
		if e.Kind = kvcache.Stored; n.first > 0 {
			e.Parent, e.HasParent = n.key.Block(int(n.first)-1), true
		}
	}
	if h.names && has {
		p.events = append(p.events, name)
	}
	if h.toRouters {
		p.events = append(p.events, e)
	}
	if h.names && !has {
		p.events = append(p.events, name)
	}
}

// tell tells of a copy.
func (h *host) tell(back bool, startMs, endMs float64, pages int) {
	if h.told != nil {
		h.told(back, startMs, endMs, pages)
	}
}

// Tiered reports whether there is a host tier.
func (p *LeasePool) Tiered() bool { return p.host != nil }

// Tell moves the clock of the copies on.
func (p *LeasePool) Tell(nowMs float64) { p.host.clock = max(p.host.clock, nowMs) }

// Clock returns the time until which copies have held the scheduler, or that of the last Tell.
func (p *LeasePool) Clock() float64 { return p.host.clock }

// HostUse returns what the host tier has done so far.
func (p *LeasePool) HostUse() HostUse {
	use := p.host.use
	use.Resident = p.host.Pages - p.host.free
	return use
}

// Copying reports whether a copy runs or waits for its submission.
func (p *LeasePool) Copying() bool {
	h := p.host
	return len(h.stores)+len(h.loads)+len(h.storing)+len(h.loading) > 0
}

// NextEnd returns when the next copy ends, if one runs.
func (p *LeasePool) NextEnd() (ms float64, ok bool) {
	h := p.host
	for _, list := range [][]moving{h.stores, h.loads} {
		for _, m := range list {
			if m.endMs > h.clock && (!ok || m.endMs < ms) {
				ms, ok = m.endMs, true
			}
		}
	}
	return ms, ok
}

// touch makes a path the youngest.
func (t *tree) touch(at ref, now Time) {
	for ; at != root; at = t.nodes[at].parent {
		t.nodes[at].used = now
	}
}

// divide returns where the part of a path ends that is on the device, and the path itself if more of it is on the host.
func (t *tree) divide(end ref) (device, below ref) {
	for device = end; t.nodes[device].cold; device = t.nodes[device].parent {
		below = end
	}
	return device, below
}

// splitHosted gives the new upper part of a node what the lower one has in the host tier.
func (t *tree) splitHosted(upper, lower ref) {
	u, l := &t.nodes[upper], &t.nodes[lower]
	u.used = l.used
	u.hosted = hosted{cold: l.cold, backed: l.backed, arriving: l.arriving, hits: l.hits}
	if l.cold {
		u.children, u.coldKids = 0, 1
	}
	t.halved = append(t.halved, upper)
}

// Waiting returns the number of tokens that the host has of a lease behind its shared pages.
func (p *LeasePool) Waiting(l *Lease) int {
	if l.below == root {
		return 0
	}
	return int(p.nodes[l.below].end())*p.pageSize - l.cached
}

// Load makes l share what the host has behind its shared pages, if that is worth it and there is room for all of it. It
// then counts as being on the device; SubmitLoads says when it will be. Room that was made stays.
func (p *LeasePool) Load(l *Lease) bool {
	tokens := p.Waiting(l)
	if tokens < max(1, p.host.LoadFrom) {
		return false
	}
	end := l.below
	p.lock(end)
	if !p.MakeRoom(tokens) {
		p.unlock(end)
		return false
	}
	p.free -= tokens
	from := l.cached / p.pageSize
	for at := end; p.nodes[at].cold; at = p.nodes[at].parent {
		p.warm(at)
		p.nodes[at].arriving = true
	}
	p.announce(&l.Key, from, from+tokens/p.pageSize)
	p.host.loading = append(p.host.loading, moving{node: end, pages: tokens / p.pageSize}) // which keeps the lock
	p.moveLock(l.node, end)
	l.node, l.below = end, root
	l.cached += tokens
	l.slots = l.cached
	return true
}

// warm puts a node on the device.
func (p *LeasePool) warm(at ref) {
	n := &p.nodes[at]
	n.cold = false
	above := &p.nodes[n.parent]
	above.coldKids--
	above.children++
	if n.locks > 0 {
		p.protected += int(n.pages) * p.pageSize
	} else {
		p.evictable += int(n.pages) * p.pageSize
	}
	p.offer(at)
}

// SubmitLoads starts the copy of all that was loaded since the last call, and returns when it ends.
func (p *LeasePool) SubmitLoads() (endMs float64, ok bool) {
	h := p.host
	if len(h.loading) == 0 {
		return 0, false
	}
	pages := 0
	for _, m := range h.loading {
		pages += m.pages
	}
	startMs := max(h.clock, h.loadEnd)
	h.loadEnd = startMs + h.LatencyMs + float64(pages)*h.LoadMs
	h.tell(true, startMs, h.loadEnd, pages)
	h.use.Loaded += pages
	h.use.LoadMs += h.LatencyMs + float64(pages)*h.LoadMs
	for _, m := range h.loading {
		m.endMs = h.loadEnd
		h.loads = append(h.loads, m)
	}
	h.loading = h.loading[:0]
	return h.loadEnd, true
}

// SubmitStores starts the copy of all that was backed up since the last call.
func (p *LeasePool) SubmitStores() {
	h := p.host
	if len(h.storing) == 0 {
		return
	}
	pages := 0
	for _, m := range h.storing {
		pages += m.pages
	}
	h.store(pages)
	for _, m := range h.storing {
		m.endMs = h.storeEnd
		h.passOn(m.endMs, &m.part)
		h.stores = append(h.stores, m)
	}
	h.storing = h.storing[:0]
}

// store copies pages to the host.
func (h *host) store(pages int) {
	startMs := max(h.clock, h.storeEnd)
	h.storeEnd = startMs + h.LatencyMs + float64(pages)*h.StoreMs
	h.tell(false, startMs, h.storeEnd, pages)
	h.use.Stored += pages
	h.use.StoreMs += h.LatencyMs + float64(pages)*h.StoreMs
}

// Notice begins a round: what was backed up is submitted, and what ended copies have locked becomes free.
func (p *LeasePool) Notice() {
	h := p.host
	p.SubmitStores()
	done := 0
	for ; done < len(h.stores) && h.stores[done].endMs <= h.clock; done++ {
		p.unlock(h.stores[done].node)
	}
	h.stores = slices.Delete(h.stores, 0, done)
	for done = 0; done < len(h.loads) && h.loads[done].endMs <= h.clock; done++ {
		node := h.loads[done].node
		for at := node; p.nodes[at].arriving; at = p.nodes[at].parent {
			p.nodes[at].arriving = false
			p.list(at)
		}
		p.unlock(node)
	}
	h.loads = slices.Delete(h.loads, 0, done)
}

// list notes that a node is on both sides from now on.
func (p *LeasePool) list(at ref) {
	h := p.host
	if n := &p.nodes[at]; h.Policy == WriteBack && n.listed == 0 {
		h.next++
		n.listed = h.next
		h.both = append(h.both, listing{at, h.next})
	}
}

// listHalved lists the upper parts of nodes that were split.
func (p *LeasePool) listHalved() {
	for _, at := range p.halved {
		if n := &p.nodes[at]; n.backed && !n.cold && !n.arriving {
			p.list(at)
		}
	}
	p.halved = p.halved[:0]
}

// count notes that a request has inserted a node, which may be a reason to back it up.
func (p *LeasePool) count(at ref) {
	h, n := p.host, &p.nodes[at]
	if h.Policy == WriteBack {
		return
	}
	n.hits++
	if !n.backed && (h.Policy == WriteThrough || n.hits >= 2) {
		p.backUp(at)
	}
}

// backUp gives a node, and before that all above it, room on the host, and reports whether there was enough.
func (p *LeasePool) backUp(at ref) bool {
	if at == root || p.nodes[at].backed {
		return true
	}
	pages := int(p.nodes[at].pages)
	if !p.backUp(p.nodes[at].parent) || !p.hostRoom(pages) {
		return false
	}
	p.host.free -= pages
	p.nodes[at].backed = true
	p.tellHosted(at, true)
	p.lock(at)
	n := &p.nodes[at]
	p.host.storing = append(p.host.storing,
		moving{node: at, pages: pages, part: stretch{n.key, int(n.first), int(n.end())}})
	return true
}

// hostRoom evicts until this number of pages is free on the host, and reports whether they are.
func (p *LeasePool) hostRoom(pages int) bool {
	h := p.host
	if h.free < pages && h.Policy == WriteBack {
		p.giveUpCopies(pages, true)
		p.giveUpCopies(pages, false)
	}
	for h.free < pages {
		at, ok := p.oldestHost()
		if !ok {
			return false
		}
		h.use.Evicted += int(p.nodes[at].pages)
		p.dropCold(at)
	}
	return true
}

// giveUpCopies frees host pages of nodes that are on the device, too: of those only that are no leaves there, or of
// all.
func (p *LeasePool) giveUpCopies(pages int, inner bool) {
	h := p.host
	kept := h.both[:0]
	for i, l := range h.both {
		if h.free >= pages {
			kept = append(kept, h.both[i:]...)
			break
		}
		n := &p.nodes[l.node]
		switch {
		case n.listed != l.at: // left the list
		case n.cold || !n.backed:
			n.listed = 0
		case n.arriving, inner && n.locks == 0 && n.children == 0:
			kept = append(kept, l)
		default:
			p.tellHosted(l.node, false)
			n.listed, n.backed = 0, false
			h.free += int(n.pages)
			h.use.Evicted += int(n.pages)
		}
	}
	h.both = kept
}

// dropCold removes a node without children that only the host has.
func (p *LeasePool) dropCold(at ref) {
	p.tellHosted(at, false)
	n := &p.nodes[at]
	p.host.free += int(n.pages)
	delete(p.byPage, n.id)
	parent := n.parent
	p.nodes[parent].coldKids--
	*n = node{id: noPage, parent: p.spare}
	p.spare = at
	p.offerHost(parent)
}

// dropBelow removes everything below a node, all of which only the host has.
func (p *LeasePool) dropBelow(at ref) {
	for i := 1; i < len(p.nodes) && p.nodes[at].coldKids > 0; i++ {
		if n := &p.nodes[i]; n.id != noPage && n.parent == at {
			p.dropBelow(ref(i))
			p.host.use.Evicted += int(n.pages)
			p.dropCold(ref(i))
		}
	}
}

// demote makes room on the device as evict does. What the host has a copy of stays in the tree.
func (p *LeasePool) demote(tokens int, evicted *[]stretch) (freed int) {
	h := p.host
	for freed < tokens {
		at, ok := p.oldest()
		if !ok {
			break
		}
		n := &p.nodes[at]
		pages := int(n.pages)
		stored := !n.backed && h.Policy == WriteBack && p.hostRoom(pages)
		if stored {
			h.free -= pages
			h.store(pages)
			h.use.HeldMs += max(0, h.storeEnd-h.clock)
			h.clock = max(h.clock, h.storeEnd)
			n.backed = true
			p.tellHosted(at, true)
			p.list(at)
		}
		part := stretch{n.key, int(n.first), int(n.end())}
		if stored {
			h.passOn(h.clock, &part)
		}
		*evicted = append(*evicted, part)
		freed += pages * p.pageSize
		p.evictable -= pages * p.pageSize
		if !n.backed {
			p.dropBelow(at)
			n.pages = 0
			p.remove(at)
			continue
		}
		n.cold = true
		above := &p.nodes[n.parent]
		above.children--
		above.coldKids++
		p.offerHost(at)
		p.offer(n.parent)
	}
	if freed > 0 {
		p.version++
	}
	return freed
}

// offerHost makes a node a candidate for eviction from the host if only that has it, nothing is below it and nothing
// locks it.
func (t *tree) offerHost(at ref) {
	n := &t.nodes[at]
	if at == root || !n.cold || n.locks > 0 || n.coldKids > 0 || n.waits {
		return
	}
	n.waits = true
	t.hostLeaves.push(leaf{n.used, at})
}

// oldestHost does what oldest does, for the host. An entry may be of a node that is gone, or of another one in its
// place.
func (p *LeasePool) oldestHost() (ref, bool) {
	leaves := &p.host.leaf
	for len(*leaves) > 0 {
		at := (*leaves)[0].at
		n := &p.nodes[at]
		switch {
		case !n.cold || n.locks > 0 || n.coldKids > 0:
			n.waits = false
			leaves.pop()
		case n.used != (*leaves)[0].used:
			leaves.replaceTop(leaf{n.used, at})
		default:
			n.waits = false
			leaves.pop()
			return at, true
		}
	}
	return 0, false
}

// shareTiered does what Share does, with a host tier: it goes from node to node, as each may be backed up, for which
// others leave the host. The own pages of the request take the place of those that only the host has.
func (p *LeasePool) shareTiered(l *Lease, pages, known, prompt int32) {
	at, now, fresh := root, p.now(), int32(-1)
	for p.nodes[at].end() < pages {
		child, found := p.child(at, l.Key.Block(int(p.nodes[at].end())))
		if !found {
			break
		}
		if common := p.common(&p.nodes[child], &l.Key, pages); common < p.nodes[child].pages {
			p.nodes[child].used = now
			child = p.split(child, common)
			p.listHalved()
		}
		at = child
		n := &p.nodes[at]
		n.used = now
		if n.cold {
			if fresh < 0 {
				fresh = n.first
			}
			p.warm(at)
			p.list(at)
		} else if n.end() > known {
			p.free += int(n.end()-max(n.first, known)) * p.pageSize
		}
		if n.end() > l.inserted {
			p.count(at)
		}
	}
	if end := p.nodes[at].end(); end < pages {
		if fresh < 0 {
			fresh = end
		}
		at = p.addChild(at, node{key: l.Key, first: end, pages: pages - end})
		p.nodes[at].used = p.now()
		p.count(at)
	}
	if fresh >= 0 {
		p.announce(&l.Key, int(fresh), int(pages))
	}
	p.moveLock(l.node, at)
	l.node, l.cached, l.inserted, l.below = at, int(pages)*p.pageSize, pages, root
	if prompt < pages {
		p.use(root, &l.Key, prompt)
	}
}
