package fleet

import "math"

// innerEnds has the next end within the coast of each worker, other than the last one, in a tournament: of the leaves,
// one for each worker, the earlier of two goes to the node above them, and so on to the first node. Those of coasts
// that were cut short stay until they are the first. It is beside eventheap because every pass of a coast comes by
// here: on the way up from a leaf nothing is looked at whose place depends on what was found before.
type innerEnds struct {
	nodes []innerEnd // of a binary tree, from 1; the second half are the leaves
}

// innerEnd is the end of a pass of a worker.
type innerEnd struct {
	at     uint64 // the bits of its time, which is not negative: they have the same order, and are compared faster
	worker int
}

// first returns the first end and its worker; +Inf if there is none.
func (t *innerEnds) first() (atMs float64, worker int) {
	if len(t.nodes) == 0 {
		return math.Inf(1), 0
	}
	return math.Float64frombits(t.nodes[1].at), t.nodes[1].worker
}

// set changes the end of a worker; +Inf for none.
func (t *innerEnds) set(worker int, atMs float64) {
	if worker >= len(t.nodes)/2 {
		t.grow(worker)
	}
	nodes, k := t.nodes, len(t.nodes)/2+worker
	at := math.Float64bits(atMs)
	nodes[k] = innerEnd{at, worker}
	for k > 1 {
		if other := &nodes[k^1]; other.at < at {
			at, worker = other.at, other.worker
		}
		k /= 2
		nodes[k] = innerEnd{at, worker}
	}
}

// grow makes room for the end of a worker.
func (t *innerEnds) grow(worker int) {
	leaves := max(2, len(t.nodes))
	for leaves <= worker {
		leaves *= 2
	}
	old := t.nodes
	t.nodes = make([]innerEnd, 2*leaves)
	for k := range t.nodes {
		t.nodes[k] = innerEnd{math.Float64bits(math.Inf(1)), max(0, k-leaves)}
	}
	for i := range len(old) / 2 {
		t.set(i, math.Float64frombits(old[len(old)/2+i].at))
	}
}
