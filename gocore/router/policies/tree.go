package policies

import (
	"cmp"
	"slices"

	"dynosim/gocore/kvcache"
)

// tree is the prefix tree of a cache-aware router: which workers were sent a prompt that begins with some blocks. The
// router never learns what the workers really have cached.
//
//	edge [b0 b1 b2] held by 0, 1 --- edge [b3 b4] held by 0
//	                             \-- edge [b5]    held by 1
//
// An edge ends where prompts part, or where one of them ends. Equal block ids mean equal prefixes, so a block is on one
// edge at most, the edge that begins with a block can be looked up, and a prompt agrees with an edge up to a place that
// can be searched for by halves.
type tree struct {
	starts map[kvcache.BlockID]*edge
	root   edge
	held   []int // blocks, by worker
	clock  int64 // counts prompts
}

type edge struct {
	blocks   []kvcache.BlockID
	parent   *edge
	children []*edge
	holders  []holder // in the order in which they came to hold it
}

// holder is a worker that was sent the prompt up to the end of an edge.
type holder struct {
	worker int
	used   int64 // when a prompt through this edge was last sent to it
}

func newTree() *tree { return &tree{starts: map[kvcache.BlockID]*edge{}} }

// match returns how many leading blocks of a prompt are in the tree, and who holds them, the first holder first. The
// holders are valid until the tree changes.
func (t *tree) match(p kvcache.Prompt, blocks int) (matched int, holders []holder) {
	for matched < blocks {
		e := t.starts[p.Block(matched)]
		if e == nil {
			break
		}
		n := e.agreement(p, matched, blocks)
		matched, holders = matched+n, e.holders
		if n < len(e.blocks) {
			break
		}
	}
	return matched, holders
}

// agreement returns how many blocks of the edge a prompt has from a place on, at least 1.
func (e *edge) agreement(p kvcache.Prompt, from, blocks int) int {
	n := min(len(e.blocks), blocks-from)
	if p.Block(from+n-1) == e.blocks[n-1] {
		return n
	}
	low, high := 1, n-1 // the first low blocks agree, block high does not
	for low < high {
		middle := (low + high) / 2
		if p.Block(from+middle) == e.blocks[middle] {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// enter notes that a prompt was sent to a worker.
func (t *tree) enter(p kvcache.Prompt, blocks, worker int) {
	t.clock++
	for worker >= len(t.held) {
		t.held = append(t.held, 0)
	}
	at, parent := 0, &t.root
	for at < blocks {
		e := t.starts[p.Block(at)]
		if e == nil {
			e = &edge{blocks: p.AppendBlocks(make([]kvcache.BlockID, 0, blocks-at), at, blocks), parent: parent}
			t.starts[e.blocks[0]] = e
			parent.children = append(parent.children, e)
		} else if n := e.agreement(p, at, blocks); n < len(e.blocks) {
			t.split(e, n)
		}
		t.hold(e, worker)
		at += len(e.blocks)
		parent = e
	}
}

// split ends an edge after n blocks; the rest becomes an edge of its own with the same holders.
func (t *tree) split(e *edge, n int) {
	rest := &edge{blocks: e.blocks[n:], parent: e, children: e.children, holders: slices.Clone(e.holders)}
	for _, c := range rest.children {
		c.parent = rest
	}
	t.starts[rest.blocks[0]] = rest
	e.blocks, e.children = e.blocks[:n:n], []*edge{rest}
}

func (t *tree) hold(e *edge, worker int) {
	for i := range e.holders {
		if e.holders[i].worker == worker {
			e.holders[i].used = t.clock
			return
		}
	}
	e.holders = append(e.holders, holder{worker, t.clock})
	t.held[worker] += len(e.blocks)
}

func (e *edge) heldBy(worker int) int {
	return slices.IndexFunc(e.holders, func(h holder) bool { return h.worker == worker })
}

// evict takes the least recently used leaves from every worker that holds more than limit blocks, until it does not.
func (t *tree) evict(limit int) {
	for worker, held := range t.held {
		if held > limit {
			t.evictFrom(worker, limit)
		}
	}
}

func (t *tree) evictFrom(worker, limit int) {
	type leaf struct {
		used int64
		edge *edge
	}
	order := func(a, b leaf) int { return cmp.Compare(b.used, a.used) } // the least recently used one last
	var leaves []leaf
	stack := []*edge{&t.root}
	for len(stack) > 0 {
		e := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		inner := false
		for _, c := range e.children {
			if c.heldBy(worker) >= 0 {
				stack = append(stack, c)
				inner = true
			}
		}
		if i := e.heldBy(worker); i >= 0 && !inner {
			leaves = append(leaves, leaf{e.holders[i].used, e})
		}
	}
	slices.SortFunc(leaves, order)
	for t.held[worker] > limit && len(leaves) > 0 {
		last := leaves[len(leaves)-1]
		leaves = leaves[:len(leaves)-1]
		parent := last.edge.parent
		t.release(last.edge, worker)
		i := parent.heldBy(worker)
		if i < 0 || slices.ContainsFunc(parent.children, func(c *edge) bool { return c.heldBy(worker) >= 0 }) {
			continue
		}
		l := leaf{parent.holders[i].used, parent}
		at, _ := slices.BinarySearchFunc(leaves, l, order)
		leaves = slices.Insert(leaves, at, l)
	}
}

// release takes an edge from a worker, and out of the tree if no other one holds it.
func (t *tree) release(e *edge, worker int) {
	e.holders = slices.Delete(e.holders, e.heldBy(worker), e.heldBy(worker)+1)
	t.held[worker] -= len(e.blocks)
	if len(e.holders) == 0 {
		delete(t.starts, e.blocks[0])
		e.parent.children = slices.DeleteFunc(e.parent.children, func(c *edge) bool { return c == e })
	}
}

// forget takes everything from a worker.
func (t *tree) forget(worker int) {
	if worker < len(t.held) {
		t.evictFrom(worker, 0)
	}
}
