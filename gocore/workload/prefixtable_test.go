package workload

import (
	"math/rand/v2"
	"testing"
)

// TestPrefixTable compares with a map, with and without chunks of another interner before the first one.
func TestPrefixTable(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		perSegment := uint64(1 + rng.IntN(3))
		before := uint64(rng.IntN(2) * 20)
		fast, slow := newPrefixTable(int(perSegment), before), map[prefix]uint32{}
		chunks := before
		for range 500 {
			x := prefix{parent: noParent, content: uint64(rng.IntN(3))}
			if chunks > 0 && rng.IntN(10) > 0 {
				x.parent = rng.Uint64N(chunks * perSegment) // the last block of a chunk, or one in the middle
			}
			want, wantKnown := slow[x]
			if got, known := fast.find(x); got != want || known != wantKnown {
				t.Fatalf("seed %d: %+v: got %d, %t, want %d, %t", seed, x, got, known, want, wantKnown)
			}
			if !wantKnown {
				fast.add(x, uint32(chunks))
				slow[x] = uint32(chunks)
				chunks++
			}
		}
		if before == 0 && len(fast.others) >= len(slow) {
			t.Fatalf("seed %d: all %d prefixes are hashed", seed, len(slow))
		}
	}
}
