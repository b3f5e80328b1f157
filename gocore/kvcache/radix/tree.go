package radix

import "dynosim/gocore/kvcache"

// Time orders the uses of the tree. The caller hands it in; every use needs one of its own.
type Time uint64

// ref is the place of a node in the arena.
type ref int32

// root stands for the empty prefix. It has no pages and is never locked or evicted.
const root ref = 0

// noPage is the id of the first page of the root and of nodes that have been removed.
const noPage = ^kvcache.BlockID(0)

// node is a stretch of pages that follow each other: an edge of the tree and the state at its lower end. Its pages are
// those of key from first on; other keys may have the same pages.
type node struct {
	key      kvcache.Key
	id       kvcache.BlockID // of the first page
	first    int32           // its position in the sequence
	pages    int32
	parent   ref
	children int32 // on the device
	recent   ref   // the child that a walk went to last, or what has become of it
	// locks counts the requests that hold exactly this node, and the children that are locked: the node is locked if
	// some request needs it or anything below it, and a lock or unlock stops climbing where that does not change.
	locks int32
	// chain marks a run of nodes of one page each, which one request has made while decoding: the lower end of a chain
	// is cut page by page, where any other node goes as a whole.
	chain  bool
	queued bool // is in Pool.leaves
	hosted      // its side in the host tier, if there is one
	// used is the last use of the node, or less: a use is only noted at the deepest node it goes through, and carried
	// up when that one is removed. So it is right for every leaf.
	used Time
}

func (n *node) end() int32 { return n.first + n.pages }

// tree is the radix tree. A page id implies everything before it, so that it occurs at one place only, and one table
// finds the child of any node by its first page.
type tree struct {
	pageSize int
	nodes    []node
	spare    ref // removed nodes, linked through parent
	byPage   map[kvcache.BlockID]ref

	evictable, protected int // tokens in unlocked and in locked nodes
	leaves               leafHeap
	// version changes whenever a prefix that requests other than the one that made it might look for comes or goes.
	version int
	// tiered tells that there is a host tier: nodes may have left the device, and used is right for all of them.
	tiered     bool
	hostLeaves *leafHeap
	halved     []ref // the upper parts of nodes that were split and have not been looked at
}

func newTree(pageSize int) tree {
	return tree{pageSize: pageSize, nodes: []node{{id: noPage}}, byPage: make(map[kvcache.BlockID]ref)}
}

// match finds the longest prefix of the first limit pages of key that is in the tree, and makes all nodes that lie
// wholly in it the youngest. A node in the middle of which the prefix ends is split there; its upper part ends the
// prefix, but has been used no later than before.
func (t *tree) match(key *kvcache.Key, limit int, now Time) ref {
	last, child, common := t.walk(root, key, int32(limit))
	if common == 0 {
		t.nodes[last].used = now
		return last
	}
	upper := t.split(child, common)
	if t.nodes[upper].chain {
		last = upper
	}
	t.nodes[last].used = now
	return upper
}

// matchLength returns the number of the first limit pages of key that are in the tree. It changes nothing.
func (t *tree) matchLength(key *kvcache.Key, limit int) int {
	last, _, common := t.walk(root, key, int32(limit))
	return int(t.nodes[last].end() + common)
}

// insert puts the first limit pages of key into the tree, all missing ones as one node, and makes all of them the
// youngest. from is a node whose pages are known to be a prefix of them. It returns the node where they end and the
// number of pages that were missing.
func (t *tree) insert(from ref, key *kvcache.Key, limit int, now Time) (end ref, added int) {
	end, child, common := t.walk(from, key, int32(limit))
	if common > 0 {
		end = t.split(child, common)
	}
	switch at := int(t.nodes[end].end()); {
	case at+1 == limit && at >= key.Shareable:
		end, added = t.extend(end, key, 1), 1
	case at < limit:
		added = limit - at
		end = t.addChild(end, node{key: *key, first: int32(at), pages: int32(added)})
		t.version++
	}
	t.nodes[end].used = now
	return end, added
}

// extend adds pages of key below the node at, a node for each of them, and returns the lowest. They must be private to
// the request that key belongs to and not be in the tree.
func (t *tree) extend(at ref, key *kvcache.Key, pages int) ref {
	n := &t.nodes[at]
	if !n.chain || n.children > 0 {
		return t.addChild(at, node{key: *key, first: n.end(), pages: int32(pages), chain: true})
	}
	n.pages += int32(pages)
	if n.locks > 0 {
		t.protected += pages * t.pageSize
	} else {
		t.evictable += pages * t.pageSize
	}
	return at
}

// walk follows key from the node from to page limit. It returns the deepest node that it covers as a whole, and, if it
// ends within a child of that node, the child and the number of its pages that are covered.
func (t *tree) walk(from ref, key *kvcache.Key, limit int32) (last, child ref, common int32) {
	last = from
	for {
		end := t.nodes[last].end()
		if end >= limit {
			return last, 0, 0
		}
		child, found := t.child(last, key.Block(int(end)))
		if !found {
			return last, 0, 0
		}
		if common := t.common(&t.nodes[child], key, limit); common < t.nodes[child].pages {
			return last, child, common
		}
		last = child
	}
}

// child finds the child of a node by its first page. Paths that many requests have in common can be cut into a node for
// each page, and most walks go the way the last one went.
func (t *tree) child(parent ref, id kvcache.BlockID) (child ref, found bool) {
	above := &t.nodes[parent]
	if above.children+above.coldKids == 0 {
		return root, false
	}
	if child = above.recent; t.nodes[child].id == id {
		return child, true
	}
	if child, found = t.byPage[id]; found {
		above.recent = child
	}
	return child, found
}

// common returns the number of pages that n and the first limit pages of key share, when the first page of n is one of
// them. Pages that are equal have equal ones before them, so the first difference can be found by bisection.
func (t *tree) common(n *node, key *kvcache.Key, limit int32) int32 {
	same, different := int32(0), min(n.pages, limit-n.first)
	if different == 1 {
		return 1
	}
	if last := int(n.first + different - 1); n.key.Block(last) == key.Block(last) {
		return different
	}
	for different-same > 1 {
		middle := same + (different-same)/2
		if page := int(n.first + middle); n.key.Block(page) == key.Block(page) {
			same = middle
		} else {
			different = middle
		}
	}
	return different
}

// split cuts a node after its first pages pages and returns the new upper part. The node itself becomes the lower part:
// a request that holds it holds all of it.
func (t *tree) split(lower ref, pages int32) ref {
	upper := t.add(node{
		key:      t.nodes[lower].key,
		id:       t.nodes[lower].id,
		first:    t.nodes[lower].first,
		pages:    pages,
		parent:   t.nodes[lower].parent,
		children: 1,
		recent:   lower,
		locks:    min(t.nodes[lower].locks, 1),
		chain:    t.nodes[lower].chain,
	})
	if t.tiered {
		t.splitHosted(upper, lower)
	}
	n := &t.nodes[lower]
	n.first += pages
	n.pages -= pages
	n.parent = upper
	n.id = n.key.Block(int(n.first))
	t.byPage[n.id] = lower
	return upper
}

func (t *tree) addChild(parent ref, n node) ref {
	n.parent = parent
	n.id = n.key.Block(int(n.first))
	t.nodes[parent].children++
	t.evictable += int(n.pages) * t.pageSize
	return t.add(n)
}

func (t *tree) add(n node) ref {
	at := t.spare
	if at != root {
		t.spare = t.nodes[at].parent
		t.nodes[at] = n
	} else {
		at = ref(len(t.nodes))
		t.nodes = append(t.nodes, n)
	}
	t.byPage[n.id] = at
	return at
}
