package router

import "math/bits"

// unitBlocks is the number of blocks of a unit.
const unitBlocks = 256

// blockSet is a set of blocks of one unit: a bit for each, in ascending order of ids.
type blockSet [unitBlocks / 64]uint64

// add adds n blocks from number first on.
func (s *blockSet) add(first, n int) {
	for n > 0 {
		word, bit := first/64, first%64
		here := min(n, 64-bit)
		s[word] |= (uint64(1)<<here - 1) << bit
		first += here
		n -= here
	}
}

// include adds all blocks of other.
func (s *blockSet) include(other *blockSet) {
	for w := range s {
		s[w] |= other[w]
	}
}

// keep removes all blocks that are not in other.
func (s *blockSet) keep(other *blockSet) {
	for w := range s {
		s[w] &= other[w]
	}
}

// exclude removes all blocks of other.
func (s *blockSet) exclude(other *blockSet) {
	for w := range s {
		s[w] &^= other[w]
	}
}

// without returns the number of blocks that are not in other.
func (s *blockSet) without(other *blockSet) (blocks int) {
	for w := range s {
		blocks += bits.OnesCount64(s[w] &^ other[w])
	}
	return blocks
}

func (s *blockSet) empty() bool { return *s == blockSet{} }

// len returns the number of blocks.
func (s *blockSet) len() int32 { return int32(s.without(&blockSet{})) }

// end returns the number behind the last block, 0 if there is none.
func (s *blockSet) end() int {
	for w := len(s) - 1; w >= 0; w-- {
		if s[w] != 0 {
			return 64*w + bits.Len64(s[w])
		}
	}
	return 0
}

// leading returns how many blocks come before the first one that is not in have.
func (s *blockSet) leading(have *blockSet) (blocks int32) {
	for w, mask := range s {
		if missing := mask &^ have[w]; missing != 0 {
			return blocks + int32(bits.OnesCount64(mask&(missing&-missing-1)))
		}
		blocks += int32(bits.OnesCount64(mask))
	}
	return blocks
}

// first returns the leading blocks, as many as given.
func (s *blockSet) first(blocks int32) (kept blockSet) {
	for w, mask := range s {
		n := int32(bits.OnesCount64(mask))
		for ; n > blocks; n-- {
			mask &^= 1 << (bits.Len64(mask) - 1)
		}
		kept[w] = mask
		blocks -= n
	}
	return kept
}
