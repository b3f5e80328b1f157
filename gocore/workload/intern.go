package workload

import (
	"encoding/binary"

	"dynosim/gocore/kvcache"
)

// interner gives every distinct prompt prefix, block by block, a dense number, so that two prompts share a number
// exactly when they share all tokens up to there.
//
// A trace block id stands for traceBlock copies of one token, the id's low 32 bits. When the engine's block size divides
// the trace block's, one number covers a whole trace block, which the engine cuts into equal pieces. Otherwise an engine
// block can span trace blocks, and numbers are given per engine block from the runs of equal tokens inside it.
type interner struct {
	traceBlock  int
	engineBlock int
	perSegment  int // engine blocks covered by one number

	numbers  map[prefix]uint32
	contents map[string]uint64 // numbers for engine blocks of several runs, from mixedContent on
	runs     []byte
}

type prefix struct {
	parent  uint32 // number of the prefix before, or noParent
	content uint64 // the token, if all tokens are equal; or a number from contents
}

const (
	noParent     = ^uint32(0)
	mixedContent = uint64(1) << 32 // above all tokens
)

func newInterner(traceBlock, engineBlock int) *interner {
	n := &interner{
		traceBlock:  traceBlock,
		engineBlock: engineBlock,
		perSegment:  1,
		numbers:     make(map[prefix]uint32),
		contents:    make(map[string]uint64),
	}
	if traceBlock%engineBlock == 0 {
		n.perSegment = traceBlock / engineBlock
	}
	return n
}

// prompt interns the full engine blocks of the first inputTokens tokens of a prompt.
func (n *interner) prompt(hashIDs []uint64, inputTokens int) kvcache.Prompt {
	span := n.engineBlock * n.perSegment // tokens per segment
	segments := make([]uint32, 0, inputTokens/span+1)
	parent := noParent
	for start := 0; start+n.engineBlock <= inputTokens; start += span {
		content := uint64(uint32(hashIDs[start/n.traceBlock]))
		if n.perSegment == 1 {
			content = n.content(hashIDs, start)
		}
		parent = n.number(prefix{parent: parent, content: content})
		segments = append(segments, parent)
	}
	return kvcache.Prompt{Segments: segments, PerSegment: n.perSegment}
}

func (n *interner) number(p prefix) uint32 {
	number, known := n.numbers[p]
	if !known {
		number = uint32(len(n.numbers))
		n.numbers[p] = number
	}
	return number
}

// content identifies the tokens of the engine block that begins at token start, by its runs of equal tokens.
func (n *interner) content(hashIDs []uint64, start int) uint64 {
	n.runs = n.runs[:0]
	end := start + n.engineBlock
	first := uint32(hashIDs[start/n.traceBlock])
	token, runStart := first, start
	for at := start; at < end; at = (at/n.traceBlock + 1) * n.traceBlock {
		next := uint32(hashIDs[at/n.traceBlock])
		if next != token {
			n.addRun(token, at-runStart)
			token, runStart = next, at
		}
	}
	if runStart == start {
		return uint64(first)
	}
	n.addRun(token, end-runStart)
	number, known := n.contents[string(n.runs)]
	if !known {
		number = mixedContent + uint64(len(n.contents))
		n.contents[string(n.runs)] = number
	}
	return number
}

func (n *interner) addRun(token uint32, length int) {
	n.runs = binary.LittleEndian.AppendUint32(n.runs, token)
	n.runs = binary.AppendUvarint(n.runs, uint64(length))
}
