package blocks

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"

	"dynosim/gocore/kvcache"
)

// Table names the blocks of one engine's requests. It is not safe for concurrent use.
type Table struct {
	blockSize  int
	keepTokens bool
	byKey      map[key]kvcache.BlockID
	blocks     map[kvcache.BlockID]*block
	next       uint32 // the id to try first
	scratch    []byte
	groups     Groups
}

// key identifies a block and everything before it: its sequence hash, and the chained hash with another seed.
type key struct{ sequence, check uint64 }

type block struct {
	id         kvcache.BlockID
	key        key
	tokensHash uint64
	tokens     []uint32 // nil unless the table keeps them
	holders    int32    // requests
	cached     tiers    // of the engine that have it, in some group of layers
	held       uint64   // a bit for each group for which a tier below the device needs its name
	path                // with several groups
}

// tiers is a set of tiers.
type tiers uint8

func (t tiers) has(tier kvcache.Tier) bool { return t>>tier&1 == 1 }

func (t *tiers) set(tier kvcache.Tier, has bool) {
	if *t &^= 1 << tier; has {
		*t |= 1 << tier
	}
}

// checkSeed seeds the second half of a key.
const checkSeed = 7331

// New returns an empty table for blocks of blockSize tokens.
func New(blockSize int) *Table {
	return &Table{
		blockSize: blockSize,
		byKey:     make(map[key]kvcache.BlockID),
		blocks:    make(map[kvcache.BlockID]*block),
	}
}

// KeepTokens makes the table keep the tokens of blocks held from now on, for subscribers that want to see them.
func (t *Table) KeepTokens() { t.keepTokens = true }

// Len returns the number of blocks in the table.
func (t *Table) Len() int { return len(t.blocks) }

// Hold names the full blocks of a sequence for a request, until Release. The result's Segments are these blocks, one
// each: their number is what engine.Request calls NamedBlocks. Sequences with different salts have no block in common.
func (t *Table) Hold(tokens []uint32, salt string) kvcache.Prompt {
	full := len(tokens) / t.blockSize
	ids := make([]uint32, full)
	var previous key
	var before *block
	if salt != "" {
		previous.check = xxh3.HashStringSeed(salt, checkSeed)
	}
	for i := range ids {
		content := tokens[i*t.blockSize : (i+1)*t.blockSize]
		tokensHash := kvcache.BlockHash(content)
		if i == 0 {
			tokensHash = kvcache.Salted(salt, tokensHash)
		}
		k := key{sequence: tokensHash, check: t.check(previous.check, content)}
		if i > 0 {
			k.sequence = kvcache.ChainHash(previous.sequence, tokensHash)
		}
		before = t.hold(k, tokensHash, content, before)
		ids[i] = uint32(before.id)
		previous = k
	}
	return kvcache.Prompt{Segments: ids, PerSegment: 1}
}

// Release ends what Hold began. p must be a result of Hold that has not been released.
func (t *Table) Release(p kvcache.Prompt) {
	for _, segment := range p.Segments {
		id := kvcache.BlockID(segment)
		b, known := t.blocks[id]
		if !known || b.holders == 0 {
			panic(fmt.Sprintf("blocks: block %d was released that no request holds", id))
		}
		b.holders--
		t.forgetUnneeded(b)
	}
}

func (t *Table) hold(k key, tokensHash uint64, content []uint32, before *block) *block {
	if id, known := t.byKey[k]; known {
		b := t.blocks[id]
		b.holders++
		return b
	}
	b := &block{id: t.freshID(), key: k, tokensHash: tokensHash, holders: 1}
	if t.keepTokens {
		b.tokens = append([]uint32(nil), content...)
	}
	if t.groups.Beside > 0 {
		b.link(before)
	}
	t.byKey[k], t.blocks[b.id] = b.id, b
	return b
}

// freshID returns the next id that no block has.
func (t *Table) freshID() kvcache.BlockID {
	for {
		id := kvcache.BlockID(t.next)
		t.next++
		if _, used := t.blocks[id]; !used {
			return id
		}
	}
}

// check returns the second chained hash of a block.
func (t *Table) check(previous uint64, content []uint32) uint64 {
	buf := binary.LittleEndian.AppendUint64(t.scratch[:0], previous)
	for _, token := range content {
		buf = binary.LittleEndian.AppendUint32(buf, token)
	}
	t.scratch = buf
	return xxh3.HashSeed(buf, checkSeed)
}

// forgetUnneeded forgets a block that is not held, not cached, and before none of the table, and those above it of
// which that is true then.
func (t *Table) forgetUnneeded(b *block) {
	for b != nil && b.holders == 0 && b.cached == 0 && b.held == 0 && len(b.kids) == 0 {
		delete(t.byKey, b.key)
		delete(t.blocks, b.id)
		b.unlink()
		b = b.parent
	}
}
