package router

import "math/bits"

// Groups are the groups of layers that workers have beside the one of full attention. They are alike: sliding windows,
// or states of linear attention. The zero value has none.
type Groups struct {
	Beside int // how many there are
	Run    int // blocks that a prefix needs at its end in each of them, at least 1
}

// besides knows what each worker has cached in the groups beside the first. A prefix counts as cached up to where all
// groups have what its next token needs: the first group every block, the others the last ones.
//
//	full      a b c d e f      leading blocks that the worker has: 6
//	window    - - - g h -      run 2: the prefix counts as cached up to block 5
type besides struct {
	groups []index
	run    int32
}

func newBesides(g Groups) besides {
	return besides{groups: make([]index, g.Beside), run: int32(g.Run)}
}

// indexOf returns where the blocks of a group are noted; nil if the router does not know it.
func (k *KV) indexOf(group int) *index {
	switch {
	case group == 0:
		return &k.index
	case group <= len(k.beside.groups):
		return &k.beside.groups[group-1]
	}
	return nil
}

// overlaps returns how many leading blocks of the prompt at hand each worker has cached; workers without any are left
// out.
func (k *KV) overlaps() []match {
	all := k.index.overlaps(&k.cached, k.stretches)
	if len(k.beside.groups) == 0 {
		return all
	}
	kept := all[:0]
	for _, m := range all {
		if m.blocks = k.beside.cut(k.stretches, m); m.blocks > 0 {
			kept = append(kept, m)
		}
	}
	return kept
}

// cut shortens a match in the first group to what counts as cached: up to the end of the last run of blocks that all
// groups have, or of the one that begins with the prompt and may be shorter.
func (b *besides) cut(prompt []stretch, m match) int32 {
	last, within := 0, m.blocks // the stretch in which the match ends, and how many of its blocks belong to it
	for ; within > prompt[last].blocks.len(); last++ {
		within -= prompt[last].blocks.len()
	}
	at, run := m.blocks, int32(0) // blocks up to the one that was looked at last, and there are of those from it on
	for i := last; i >= 0; i-- {
		blocks := prompt[i].blocks
		if i == last {
			blocks = blocks.first(within)
		}
		have := b.have(prompt[i].unit, m.worker)
		for w := len(blocks) - 1; w >= 0; w-- {
			for mask := blocks[w]; mask != 0; {
				highest := uint64(1) << (bits.Len64(mask) - 1)
				mask &^= highest
				at--
				if run++; have[w]&highest == 0 {
					run = 0
				} else if run == b.run {
					return at + run
				}
			}
		}
	}
	return run
}

// have returns the blocks of a unit that a worker has in all groups beside the first.
func (b *besides) have(unit uint64, worker int32) (all blockSet) {
	all.add(0, unitBlocks)
	for g := range b.groups {
		list := b.groups[g].units.holders(unit)
		i := lowerBound(list, worker)
		if i == len(list) || list[i].worker != worker {
			return blockSet{}
		}
		all.keep(&list[i].blocks)
	}
	return all
}
