package workload

import (
	"encoding/binary"
	"fmt"
	"math"

	"dynosim/gocore/kvcache"
)

// interner gives every distinct prompt prefix, block by block, an id, so that two prompts share an id exactly when they
// share all tokens up to there.
//
// A trace block id stands for traceBlock copies of one token, the id's low 32 bits. Ids are handed out in chunks of
// perSegment, one chunk for up to that many equal engine blocks in a row. When the engine's block size divides the
// trace block's, a chunk is as long as a trace block, and a prompt can be written as a list of chunks (prompt). history
// lists single blocks instead, for sequences that may end a run of equal blocks anywhere.
type interner struct {
	traceBlock  int
	engineBlock int
	perSegment  int  // engine blocks per chunk
	partial     bool // TraceSpec.NamePartialBlocks

	base     *interner // looked up first and not changed; nil for most
	chunks   uint64    // handed out, those of base included
	numbers  prefixTable
	contents map[string]uint64 // numbers for engine blocks of several runs, from mixedContent on
	salts    map[string]uint32 // the chunk that stands before the prompts with a salt, and in none

	scratch history
}

const (
	noParent     = ^uint64(0)
	mixedContent = uint64(1) << 32 // above all tokens
	ownContent   = ^uint64(0)      // holds tokens of one sequence only
)

func newInterner(traceBlock, engineBlock int) *interner {
	n := &interner{
		traceBlock:  traceBlock,
		engineBlock: engineBlock,
		perSegment:  1,
		contents:    make(map[string]uint64),
	}
	if traceBlock%engineBlock == 0 {
		n.perSegment = traceBlock / engineBlock
	}
	n.numbers = newPrefixTable(n.perSegment, 0)
	return n
}

// onTopOf returns an interner that agrees with base and does not change it.
func onTopOf(base *interner) *interner {
	n := newInterner(base.traceBlock, base.engineBlock)
	n.base, n.chunks, n.partial = base, base.chunks, base.partial
	n.numbers = newPrefixTable(n.perSegment, n.chunks)
	return n
}

// least returns the number of tokens that begin a chunk.
func (n *interner) least() int {
	if n.partial {
		return 1
	}
	return n.engineBlock
}

// root returns what prompts with a salt begin behind. Those with different salts have no block in common.
func (n *interner) root(salt string) uint64 {
	if salt == "" {
		return noParent
	}
	chunk, known := n.salts[salt]
	if !known {
		if n.salts == nil {
			n.salts = map[string]uint32{}
		}
		chunk = n.fresh()
		n.salts[salt] = chunk
	}
	return n.lastBlock(chunk)
}

// prompt interns the full engine blocks of the first inputTokens tokens of a prompt behind a root.
func (n *interner) prompt(root uint64, hashIDs []uint64, inputTokens int) kvcache.Prompt {
	if n.traceBlock%n.engineBlock != 0 {
		n.scratch.restart(n, root)
		n.scratch.appendBlocks(hashIDs, inputTokens)
		return kvcache.Prompt{Segments: append([]uint32(nil), n.scratch.ids...), PerSegment: 1}
	}
	segments := make([]uint32, 0, inputTokens/n.traceBlock+1)
	parent, least := root, n.least()
	for start := 0; start+least <= inputTokens; start += n.traceBlock {
		chunk := n.chunk(prefix{parent: parent, content: uint64(uint32(hashIDs[start/n.traceBlock]))})
		segments = append(segments, chunk)
		parent = n.lastBlock(chunk)
	}
	return kvcache.Prompt{Segments: segments, PerSegment: n.perSegment}
}

// chunk finds or makes the chunk of p.
func (n *interner) chunk(p prefix) uint32 {
	if n.base != nil {
		if chunk, known := n.base.numbers.find(p); known {
			return chunk
		}
	}
	chunk, known := n.numbers.find(p)
	if !known {
		chunk = n.fresh()
		n.numbers.add(p, chunk)
	}
	return chunk
}

// fresh makes a chunk that no other prompt gets.
func (n *interner) fresh() uint32 {
	n.chunks++
	return uint32(n.chunks - 1)
}

// mixed identifies the content of an engine block of several runs of equal tokens.
func (n *interner) mixed(runs []byte) uint64 {
	if n.base != nil {
		if content, known := n.base.contents[string(runs)]; known {
			return content
		}
	}
	content, known := n.contents[string(runs)]
	if !known {
		content = mixedContent + uint64(len(n.contents))
		if n.base != nil {
			content += uint64(len(n.base.contents))
		}
		n.contents[string(runs)] = content
	}
	return content
}

// overflows reports whether more numbers were handed out than there are: of chunks, or of blocks if prompts list those.
func (n *interner) overflows(listed bool) bool {
	if listed {
		return n.chunks*uint64(n.perSegment) > math.MaxUint32
	}
	return n.chunks > math.MaxUint32
}

// tooMany returns the error when overflows is true.
func (n *interner) tooMany(w *Workload) error {
	return fmt.Errorf("%s: the prompts have more than %d distinct blocks of %d tokens, the limit", w.File,
		uint32(math.MaxUint32), n.engineBlock)
}

// history is a sequence of tokens of which only the ids of its full engine blocks are kept.
type history struct {
	blocks *interner
	root   uint64   // of the interner
	ids    []uint32 // full blocks
	tokens int
	// own tells that the sequence holds tokens that no other sequence has: all blocks that are not full yet are its
	// own.
	own bool

	chunk   uint32 // that of the last full block
	inChunk int    // ids of it in use
	content uint64 // of its blocks

	partial   int    // tokens after the last full block
	runs      []byte // those, as runs of equal tokens, without the last run
	run       uint32 // token of the last run
	runLength int
}

// restart makes h the empty sequence and keeps its buffers.
func (h *history) restart(blocks *interner, root uint64) {
	*h = history{blocks: blocks, root: root, ids: h.ids[:0], runs: h.runs[:0]}
}

// appendBlocks appends the first length tokens that trace block ids stand for.
func (h *history) appendBlocks(hashIDs []uint64, length int) {
	for _, id := range hashIDs {
		count := min(length, h.blocks.traceBlock)
		h.append(uint32(id), count)
		length -= count
	}
}

// append appends count copies of a token.
func (h *history) append(token uint32, count int) {
	h.tokens += count
	for count > 0 {
		if h.partial == 0 && count >= h.blocks.engineBlock {
			h.fill(uint64(token))
			count -= h.blocks.engineBlock
			continue
		}
		take := min(count, h.blocks.engineBlock-h.partial)
		h.addRun(token, take)
		count -= take
		if h.partial == h.blocks.engineBlock {
			content := ownContent
			if !h.own {
				content = h.partialContent()
			}
			h.fill(content)
			h.clearPartial()
		}
	}
}

// appendOwn appends tokens that no other sequence has.
func (h *history) appendOwn(count int) {
	h.own = h.own || count > 0
	h.append(0, count)
}

// keep replaces the ids by as many others, under which the blocks are known already.
func (h *history) keep(ids []uint32) {
	h.ids = append([]uint32(nil), ids...)
	h.inChunk = h.blocks.perSegment // the next block begins a chunk
}

// fill makes the next block a full one.
func (h *history) fill(content uint64) {
	n := h.blocks
	if h.own {
		content = ownContent
	}
	if len(h.ids) > 0 && h.inChunk < n.perSegment && content == h.content {
		h.inChunk++
	} else {
		h.chunk, h.inChunk, h.content = h.nextChunk(content), 1, content
	}
	h.ids = append(h.ids, h.chunk*uint32(n.perSegment)+uint32(h.inChunk-1))
}

func (h *history) nextChunk(content uint64) uint32 {
	if content == ownContent {
		return h.blocks.fresh()
	}
	parent := h.root
	if len(h.ids) > 0 {
		parent = uint64(h.ids[len(h.ids)-1])
	}
	return h.blocks.chunk(prefix{parent: parent, content: content})
}

func (h *history) addRun(token uint32, count int) {
	h.partial += count
	if h.runLength > 0 && token != h.run {
		h.runs = appendRun(h.runs, h.run, h.runLength)
		h.runLength = 0
	}
	h.run = token
	h.runLength += count
}

// partialContent identifies the partial block, which has become full, by its runs.
func (h *history) partialContent() uint64 {
	if len(h.runs) == 0 {
		return uint64(h.run)
	}
	h.runs = appendRun(h.runs, h.run, h.runLength)
	return h.blocks.mixed(h.runs)
}

func (h *history) clearPartial() {
	h.partial, h.runs, h.runLength = 0, h.runs[:0], 0
}

func appendRun(dst []byte, token uint32, length int) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, token)
	return binary.AppendUvarint(dst, uint64(length))
}
