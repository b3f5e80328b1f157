package policies

import (
	"math/bits"
	"slices"

	"dynosim/gocore/kvcache"
)

// sentIndex knows the prompts that were sent to each worker, up to a number of blocks of each: the segments that were
// sent least recently go first, and of a prompt its end before its beginning.
type sentIndex struct {
	capacity int // blocks of a worker
	nodes    []sentNode
	spare    []int32
	places   map[uint32]int32 // of segments
	holders  []segmentHolders // by place
	free     []int32          // places
	lists    []sentList       // by worker
	alive    []uint64         // room
	path     []placed         // the first segments of the prompt that was matched last, until something changes
}

// segmentHolders are the workers that were sent a segment: all of them, those of these that were sent the whole of it
// as bits, and how many blocks the others were sent.
type segmentHolders struct {
	all   []segmentHolder
	whole []uint64
	parts []segmentPart
}

// segmentPart is a worker that was sent some leading blocks of a segment, but not all.
type segmentPart struct{ worker, blocks int32 }

// note notes how many blocks of a segment a worker was sent, 0 if it does not count any more.
func (h *segmentHolders) note(worker, blocks int32, perSegment int) {
	word, bit := int(worker/64), uint64(1)<<(worker%64)
	for word >= len(h.whole) {
		h.whole = append(h.whole, 0)
	}
	h.whole[word] &^= bit
	h.parts = slices.DeleteFunc(h.parts, func(p segmentPart) bool { return p.worker == worker })
	switch {
	case int(blocks) >= perSegment:
		h.whole[word] |= bit
	case blocks > 0:
		h.parts = append(h.parts, segmentPart{worker, blocks})
	}
}

// placed is a segment and its place.
type placed struct {
	segment uint32
	place   int32
}

// sentNode is a segment that was sent to a worker.
type sentNode struct {
	segment       uint32
	worker        int32
	before, after int32 // in the list of the worker, none at its ends
}

// segmentHolder is a worker that was sent leading blocks of a segment, and its node. The workers of a segment are side
// by side, as the first segments of prompts have many.
type segmentHolder struct{ worker, blocks, node int32 }

// sentList has the nodes of a worker, those sent last first.
type sentList struct {
	first, last int32
	blocks      int
}

const none = -1

func newSentIndex(capacity int) *sentIndex {
	return &sentIndex{capacity: capacity, places: map[uint32]int32{}}
}

func (x *sentIndex) growTo(workers int) {
	for len(x.lists) < workers {
		x.lists = append(x.lists, sentList{first: none, last: none})
	}
}

// match adds to matched, which is 0 for each worker, how many of the first blocks of a prompt were sent there.
func (x *sentIndex) match(p kvcache.Prompt, blocks int, matched []int) {
	x.path, x.alive = x.path[:0], x.alive[:0]
	for range (len(matched) + 63) / 64 {
		x.alive = append(x.alive, ^uint64(0)) // those that have all so far
	}
	from := 0
	for s := 0; s < len(p.Segments) && from < blocks; s, from = s+1, from+p.PerSegment {
		place, known := x.places[p.Segments[s]]
		if !known {
			break
		}
		x.path = append(x.path, placed{p.Segments[s], place})
		for _, h := range x.holders[place].parts {
			if x.alive[h.worker/64]>>(h.worker%64)&1 == 1 {
				matched[h.worker] = from + min(int(h.blocks), blocks-from)
			}
		}
		if !x.advance(&x.holders[place], from, matched) {
			return
		}
	}
	for w := range x.alive {
		settle(x.alive[w], 64*w, min(from, blocks), matched)
	}
}

// advance keeps the workers that have a whole segment, and settles the others that had all before it. It reports
// whether any is kept.
func (x *sentIndex) advance(held *segmentHolders, from int, matched []int) (further bool) {
	for w, alive := range x.alive {
		whole := uint64(0)
		if w < len(held.whole) {
			whole = held.whole[w]
		}
		settle(alive&^whole, 64*w, from, matched)
		x.alive[w] = alive & whole
		further = further || x.alive[w] != 0
	}
	return further
}

// settle notes how many blocks the workers of a mask have, beginning with a first one, unless they have more.
func settle(mask uint64, first, blocks int, matched []int) {
	if blocks == 0 {
		return
	}
	for ; mask != 0; mask &= mask - 1 {
		if worker := first + bits.TrailingZeros64(mask); worker < len(matched) {
			matched[worker] = max(matched[worker], blocks)
		}
	}
}

// enter notes that the first blocks of a prompt were sent to a worker.
func (x *sentIndex) enter(p kvcache.Prompt, blocks, worker int) {
	list := &x.lists[worker]
	for s := min(len(p.Segments), (blocks+p.PerSegment-1)/p.PerSegment) - 1; s >= 0; s-- {
		sent := int32(min(p.PerSegment, blocks-s*p.PerSegment))
		place := x.placeOf(p, s)
		h := x.find(place, worker)
		if h == nil {
			h = x.add(place, sentNode{segment: p.Segments[s], worker: int32(worker)})
		} else {
			x.unlink(h.node)
		}
		if sent > h.blocks {
			list.blocks += int(sent - h.blocks)
			h.blocks = sent
			x.holders[place].note(int32(worker), sent, p.PerSegment)
		}
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
	x.path = x.path[:0]
	for list.blocks > x.capacity {
		x.remove(list.last)
	}
}

// placeOf returns the place of a segment of a prompt, which gets one if it has none.
func (x *sentIndex) placeOf(p kvcache.Prompt, s int) int32 {
	if s < len(x.path) && x.path[s].segment == p.Segments[s] {
		return x.path[s].place
	}
	place, known := x.places[p.Segments[s]]
	if known {
		return place
	}
	place = int32(len(x.holders))
	if last := len(x.free) - 1; last >= 0 {
		place, x.free = x.free[last], x.free[:last]
	} else {
		x.holders = append(x.holders, segmentHolders{})
	}
	x.places[p.Segments[s]] = place
	return place
}

// forget notes that a worker is gone.
func (x *sentIndex) forget(worker int) {
	x.path = x.path[:0]
	for x.lists[worker].last != none {
		x.remove(x.lists[worker].last)
	}
}

// find returns the worker among the holders of a segment, nil if it is none. It is valid until holders change.
func (x *sentIndex) find(place int32, worker int) *segmentHolder {
	held := x.holders[place].all
	for i := range held {
		if int(held[i].worker) == worker {
			return &held[i]
		}
	}
	return nil
}

func (x *sentIndex) add(place int32, node sentNode) *segmentHolder {
	n := int32(len(x.nodes))
	if last := len(x.spare) - 1; last >= 0 {
		n, x.spare = x.spare[last], x.spare[:last]
		x.nodes[n] = node
	} else {
		x.nodes = append(x.nodes, node)
	}
	held := append(x.holders[place].all, segmentHolder{worker: node.worker, node: n})
	x.holders[place].all = held
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
	place := x.places[node.segment]
	x.holders[place].note(node.worker, 0, 1)
	held := x.holders[place].all
	for i, other := range held {
		if other.node == n {
			x.lists[node.worker].blocks -= int(other.blocks)
			held = append(held[:i], held[i+1:]...)
			break
		}
	}
	x.holders[place].all = held
	if len(held) == 0 {
		delete(x.places, node.segment)
		x.free = append(x.free, place)
	}
	x.spare = append(x.spare, n)
}
