package kvcache

import "iter"

// Run is a number of blocks with ids that follow each other.
type Run struct {
	First  BlockID
	Number int
}

// Blocks lists blocks in order, run by run. Prompts are mostly numbered consecutively where they share nothing with
// earlier ones, so that thousands of blocks of one token are a few runs.
type Blocks []Run

// BlocksOf returns a list of blocks.
func BlocksOf(ids ...BlockID) Blocks { return AppendRuns(nil, ids) }

// AppendRuns appends blocks to dst. They begin with a run of their own, so that dst can be room for several lists.
func AppendRuns(dst []Run, ids []BlockID) []Run {
	for at := 0; at < len(ids); {
		run := Run{First: ids[at], Number: 1}
		for at++; at < len(ids) && ids[at] == run.end(); at++ {
			run.Number++
		}
		dst = append(dst, run)
	}
	return dst
}

// end returns the id behind the last one.
func (r Run) end() BlockID { return r.First + BlockID(r.Number) }

// Append appends the blocks of a run. The list may be changed in place.
func (b Blocks) Append(first BlockID, number int) Blocks {
	if last := len(b) - 1; last >= 0 && b[last].end() == first {
		b[last].Number += number
		return b
	}
	return append(b, Run{first, number})
}

// All yields the blocks one by one.
func (b Blocks) All() iter.Seq[BlockID] {
	return func(yield func(BlockID) bool) {
		for _, run := range b {
			for id := run.First; id < run.end(); id++ {
				if !yield(id) {
					return
				}
			}
		}
	}
}

// Len returns the number of blocks.
func (b Blocks) Len() (blocks int) {
	for _, run := range b {
		blocks += run.Number
	}
	return blocks
}

// Last returns the last block of a list that is not empty.
func (b Blocks) Last() BlockID { return b[len(b)-1].end() - 1 }
