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

// MaxPosition is the highest block position a LineageHash can hold.
const MaxPosition = 1<<24 - 1

// LineageHash packs a block's position, its sequence hash and the low bits of its parent's sequence hash (0 for the
// first block) into 128 bits:
//
//	mode (2 bits) | position (8, 16 or 24 bits) | sequence hash (64) | parent fragment (54, 46 or 38)
//
// The mode grows with the position. position must not exceed MaxPosition.
func LineageHash(position int, sequence, parent uint64) (hi, lo uint64) {
	mode, positionBits := uint64(0), uint(8)
	switch {
	case position >= 1<<16:
		mode, positionBits = 2, 24
	case position >= 1<<8:
		mode, positionBits = 1, 16
	}
	parentBits := 62 - positionBits
	hi = mode<<62 | uint64(position)<<parentBits | sequence>>(64-parentBits)
	lo = sequence<<parentBits | parent&(1<<parentBits-1)
	return hi, lo
}
