package radix

import (
	"fmt"
	"slices"
)

// check compares everything the pool keeps up to date with what follows from the nodes and from the holdings, which
// must be all there are.
func (p *Pool) check(holdings []*Holding) error {
	holders, own := map[ref]int32{}, 0
	for _, h := range holdings {
		holders[h.node]++
		own += h.Own()
		if h.node != root && int(p.nodes[h.node].end())*p.pageSize != max(h.hit, h.cached) {
			return fmt.Errorf("a request holds node %d, which ends at page %d, with %d tokens hit and %d cached",
				h.node, p.nodes[h.node].end(), h.hit, h.cached)
		}
	}
	children, locked, evictable, protected := map[ref]int32{}, map[ref]int32{}, 0, 0
	for id, at := range p.byPage {
		n := &p.nodes[at]
		if n.id != id || n.key.Block(int(n.first)) != id || n.pages < 1 || p.nodes[n.parent].end() != n.first {
			return fmt.Errorf("node %d under page %d: %+v", at, id, *n)
		}
		if n.chain && int(n.first) < n.key.Shareable {
			return fmt.Errorf("node %d is a chain of pages others may have: %+v", at, *n)
		}
		children[n.parent]++
		if n.locks > 0 {
			locked[n.parent]++
			protected += int(n.pages) * p.pageSize
		} else {
			evictable += int(n.pages) * p.pageSize
		}
	}
	for _, at := range p.byPage {
		n := &p.nodes[at]
		queued := slices.ContainsFunc(p.leaves, func(l leaf) bool { return l.at == at })
		switch {
		case n.children != children[at]:
			return fmt.Errorf("node %d has %d children, want %d", at, n.children, children[at])
		case n.locks != locked[at]+holders[at]:
			return fmt.Errorf("node %d has %d locks for %d locked children and %d requests", at, n.locks, locked[at],
				holders[at])
		case n.queued != queued:
			return fmt.Errorf("node %d is in the queue: %t, says %t", at, queued, n.queued)
		case n.locks == 0 && n.children == 0 && !queued:
			return fmt.Errorf("node %d could be evicted, but is not in the queue", at)
		}
	}
	if evictable != p.evictable || protected != p.protected {
		return fmt.Errorf("%d evictable, %d protected, want %d, %d", p.evictable, p.protected, evictable, protected)
	}
	if all := p.free + evictable + protected + own + p.leaked - p.overReturned; all != p.total {
		return fmt.Errorf("%d free + %d evictable + %d protected + %d own + %d leaked - %d over-returned = %d of %d slots",
			p.free, evictable, protected, own, p.leaked, p.overReturned, all, p.total)
	}
	return nil
}
