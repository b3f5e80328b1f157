package paged

import "math/bits"

// sketch estimates how often keys were used, in four rows of 4-bit counters that share one table (TinyLFU; Einziger,
// Friedman, Manes 2017). Counters are halved once ten uses per slot have been counted, so old popularity fades.
type sketch struct {
	table    []uint64 // 16 counters a word
	capacity int
	counted  int
}

const counterMax = 15

func newSketch(capacity int) *sketch {
	return &sketch{table: make([]uint64, max(1, capacity/4)), capacity: capacity}
}

func (s *sketch) increment(key uint64) {
	grew := false
	for row := range rowSecrets {
		word, shift := s.counter(row, key)
		if s.table[word]>>shift&counterMax < counterMax {
			s.table[word] += 1 << shift
			grew = true
		}
	}
	if !grew {
		return
	}
	s.counted++
	if s.counted >= 10*s.capacity {
		s.halve()
	}
}

// estimate returns the number of uses counted for key, at most 15. Halving aside, it errs upward only.
func (s *sketch) estimate(key uint64) int {
	least := counterMax
	for row := range rowSecrets {
		word, shift := s.counter(row, key)
		least = min(least, int(s.table[word]>>shift&counterMax))
	}
	return least
}

func (s *sketch) counter(row int, key uint64) (word int, shift uint) {
	h := rowSecrets[row].hash(key)
	return int(h % uint64(len(s.table))), uint(h&15) * 4
}

func (s *sketch) halve() {
	odd := 0
	for i, word := range s.table {
		odd += bits.OnesCount64(word & 0x1111111111111111)
		s.table[i] = word >> 1 & 0x7777777777777777
	}
	s.counted = max(0, s.counted/2-odd/4)
}

// secret is the part of an XXH3 custom secret that hashing 16 bytes uses: one word folded into each input half.
type secret struct{ low, high uint64 }

// rowSecrets are the custom secrets of seeds 0..3, from bytes 24..56 of XXH3's default secret. A custom secret adds the
// seed to every even 64-bit word and subtracts it from every odd one. The hash library has no custom-secret form.
var rowSecrets = func() (rows [4]secret) {
	for seed := range uint64(len(rows)) {
		rows[seed] = secret{
			low:  (0x1f67b3b7a4a44072 - seed) ^ (0x78e5c0cc4ee679cb + seed),
			high: (0x2172ffcc7dd05a82 - seed) ^ (0x8e2443f7744608b8 + seed),
		}
	}
	return rows
}()

// hash returns XXH3-64 with this secret of the 16 bytes that hold key as a little-endian 128-bit integer. The pool's
// keys are BlockIDs, the reference's are lineage hashes: which of them collide is not the same.
func (s secret) hash(key uint64) uint64 {
	const length, high = 16, 0
	inLow, inHigh := key^s.low, high^s.high
	foldHigh, foldLow := bits.Mul64(inLow, inHigh)
	acc := length + bits.ReverseBytes64(inLow) + inHigh + (foldHigh ^ foldLow)
	acc ^= acc >> 37
	acc *= 0x165667919e3779f9
	return acc ^ acc>>32
}
