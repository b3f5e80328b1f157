package radix

import "dynosim/gocore/kvcache"

// Storage behind the host (a disk, an object store) is not the tree's: the caller asks for room on the host for pages
// that it is going to fetch from there, and puts them into the tree when they have arrived.
//
//	Fetch: room for pages on the host    Arrive: those that came are on the host only, the rest of the room is free

// PassOn has each copy to the host passed on to storage: the pages from..to-1 of key, from when on they are on the
// host.
func (p *LeasePool) PassOn(passed func(atMs float64, key *kvcache.Key, from, to int)) {
	p.host.passed = passed
}

// Known makes the first pages of key that the device or the host has, of limit, the youngest, and returns how many
// these are.
func (p *LeasePool) Known(key *kvcache.Key, limit int) int {
	return int(p.nodes[p.refresh(key, limit*p.pageSize)].end())
}

// Fetch takes room on the host for pages that are on their way there, and reports whether there is enough; if not,
// nothing leaves the host.
// The first known pages of key, which the pages are to follow, do not leave it.
func (p *LeasePool) Fetch(key *kvcache.Key, known, pages int) bool {
	end := p.refresh(key, known*p.pageSize)
	p.lock(end)
	any := p.spareOnHost() >= pages && p.hostRoom(pages)
	p.unlock(end)
	if !any {
		return false
	}
	p.host.free -= pages
	p.host.use.Fetching += pages
	return true
}

// spareOnHost returns the number of pages of the host that are free or can be made so.
func (p *LeasePool) spareOnHost() int {
	pages := p.host.free
	for i := range p.nodes {
		switch n := &p.nodes[i]; {
		case n.id == noPage:
		case n.cold && n.locks == 0, n.listed > 0 && n.backed && !n.cold && !n.arriving:
			pages += int(n.pages)
		}
	}
	return pages
}

// Arrive puts pages from..to-1 of key, which have arrived, into the tree, of room for pages that Fetch has taken.
// Those that the tree has by now, and all of them if pages before them have left it, are given up. It returns the
// number of those that were not.
func (p *LeasePool) Arrive(key *kvcache.Key, from, to, pages int) (kept int) {
	p.host.use.Fetching -= pages
	p.host.free += pages
	end, child, common := p.walk(root, key, int32(to))
	at := int(p.nodes[end].end() + common)
	if at < from || at >= to {
		return 0
	}
	if common > 0 {
		end = p.split(child, common)
		p.listHalved()
	}
	kept = to - at
	p.host.free -= kept
	p.host.use.Fetched += kept
	n := node{key: *key, first: int32(at), pages: int32(kept), parent: end}
	n.id, n.cold, n.backed = key.Block(at), true, true
	p.nodes[end].coldKids++
	fresh := p.add(n)
	now := p.now()
	p.nodes[fresh].used = now
	p.touch(fresh, now)
	p.tellHosted(fresh, true)
	p.offerHost(fresh)
	p.version++
	return kept
}

// passOn passes pages of a node on that are on the host from an instant on.
func (h *host) passOn(atMs float64, s *stretch) {
	if h.passed != nil {
		h.passed(atMs, &s.key, s.from, s.end)
	}
}
