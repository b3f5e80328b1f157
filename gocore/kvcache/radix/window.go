package radix

import "dynosim/gocore/kvcache"

// Window is the pool of the layers with a sliding window, beside that of the layers with full attention.
type Window struct {
	Pages  int // of the pool
	Tokens int // that a layer sees, the one that is computed included
}

// window is the second pool. Every page that is computed takes slots in both; a node of the tree has a full part and,
// or not, a window part. Requests give their window slots back when they are out of sight, and nodes lose their window
// parts before they lose their full ones:
//
//	tokens    0      32     64     96     128
//	full      [a     |b     |c     |d     ]     a path to deeper nodes
//	window     -      -      c      d           with a window of 64: a b c d is found whole, a b c not at all
//
// Like slots of the other pool, these are counted.
type window struct {
	tokens    int   // that a layer sees
	ceil      int32 // the same in pages
	free      int
	evictable int
	sides     []windowSide // of the nodes, by their places in the arena
	unseen    leafHeap     // candidates for eviction; entries may be out of date
}

// windowSide is the window part of a node.
type windowSide struct {
	has    bool
	queued bool // is in window.unseen
	locks  int32
	used   Time
}

// windowUse makes a time for each node of a path: those nearer to the root are older.
func windowUse(now Time, end int32) Time { return now<<24 | Time(end) }

// AddWindow gives the pool, which must be unused, a second one.
func (p *LeasePool) AddWindow(w Window) {
	p.window = &window{
		tokens: w.Tokens, ceil: int32((max(w.Tokens, p.pageSize) + p.pageSize - 1) / p.pageSize),
		free:  w.Pages * p.pageSize,
		sides: make([]windowSide, 1),
	}
}

// Windowed tells that there is a second pool.
func (p *LeasePool) Windowed() bool { return p.window != nil }

// WindowAvailable returns the number of window slots that are free or can be made so.
func (p *LeasePool) WindowAvailable() int { return p.window.free + p.window.evictable }

// side returns the window part of a node.
func (p *LeasePool) side(at ref) *windowSide {
	w := p.window
	for int(at) >= len(w.sides) {
		w.sides = append(w.sides, windowSide{})
	}
	return &w.sides[at]
}

// slotsOf returns the number of slots that a node takes in each pool that it has a part in.
func (p *LeasePool) slotsOf(at ref) int { return int(p.nodes[at].pages) * p.pageSize }

// splitWindow cuts a node like split. Both parts keep the window part and its locks.
func (p *LeasePool) splitWindow(lower ref, pages int32) ref {
	upper := p.split(lower, pages)
	side := *p.side(lower)
	*p.side(upper) = windowSide{has: side.has, locks: side.locks, used: side.used - Time(p.nodes[lower].pages)}
	p.offerWindow(upper)
	return upper
}

// touchWindow makes a node and those above it the youngest, up to the given number of tokens, those nearer to the root
// older.
func (p *LeasePool) touchWindow(at ref, now Time, tokens int) {
	for run := 0; at != root && run < tokens; at = p.nodes[at].parent {
		run += p.slotsOf(at)
		if s := p.side(at); s.has {
			s.used = windowUse(now, p.nodes[at].end())
		}
	}
}

// useWindow does what use does, with a second pool: it ends where the window of the next token is there as a whole.
func (p *LeasePool) useWindow(key *kvcache.Key, limit int32) ref {
	end, child, common := p.walk(root, key, limit)
	now := p.now()
	if common > 0 {
		end = p.splitWindow(child, common)
		p.nodes[child].used = now
	}
	p.deep = p.nodes[end].end()
	end = p.seen(end)
	p.nodes[end].used = now
	p.touchWindow(end, now, p.window.tokens+p.pageSize)
	return end
}

// seen returns the deepest node, from end upwards, from which on the window parts are there up to the root or for a
// window.
func (p *LeasePool) seen(end ref) ref {
	run := 0
	for at := end; at != root; at = p.nodes[at].parent {
		if !p.side(at).has {
			end, run = p.nodes[at].parent, 0
			continue
		}
		if run += p.slotsOf(at); run >= p.window.tokens {
			break
		}
	}
	return end
}

// lockWindow locks window parts from at upwards for a window, and returns the page from which on they are locked.
func (p *LeasePool) lockWindow(at ref) (from int32) {
	run := 0
	from = p.nodes[at].end()
	for at != root && run < p.window.tokens {
		s := p.side(at)
		if !s.has { // a request ends that has given back what it no longer saw
			break
		}
		s.locks++
		if s.locks == 1 {
			p.window.evictable -= p.slotsOf(at)
		}
		run += p.slotsOf(at)
		from = p.nodes[at].first
		at = p.nodes[at].parent
	}
	return from
}

// unlockWindow takes back what lockWindow did.
func (p *LeasePool) unlockWindow(at ref, from int32) {
	for ; at != root && p.nodes[at].first >= from; at = p.nodes[at].parent {
		s := p.side(at)
		s.locks--
		if s.locks == 0 {
			p.window.evictable += p.slotsOf(at)
			p.offerWindow(at)
		}
	}
}

// giveWindow gives a node a window part.
func (p *LeasePool) giveWindow(at ref, now Time) {
	s := p.side(at)
	n := &p.nodes[at]
	s.has, s.used = true, windowUse(now, n.end())
	p.announceIn(windowGroup, &n.key, int(n.first), int(n.end()))
	if s.locks == 0 {
		p.window.evictable += p.slotsOf(at)
		p.offerWindow(at)
	}
}

// offerWindow makes the window part of a node a candidate for eviction, if there is one that no request sees.
func (p *LeasePool) offerWindow(at ref) {
	if s := p.side(at); s.has && s.locks == 0 && !s.queued {
		s.queued = true
		p.window.unseen.push(leaf{s.used, at})
	}
}

// oldestWindow takes the candidate that was used first out of the queue, as oldest does.
func (p *LeasePool) oldestWindow() (ref, bool) {
	queue := &p.window.unseen
	for len(*queue) > 0 {
		at := (*queue)[0].at
		s := p.side(at)
		if current := s.has && s.locks == 0; current && s.used != (*queue)[0].used {
			queue.replaceTop(leaf{s.used, at})
			continue
		} else if queue.pop(); current {
			s.queued = false
			return at, true
		}
		s.queued = false
	}
	return root, false
}

// takeWindow takes the window part of a node away.
func (p *LeasePool) takeWindow(at ref) {
	s := p.side(at)
	if s.locks > 0 {
		panic("radix: window slots that a request sees are taken away")
	}
	s.has = false
	p.windowGone(at)
	p.window.evictable -= p.slotsOf(at)
	p.window.free += p.slotsOf(at)
}

// windowGroup is the number of the layers with a window in events.
const windowGroup = 1

// windowGone records that a node has lost its window part.
func (p *LeasePool) windowGone(at ref) {
	n := &p.nodes[at]
	if end := min(int(n.end()), n.key.Shareable); p.recording && int(n.first) < end {
		p.events = append(p.events, kvcache.Event{Kind: kvcache.Removed, Group: windowGroup,
			Blocks: n.key.Prompt.Blocks(int(n.first), end)})
	}
}

// evictFull evicts leaves that no request holds, the one unused for longest first, until the given number of slots are
// free. Their window parts go with them.
func (p *LeasePool) evictFull(slots int) {
	for p.free < slots {
		oldest, ok := p.oldest()
		if !ok {
			return
		}
		p.dropLeaf(oldest)
	}
}

// evictWindow evicts window parts that no request sees, the one unused for longest first, until the given number of
// window slots are free. Leaves that no request holds go as a whole.
func (p *LeasePool) evictWindow(slots int) {
	for p.window.free < slots {
		oldest, ok := p.oldestWindow()
		if !ok {
			return
		}
		if n := &p.nodes[oldest]; n.children > 0 || n.locks > 0 {
			p.takeWindow(oldest)
		} else {
			p.dropLeaf(oldest)
		}
	}
}

// dropLeaf removes a leaf that no request holds. What is above it stays, also if it has no window part.
func (p *LeasePool) dropLeaf(at ref) {
	if p.side(at).has {
		p.takeWindow(at)
	}
	n := &p.nodes[at]
	if p.recording {
		p.evicted = append(p.evicted, stretch{n.key, int(n.first), int(n.end())})
	}
	p.free += p.slotsOf(at)
	p.evictable -= p.slotsOf(at)
	p.version++
	p.remove(at)
	*p.side(at) = windowSide{}
}

// makeRoomWindow does what MakeRoom does, with a second pool, which needs as many slots.
func (p *LeasePool) makeRoomWindow(slots int) bool {
	p.evicted = p.evicted[:0]
	p.evictFull(slots)
	p.evictWindow(slots)
	p.announceEvicted()
	return p.free >= slots && p.window.free >= slots
}

// leaveSight gives back the window slots of l's own pages that no token after the first tokens ones sees. Its first
// shared tokens are in the tree. If anything is out of sight that was not, all of these count as given back, though the
// tree has them: that delays the next time.
func (p *LeasePool) leaveSight(l *Lease, tokens, shared int) {
	was := max(l.cached, l.unseen)
	if unseen := (tokens - int(p.window.ceil)*p.pageSize) / p.pageSize * p.pageSize; unseen > l.unseen {
		l.unseen = max(shared, unseen)
	}
	p.window.free += max(was, l.unseen) - was
}

// EvictionInterval is how many tokens have to leave the window of a request that decodes until it gives their slots
// back.
const EvictionInterval = 128

// Pass does for l, of which tokens tokens are computed, what a decode does to its window.
func (p *LeasePool) Pass(l *Lease, tokens int) {
	if tokens-p.window.tokens-l.unseen >= EvictionInterval {
		p.leaveSight(l, tokens, l.cached)
	}
}

// shareWindow does what Share does, with a second pool.
func (p *LeasePool) shareWindow(l *Lease, tokens int, pages, known int32) {
	own, reach := int32(max(l.unseen, l.cached)/p.pageSize), tokens // own window slots begin here
	if l.deep > known && int(l.deep)*p.pageSize < tokens {
		pages = l.deep // only what was there when the request came is looked at now
		reach = int(pages) * p.pageSize
		l.deep = 0
	}
	unseen := own
	if !l.over {
		unseen = max(own, int32((reach-1)/p.pageSize)-p.window.ceil)
		p.window.free += int(unseen-own) * p.pageSize
	}
	now := p.now()
	// What is in the tree already.
	end, child, common := p.walk(l.node, &l.Key, pages)
	if common > 0 {
		end = p.splitWindow(child, common)
		p.nodes[child].used = now
	}
	at := p.nodes[end].end()
	p.nodes[end].used = now
	p.free += int(at-known) * p.pageSize
	for n := end; n != l.node; {
		above := p.nodes[n].parent
		own := p.nodes[n].end() - max(unseen, p.nodes[n].first) // pages with own window slots
		switch {
		case own <= 0:
		case p.side(n).has:
			p.window.free += int(own) * p.pageSize
		default:
			if own < p.nodes[n].pages {
				p.splitWindow(n, p.nodes[n].pages-own)
			}
			p.giveWindow(n, now)
		}
		n = above
	}
	if at < pages {
		now = p.now()
		p.announce(&l.Key, int(at), int(pages))
		if at < unseen {
			end = p.addChild(end, node{key: l.Key, first: at, pages: unseen - at})
			p.nodes[end].used = now
			*p.side(end) = windowSide{}
		}
		from := max(at, unseen)
		end = p.addChild(end, node{key: l.Key, first: from, pages: pages - from})
		*p.side(end) = windowSide{}
		p.nodes[end].used = now
		p.giveWindow(end, now)
		if more := pages - p.window.ceil; more > from {
			p.splitWindow(end, more-from)
		}
	}
	p.touchWindow(end, now, p.window.tokens+p.pageSize)
	p.lock(end)
	from := p.lockWindow(end)
	p.unlock(l.node)
	p.unlockWindow(l.node, l.from)
	shared := l.cached
	l.node, l.cached, l.from = end, int(pages)*p.pageSize, from
	p.leaveSight(l, tokens-1, shared)
}

// closeWindow gives the window slots back that only l has.
func (p *LeasePool) closeWindow(l *Lease) {
	p.window.free += l.slots - max(l.cached, l.unseen)
	p.unlockWindow(l.node, l.from)
}
