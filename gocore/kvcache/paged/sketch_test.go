package paged

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zeebo/xxh3"

	"dynosim/gocore/kvcache"
)

// Vectors of the reference: key 1 under the custom secrets of seeds 0..3.
func TestSecrets(t *testing.T) {
	want := [4]uint64{2806482627441532945, 18024865818695398138, 8046136091381703158, 15667687016159200573}
	for row, secret := range rowSecrets {
		if got := secret.hash(1); got != want[row] {
			t.Errorf("row %d: got %d, want %d", row, got, want[row])
		}
	}
}

// The custom secret of seed 0 is the default one, so that row is plain XXH3.
func TestSecretOfSeedZero(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		key := rng.Uint64()
		var input [16]byte
		binary.LittleEndian.PutUint64(input[:], key)
		if got, want := rowSecrets[0].hash(key), xxh3.Hash(input[:]); got != want {
			t.Fatalf("key %#x: got %d, want %d", key, got, want)
		}
	}
}

// Vectors of the reference. With capacity 8 the counters are halved on the way, and keys share some.
func TestEstimates(t *testing.T) {
	roundRobin := func(increments int) (keys []uint64) {
		for i := range increments {
			keys = append(keys, uint64(i%5))
		}
		return keys
	}
	oneFourSeven := slices.Concat([]uint64{1}, slices.Repeat([]uint64{8}, 4), slices.Repeat([]uint64{15}, 7),
		slices.Repeat([]uint64{22}, 10), slices.Repeat([]uint64{29}, 13))
	for _, c := range []struct {
		name     string
		capacity int
		uses     []uint64
		keys     []uint64
		want     []int
	}{
		{"1, 4, 7, 10 and 13 uses", 100, oneFourSeven, []uint64{1, 8, 15, 22, 29}, []int{1, 4, 7, 10, 13}},
		{"20 uses round robin", 8, roundRobin(20), []uint64{0, 1, 2, 3, 4}, []int{8, 4, 8, 4, 8}},
		{"60 uses round robin", 8, roundRobin(60), []uint64{0, 1, 2, 3, 4}, []int{15, 12, 15, 12, 15}},
		{"a saturated key", 100, slices.Repeat([]uint64{7}, 40), []uint64{7, 8}, []int{15, 0}},
		{"the smallest table", 1, slices.Repeat([]uint64{5}, 9), []uint64{5}, []int{9}},
		{"ten uses per slot, halved", 1, slices.Repeat([]uint64{5}, 10), []uint64{5}, []int{5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSketch(c.capacity)
			for _, key := range c.uses {
				s.increment(key)
			}
			var got []int
			for _, key := range c.keys {
				got = append(got, s.estimate(key))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// Counters 15, 3, 2, 1, 1 become 7, 1, 1, 0, 0. Four of them were odd, so the 20 counted uses become 20/2 - 4/4.
func TestHalve(t *testing.T) {
	s := &sketch{table: []uint64{0x1123f}, capacity: 2, counted: 20}
	s.halve()
	if s.table[0] != 0x00117 || s.counted != 9 {
		t.Errorf("got %#x and %d counted, want 0x117 and 9", s.table[0], s.counted)
	}
	s = &sketch{table: slices.Repeat([]uint64{0x1111111111111111}, 2), capacity: 1, counted: 10}
	s.halve()
	if s.table[0] != 0 || s.counted != 0 {
		t.Errorf("got %#x and %d counted, want 0 and 0: 10/2 - 32/4 is negative", s.table[0], s.counted)
	}
}

func TestQueueByUses(t *testing.T) {
	const id kvcache.BlockID = 5
	q := newEvictionQueues(MultiLRU, 100)
	want := []int{0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 3, 3} // after 0, 1, 2, ... uses
	for uses := range want {
		if got := q.queueOf(id); got != want[uses] {
			t.Errorf("%d uses: got queue %d, want %d", uses, got, want[uses])
		}
		q.touch(id)
	}
	for _, policy := range []Policy{Lineage, LRU} {
		q := newEvictionQueues(policy, 100)
		for range 20 {
			q.touch(id)
		}
		if got := q.queueOf(id); got != 0 {
			t.Errorf("policy %d: got queue %d, want 0", policy, got)
		}
	}
}
