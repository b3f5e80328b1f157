package kvcache

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// hashSeed seeds every block hash; routers and event subscribers use the same one.
const hashSeed = 1337

// BlockHash returns the local hash of one full block: XXH3-64 over its tokens as little-endian 32-bit integers.
func BlockHash(tokens []uint32) uint64 {
	buf := make([]byte, 0, 4*len(tokens))
	for _, t := range tokens {
		buf = binary.LittleEndian.AppendUint32(buf, t)
	}
	return xxh3.HashSeed(buf, hashSeed)
}

// ChainHash returns the sequence hash of a block with local hash block that follows the prefix with sequence hash
// parent. The sequence hash of a sequence's first block is its local hash.
func ChainHash(parent, block uint64) uint64 {
	var buf [16]byte
	binary.LittleEndian.PutUint64(buf[:8], parent)
	binary.LittleEndian.PutUint64(buf[8:], block)
	return xxh3.HashSeed(buf[:], hashSeed)
}

// Salted returns the local hash of the first block of a sequence with a salt, which has no block in common with
// sequences that have another one. Without a salt it is that of its tokens.
func Salted(salt string, block uint64) uint64 {
	if salt == "" {
		return block
	}
	return ChainHash(xxh3.HashStringSeed(salt, hashSeed), block)
}
