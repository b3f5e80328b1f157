package speculation

import "math/bits"

// rounds of the cipher; two of them make up one iteration.
const rounds = 12

// chacha is ChaCha (D. J. Bernstein, "ChaCha, a variant of Salsa20") with 12 rounds, a block counter of 64 bits that
// starts at 0, and the nonce 0.
type chacha struct{ key [8]uint32 }

// newChacha takes the key from eight steps of PCG32 (M. E. O'Neill, "PCG: A Family of Simple Fast Space-Efficient
// Statistically Good Algorithms for Random Number Generation", variant XSH-RR), of which the seed is the state.
func newChacha(seed uint64) (c chacha) {
	for i := range c.key {
		seed = seed*6364136223846793005 + 11634580027462260723
		c.key[i] = bits.RotateLeft32(uint32((seed>>18^seed)>>27), -int(seed>>59))
	}
	return c
}

// The first four words of a block: "expand 32-byte k".
const (
	expand0 = 0x61707865
	expand1 = 0x3320646e
	expand2 = 0x79622d32
	expand3 = 0x6b206574
)

// block computes the block with this number, as draws of two words, the low one first. The sixteen words are variables
// of their own, not a list, so that they can live in registers: that is twice as fast.
func (c *chacha) block(counter uint64, draws *[blockWords]uint64) {
	k := &c.key
	low, high := uint32(counter), uint32(counter>>32)

	x0, x1, x2, x3 := uint32(expand0), uint32(expand1), uint32(expand2), uint32(expand3)
	x4, x5, x6, x7 := k[0], k[1], k[2], k[3]
	x8, x9, x10, x11 := k[4], k[5], k[6], k[7]
	x12, x13, x14, x15 := low, high, uint32(0), uint32(0)
	for range rounds / 2 {
		x0, x4, x8, x12 = quarterRound(x0, x4, x8, x12)
		x1, x5, x9, x13 = quarterRound(x1, x5, x9, x13)
		x2, x6, x10, x14 = quarterRound(x2, x6, x10, x14)
		x3, x7, x11, x15 = quarterRound(x3, x7, x11, x15)

		x0, x5, x10, x15 = quarterRound(x0, x5, x10, x15)
		x1, x6, x11, x12 = quarterRound(x1, x6, x11, x12)
		x2, x7, x8, x13 = quarterRound(x2, x7, x8, x13)
		x3, x4, x9, x14 = quarterRound(x3, x4, x9, x14)
	}
	*draws = [blockWords]uint64{
		join(x0+expand0, x1+expand1), join(x2+expand2, x3+expand3),
		join(x4+k[0], x5+k[1]), join(x6+k[2], x7+k[3]),
		join(x8+k[4], x9+k[5]), join(x10+k[6], x11+k[7]),
		join(x12+low, x13+high), join(x14, x15),
	}
}

func join(low, high uint32) uint64 { return uint64(low) | uint64(high)<<32 }

func quarterRound(a, b, c, d uint32) (uint32, uint32, uint32, uint32) {
	a += b
	d = bits.RotateLeft32(d^a, 16)
	c += d
	b = bits.RotateLeft32(b^c, 12)
	a += b
	d = bits.RotateLeft32(d^a, 8)
	c += d
	b = bits.RotateLeft32(b^c, 7)
	return a, b, c, d
}
