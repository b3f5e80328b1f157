package speculation

import "math/bits"

// rounds of the cipher; two of them make up one iteration.
const rounds = 12

// chacha is the key stream of ChaCha (D. J. Bernstein, "ChaCha, a variant of Salsa20") with 12 rounds, a block counter of
// 64 bits that starts at 0, and the nonce 0.
type chacha struct {
	key     [8]uint32
	counter uint64
	block   [16]uint32
	used    int // words of block
}

// newChacha takes the key from eight steps of PCG32 (M. E. O'Neill, "PCG: A Family of Simple Fast Space-Efficient
// Statistically Good Algorithms for Random Number Generation", variant XSH-RR), of which the seed is the state.
func newChacha(seed uint64) chacha {
	c := chacha{used: 16}
	for i := range c.key {
		seed = seed*6364136223846793005 + 11634580027462260723
		c.key[i] = bits.RotateLeft32(uint32((seed>>18^seed)>>27), -int(seed>>59))
	}
	return c
}

// uint64 takes two words, the low one first.
func (c *chacha) uint64() uint64 {
	if c.used == len(c.block) {
		c.refill()
	}
	low, high := c.block[c.used], c.block[c.used+1]
	c.used += 2
	return uint64(low) | uint64(high)<<32
}

func (c *chacha) refill() {
	start := [16]uint32{
		0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, // "expand 32-byte k"
		c.key[0], c.key[1], c.key[2], c.key[3],
		c.key[4], c.key[5], c.key[6], c.key[7],
		uint32(c.counter), uint32(c.counter >> 32), 0, 0,
	}
	c.counter++
	x := start
	for range rounds / 2 {
		for column := range 4 {
			quarterRound(&x[column], &x[4+column], &x[8+column], &x[12+column])
		}
		for column := range 4 { // and along the diagonals
			quarterRound(&x[column], &x[4+(column+1)%4], &x[8+(column+2)%4], &x[12+(column+3)%4])
		}
	}
	for i := range x {
		c.block[i] = x[i] + start[i]
	}
	c.used = 0
}

func quarterRound(a, b, c, d *uint32) {
	*a += *b
	*d = bits.RotateLeft32(*d^*a, 16)
	*c += *d
	*b = bits.RotateLeft32(*b^*c, 12)
	*a += *b
	*d = bits.RotateLeft32(*d^*a, 8)
	*c += *d
	*b = bits.RotateLeft32(*b^*c, 7)
}
