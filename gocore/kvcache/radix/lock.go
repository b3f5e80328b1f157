package radix

// lock keeps a node and everything above it from being evicted.
func (t *tree) lock(at ref) {
	for at != root {
		n := &t.nodes[at]
		n.locks++
		if n.locks > 1 {
			return
		}
		if !n.cold {
			t.evictable -= int(n.pages) * t.pageSize
			t.protected += int(n.pages) * t.pageSize
		}
		at = n.parent
	}
}

// unlock takes back one lock.
func (t *tree) unlock(at ref) {
	lowest := at
	for at != root {
		n := &t.nodes[at]
		if n.locks <= 0 {
			panic("radix: a node was unlocked that is not locked")
		}
		n.locks--
		if n.locks > 0 {
			break
		}
		if !n.cold {
			t.protected -= int(n.pages) * t.pageSize
			t.evictable += int(n.pages) * t.pageSize
		}
		if t.tiered {
			t.offer(at) // only what is on the host may be below it
			t.offerHost(at)
		}
		at = n.parent
	}
	t.offer(lowest)
}

// moveLock moves a lock to a node below it, or to the same.
func (t *tree) moveLock(from, to ref) {
	if from != to {
		t.lock(to)
		t.unlock(from)
	}
}
