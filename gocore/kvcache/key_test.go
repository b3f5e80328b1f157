package kvcache

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestKey: block by block or all at once, ids are the same; private ones belong to one key.
func TestKey(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var n Namer
	owner := map[BlockID]int{}
	for request := range 200 {
		prompt := Prompt{Segments: []uint32{1, 2, 3, 7}, PerSegment: 1 + rng.IntN(3)}
		blocks := rng.IntN(20)
		shareable := rng.IntN(4*prompt.PerSegment + 1)
		k := n.Key(prompt, shareable, blocks)
		var want []BlockID
		for i := range blocks {
			id := k.Block(i)
			want = append(want, id)
			if private := id >= PrivateIDs; private != (i >= shareable) {
				t.Fatalf("request %d, block %d of which %d can be shared: id %x", request, i, shareable, id)
			}
			if i < shareable {
				continue
			}
			if other, taken := owner[id]; taken {
				t.Fatalf("requests %d and %d have the private id %x", other, request, id)
			}
			owner[id] = request
		}
		if blocks == 0 {
			continue
		}
		from := rng.IntN(blocks)
		if got := k.AppendBlocks(nil, from, blocks); !slices.Equal(got, want[from:]) {
			t.Fatalf("request %d, blocks from %d: got %x, want %x", request, from, got, want[from:])
		}
	}
}
