package kvcache

import (
	"slices"
	"testing"
)

// TestBlocks makes lists of blocks in all ways, and reads them.
func TestBlocks(t *testing.T) {
	ids := []BlockID{7, 8, 9, 3, 2, 1, 2, 2, 3}
	want := Blocks{{7, 3}, {3, 1}, {2, 1}, {1, 2}, {2, 2}}
	var grown Blocks
	for _, id := range ids {
		grown = grown.Append(id, 1)
	}
	room := AppendRuns(Blocks{{6, 1}}, ids)
	for name, got := range map[string]Blocks{"BlocksOf": BlocksOf(ids...), "Append": grown, "AppendRuns": room[1:]} {
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if got := slices.Collect(want.All()); !slices.Equal(got, ids) || want.Len() != len(ids) || want.Last() != 3 {
		t.Errorf("got %v, %d blocks, the last one is %d", got, want.Len(), want.Last())
	}
	for id := range want.All() { // the loop ends at its break
		if id != 7 {
			t.Fatalf("block %d after the first one", id)
		}
		break
	}
	p := Prompt{Segments: []uint32{4, 5, 1}, PerSegment: 2}
	if got := p.Blocks(1, 5); !slices.Equal(got, Blocks{{9, 3}, {2, 1}}) {
		t.Errorf("blocks of a prompt: got %v", got)
	}
}
