package kvcache

import "iter"

// BlockID names a distinct full block together with everything before it. Equal ids mean equal prefixes.
type BlockID uint64

// PrivateIDs is where ids begin that are never shared between requests; ids of prompts lie below.
const PrivateIDs BlockID = 1 << 62

// Prompt is the block identities of one prompt: segment s covers blocks s*PerSegment .. (s+1)*PerSegment-1, and block j
// of a segment has the id Segments[s]*PerSegment + j. A trace block of 512 tokens is one segment of eight engine blocks
// of 64; a synthetic prompt that shares nothing is a single segment. Segments may be shared and must not be changed.
type Prompt struct {
	Segments   []uint32
	PerSegment int
}

// Block returns the id of full block i of the prompt.
func (p Prompt) Block(i int) BlockID {
	s := i / p.PerSegment
	return p.segmentStart(s) + BlockID(i-s*p.PerSegment)
}

// AppendBlocks appends the ids of full blocks from..to-1 to dst.
func (p Prompt) AppendBlocks(dst []BlockID, from, to int) []BlockID {
	for i := from; i < to; {
		s := i / p.PerSegment
		start := p.segmentStart(s)
		end := min(to, (s+1)*p.PerSegment)
		for ; i < end; i++ {
			dst = append(dst, start+BlockID(i-s*p.PerSegment))
		}
	}
	return dst
}

// Blocks returns full blocks from..to-1 of the prompt.
func (p Prompt) Blocks(from, to int) (blocks Blocks) {
	for first, n := range p.Runs(from, to) {
		blocks = append(blocks, Run{first, n})
	}
	return blocks
}

// Runs yields full blocks from..to-1 as runs of consecutive ids: the first id of each, and their number.
func (p Prompt) Runs(from, to int) iter.Seq2[BlockID, int] {
	return func(yield func(BlockID, int) bool) {
		for from < to {
			s := from / p.PerSegment
			first := p.Block(from)
			end := (s + 1) * p.PerSegment
			for end < to && p.Segments[s+1] == p.Segments[s]+1 {
				s++
				end += p.PerSegment
			}
			end = min(end, to)
			if !yield(first, end-from) {
				return
			}
			from = end
		}
	}
}

func (p Prompt) segmentStart(s int) BlockID {
	return BlockID(p.Segments[s]) * BlockID(p.PerSegment)
}
