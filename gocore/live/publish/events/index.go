package events

import (
	"cmp"
	"slices"
)

// index is the cache of a rank as routers should know it: blocks by hash, each with the one before it.
type index struct {
	blocks map[uint64]indexed
	added  uint64 // so far
}

type indexed struct {
	hash, tokensHash uint64
	parent           uint64
	hasParent        bool
	order            uint64 // in which blocks were added, so that a dump does not depend on the order of a map
}

func newIndex() index { return index{blocks: make(map[uint64]indexed)} }

// apply records an event.
func (x *index) apply(d Data) {
	switch {
	case d.Stored != nil:
		x.store(d.Stored)
	case d.Removed != nil:
		for _, hash := range d.Removed.BlockHashes {
			delete(x.blocks, hash)
		}
	case d.Cleared:
		clear(x.blocks)
	}
}

func (x *index) store(s *Stored) {
	var parent uint64
	if s.ParentHash != nil {
		parent = *s.ParentHash
	}
	hasParent := s.ParentHash != nil
	for _, b := range s.Blocks {
		if _, known := x.blocks[b.BlockHash]; !known {
			x.added++
			x.blocks[b.BlockHash] = indexed{
				hash: b.BlockHash, tokensHash: b.TokensHash, parent: parent, hasParent: hasParent, order: x.added,
			}
		}
		parent, hasParent = b.BlockHash, true
	}
}

// dump lists all blocks that a prompt can still reach, as chains: runs of blocks that end at a leaf or where paths
// part, each after the one it continues. A block whose ancestors are gone is left out: it is of no use to a router
// until they come back.
func (x *index) dump() []Stored {
	children := make(map[uint64][]indexed)
	var open []indexed // where chains begin that are still to be listed
	for _, b := range x.inOrder() {
		if b.hasParent {
			children[b.parent] = append(children[b.parent], b)
		} else {
			open = append(open, b)
		}
	}
	slices.Reverse(open)
	var chains []Stored
	for len(open) > 0 {
		b := open[len(open)-1]
		open = open[:len(open)-1]
		var chain Stored
		if parent := b.parent; b.hasParent {
			chain.ParentHash = &parent
		}
		for {
			chain.Blocks = append(chain.Blocks, StoredBlock{BlockHash: b.hash, TokensHash: b.tokensHash})
			next := children[b.hash]
			delete(children, b.hash) // equal hashes could make a cycle
			if len(next) != 1 {
				slices.Reverse(next)
				open = append(open, next...)
				break
			}
			b = next[0]
		}
		chains = append(chains, chain)
	}
	return chains
}

func (x *index) inOrder() []indexed {
	list := make([]indexed, 0, len(x.blocks))
	for _, b := range x.blocks {
		list = append(list, b)
	}
	slices.SortFunc(list, func(a, b indexed) int { return cmp.Compare(a.order, b.order) })
	return list
}
