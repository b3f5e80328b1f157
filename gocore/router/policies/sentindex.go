package policies

import "dynosim/gocore/kvcache"

// sentIndex knows the prompts that were sent to each worker, up to so many blocks of each: the segments that were sent least
// recently go first, and of a prompt its end before its beginning.
type sentIndex struct {
	capacity int // blocks of a worker
	nodes    []sentNode
	spare    []int32
	holders  map[uint32][]segmentHolder
	lists    []sentList // by worker
}

// sentNode is a segment that was sent to a worker.
type sentNode struct {
	segment       uint32
	worker        int32
	before, after int32 // in the list of the worker, none at its ends
}

// segmentHolder is a worker that was sent so many leading blocks of a segment, and its node. The workers of a segment are side by side,
// as the first segments of prompts have many.
type segmentHolder struct{ worker, blocks, node int32 }

// sentList has the nodes of a worker, those sent last first.
type sentList struct {
	first, last int32
	blocks      int
}

const none = -1

func newSentIndex(capacity int) *sentIndex {
	return &sentIndex{capacity: capacity, holders: map[uint32][]segmentHolder{}}
}

func (x *sentIndex) growTo(workers int) {
	for len(x.lists) < workers {
		x.lists = append(x.lists, sentList{first: none, last: none})
	}
}

// match adds to matched, which is 0 for each worker, how many of the first blocks of a prompt were sent there.
func (x *sentIndex) match(p kvcache.Prompt, blocks int, matched []int) {
	for s, from := 0, 0; s < len(p.Segments) && from < blocks; s, from = s+1, from+p.PerSegment {
		further := false
		for _, h := range x.holders[p.Segments[s]] {
			if matched[h.worker] == from {
				matched[h.worker] += min(int(h.blocks), blocks-from)
				further = further || int(h.blocks) == p.PerSegment
			}
		}
		if !further {
			return
		}
	}
}

// enter notes that the first blocks of a prompt were sent to a worker.
func (x *sentIndex) enter(p kvcache.Prompt, blocks, worker int) {
	list := &x.lists[worker]
	for s := min(len(p.Segments), (blocks+p.PerSegment-1)/p.PerSegment) - 1; s >= 0; s-- {
		sent := int32(min(p.PerSegment, blocks-s*p.PerSegment))
		h := x.find(p.Segments[s], worker)
		if h == nil {
			h = x.add(sentNode{segment: p.Segments[s], worker: int32(worker)})
		} else {
			x.unlink(h.node)
		}
		list.blocks += int(max(0, sent-h.blocks))
		h.blocks = max(h.blocks, sent)
		n := h.node
		node := &x.nodes[n]
		node.before, node.after = none, list.first
		if list.first != none {
			x.nodes[list.first].before = n
		} else {
			list.last = n
		}
		list.first = n
	}
	for list.blocks > x.capacity {
		x.remove(list.last)
	}
}

// forget notes that a worker is gone.
func (x *sentIndex) forget(worker int) {
	for x.lists[worker].last != none {
		x.remove(x.lists[worker].last)
	}
}

// find returns the worker among the holders of a segment, nil if it is none. It is valid until holders change.
func (x *sentIndex) find(segment uint32, worker int) *segmentHolder {
	held := x.holders[segment]
	for i := range held {
		if int(held[i].worker) == worker {
			return &held[i]
		}
	}
	return nil
}

func (x *sentIndex) add(node sentNode) *segmentHolder {
	n := int32(len(x.nodes))
	if last := len(x.spare) - 1; last >= 0 {
		n, x.spare = x.spare[last], x.spare[:last]
		x.nodes[n] = node
	} else {
		x.nodes = append(x.nodes, node)
	}
	held := append(x.holders[node.segment], segmentHolder{worker: node.worker, node: n})
	x.holders[node.segment] = held
	return &held[len(held)-1]
}

func (x *sentIndex) unlink(n int32) {
	node := &x.nodes[n]
	list := &x.lists[node.worker]
	if node.before != none {
		x.nodes[node.before].after = node.after
	} else {
		list.first = node.after
	}
	if node.after != none {
		x.nodes[node.after].before = node.before
	} else {
		list.last = node.before
	}
}

func (x *sentIndex) remove(n int32) {
	x.unlink(n)
	node := x.nodes[n]
	held := x.holders[node.segment]
	for i, other := range held {
		if other.node == n {
			x.lists[node.worker].blocks -= int(other.blocks)
			held = append(held[:i], held[i+1:]...)
			break
		}
	}
	if len(held) == 0 {
		delete(x.holders, node.segment)
	} else {
		x.holders[node.segment] = held
	}
	x.spare = append(x.spare, n)
}
