package kubernetes

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

// instanceID returns the id of worker idx of the process whose resource has this name. Readers know that of the first.
func instanceID(name string, idx int) uint64 {
	if idx > 0 {
		name += "/" + strconv.Itoa(idx) // no resource has such a name
	}
	const exactInFloats = 1<<53 - 1
	return sipHash13(append([]byte(name), 0xff)) & exactInFloats
}

// sipHash13 returns SipHash-1-3 with a key of zeros: Aumasson and Bernstein, "SipHash: a fast short-input PRF", with
// one round for each word and three at the end.
func sipHash13(data []byte) uint64 {
	v := [4]uint64{0x736f6d6570736575, 0x646f72616e646f6d, 0x6c7967656e657261, 0x7465646279746573}
	last := uint64(len(data)) << 56
	for ; len(data) >= 8; data = data[8:] {
		absorb(&v, binary.LittleEndian.Uint64(data))
	}
	for i, b := range data {
		last |= uint64(b) << (8 * i)
	}
	absorb(&v, last)
	v[2] ^= 0xff
	for range 3 {
		sipRound(&v)
	}
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

func absorb(v *[4]uint64, word uint64) {
	v[3] ^= word
	sipRound(v)
	v[0] ^= word
}

func sipRound(v *[4]uint64) {
	v[0] += v[1]
	v[1] = bits.RotateLeft64(v[1], 13) ^ v[0]
	v[0] = bits.RotateLeft64(v[0], 32)
	v[2] += v[3]
	v[3] = bits.RotateLeft64(v[3], 16) ^ v[2]
	v[0] += v[3]
	v[3] = bits.RotateLeft64(v[3], 21) ^ v[0]
	v[2] += v[1]
	v[1] = bits.RotateLeft64(v[1], 17) ^ v[2]
	v[2] = bits.RotateLeft64(v[2], 32)
}
