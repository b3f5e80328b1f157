package radix

// evict removes unlocked leaves, the one unused for longest first, until they make up at least tokens tokens or none is
// left. It returns how many tokens they had, which can be more than asked for. Unless evicted is nil it appends the
// removed pages that others may have had to it, node by node.
func (t *tree) evict(tokens int, evicted *[]stretch) (freed int) {
	for freed < tokens {
		at, ok := t.oldest()
		if !ok {
			break
		}
		n := &t.nodes[at]
		pages := int(n.pages)
		if n.chain { // each of its pages is a node of its own, and all were last used together
			pages = min(pages, (tokens-freed+t.pageSize-1)/t.pageSize)
		}
		if evicted != nil && !n.chain {
			*evicted = append(*evicted, stretch{n.key, int(n.end()) - pages, int(n.end())})
		}
		freed += pages * t.pageSize
		n.pages -= int32(pages)
		if n.pages == 0 {
			t.remove(at)
		} else {
			t.offer(at)
		}
	}
	if freed > 0 {
		t.evictable -= freed
		t.version++
	}
	return freed
}

// remove takes an empty leaf out of the tree.
func (t *tree) remove(at ref) {
	n := &t.nodes[at]
	delete(t.byPage, n.id)
	parent := n.parent
	above := &t.nodes[parent]
	above.used = max(above.used, n.used)
	above.children--
	*n = node{id: noPage, parent: t.spare}
	t.spare = at
	t.offer(parent)
}

// offer makes a node a candidate for eviction if it is an unlocked leaf.
func (t *tree) offer(at ref) {
	n := &t.nodes[at]
	if at == root || n.locks > 0 || n.children > 0 || n.queued || n.cold {
		return
	}
	n.queued = true
	t.leaves.push(leaf{n.used, at})
}

// oldest takes the candidate that was used first out of the queue. Entries may be out of date: a node that is no
// candidate any more has left the queue with its entry, one that has been used since goes back to its new place.
func (t *tree) oldest() (ref, bool) {
	for len(t.leaves) > 0 {
		at := t.leaves[0].at
		n := &t.nodes[at]
		switch {
		case n.locks > 0 || n.children > 0 || n.id == noPage: // the last as its window part was evicted
			n.queued = false
			t.leaves.pop()
		case n.used != t.leaves[0].used:
			t.leaves.replaceTop(leaf{n.used, at})
		default:
			n.queued = false
			t.leaves.pop()
			return at, true
		}
	}
	return 0, false
}

// leafHeap is a binary min-heap by time of use. Times of two unlocked leaves differ: nodes that share one lie on one
// path.
type leafHeap []leaf

type leaf struct {
	used Time
	at   ref
}

func (h *leafHeap) push(l leaf) {
	*h = append(*h, l)
	s := *h
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if l.used >= s[parent].used {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = l
}

func (h *leafHeap) pop() {
	s := *h
	last := s[len(s)-1]
	*h = s[:len(s)-1]
	if len(*h) > 0 {
		h.replaceTop(last)
	}
}

// replaceTop puts l in the place of the top and moves it down to where it belongs.
func (h leafHeap) replaceTop(l leaf) {
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].used < h[child].used {
			child++
		}
		if h[child].used >= l.used {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = l
}
