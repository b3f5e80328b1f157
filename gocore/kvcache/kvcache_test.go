package kvcache

import (
	"slices"
	"testing"
)

// Vectors of the reference for tokens 0..11 in blocks of 4, and for eight 1s followed by eight 2s in blocks of 8.
func TestHashes(t *testing.T) {
	var blocks, sequence []uint64
	for i := range uint32(3) {
		blocks = append(blocks, BlockHash([]uint32{4 * i, 4*i + 1, 4*i + 2, 4*i + 3}))
		if i == 0 {
			sequence = append(sequence, blocks[0])
			continue
		}
		sequence = append(sequence, ChainHash(sequence[i-1], blocks[i]))
	}
	if want := []uint64{9143094415614847814, 12124091508212882195, 1088361764653601668}; !slices.Equal(blocks, want) {
		t.Errorf("block hashes: got %v, want %v", blocks, want)
	}
	if want := []uint64{9143094415614847814, 9510318385840434533, 16998148715716822651}; !slices.Equal(sequence, want) {
		t.Errorf("sequence hashes: got %v, want %v", sequence, want)
	}
	if got, want := ChainHash(1, 2), uint64(16740963408272063728); got != want {
		t.Errorf("ChainHash(1, 2): got %d, want %d", got, want)
	}
	ones := []uint32{1, 1, 1, 1, 1, 1, 1, 1}
	twos := []uint32{2, 2, 2, 2, 2, 2, 2, 2}
	if got, want := ChainHash(BlockHash(ones), BlockHash(twos)), uint64(16291916322933186323); got != want {
		t.Errorf("eight 1s, eight 2s: got %d, want %d", got, want)
	}
}

// TestHashVectors hashes prompts cut into blocks as a router does it; what is left over has no hash.
func TestHashVectors(t *testing.T) {
	upTo63 := make([]uint32, 64)
	for i := range upTo63 {
		upTo63[i] = uint32(i)
	}
	for _, test := range []struct {
		tokens           []uint32
		blockSize        int
		blocks, sequence []uint64
	}{
		{[]uint32{1, 2, 3, 4}, 4, []uint64{14643705804678351452}, []uint64{14643705804678351452}},
		{[]uint32{0, 1, 2, 3, 4, 5, 6, 7}, 4, []uint64{9143094415614847814, 12124091508212882195},
			[]uint64{9143094415614847814, 9510318385840434533}},
		{[]uint32{1, 2, 3, 4, 5, 6}, 2, []uint64{10773075109927122010, 2662118915037317746, 6688820035109214136},
			[]uint64{10773075109927122010, 5890102321129957602, 3801924459721183657}},
		{[]uint32{0, 0, 0, 0}, 2, []uint64{6964963774696201994, 6964963774696201994}, nil},
		{upTo63, 64, []uint64{3480597578098033343}, []uint64{3480597578098033343}},
		{[]uint32{1, 2, 3}, 4, nil, nil},
	} {
		var blocks, sequence []uint64
		for chunk := range slices.Chunk(test.tokens, test.blockSize) {
			if len(chunk) < test.blockSize {
				break
			}
			block := BlockHash(chunk)
			blocks = append(blocks, block)
			if len(sequence) == 0 {
				sequence = append(sequence, block)
			} else {
				sequence = append(sequence, ChainHash(sequence[len(sequence)-1], block))
			}
		}
		if !slices.Equal(blocks, test.blocks) || test.sequence != nil && !slices.Equal(sequence, test.sequence) {
			t.Errorf("%v in blocks of %d: got %v, %v, want %v, %v", test.tokens, test.blockSize, blocks, sequence,
				test.blocks, test.sequence)
		}
	}
}

func TestPromptBlocks(t *testing.T) {
	p := Prompt{Segments: []uint32{5, 2, 9}, PerSegment: 4}
	want := []BlockID{20, 21, 22, 23, 8, 9, 10, 11, 36, 37}
	if got := p.AppendBlocks(nil, 0, 10); !slices.Equal(got, want) {
		t.Errorf("AppendBlocks: got %v, want %v", got, want)
	}
	if got := p.AppendBlocks(nil, 3, 6); !slices.Equal(got, want[3:6]) {
		t.Errorf("AppendBlocks 3..6: got %v, want %v", got, want[3:6])
	}
	for i, id := range want {
		if p.Block(i) != id {
			t.Errorf("Block(%d): got %d, want %d", i, p.Block(i), id)
		}
	}
}

// TestRuns: the runs of a prompt are its blocks, and no run could be longer.
func TestRuns(t *testing.T) {
	for _, perSegment := range []int{1, 3, 8} {
		p := Prompt{Segments: []uint32{4, 5, 6, 2, 3, 3, 4, 9, 8}, PerSegment: perSegment}
		blocks := len(p.Segments) * perSegment
		for from := range blocks + 1 {
			for to := from; to <= blocks; to++ {
				var got []BlockID
				for first, n := range p.Runs(from, to) {
					if len(got) > 0 && got[len(got)-1]+1 == first {
						t.Errorf("%d..%d: a run begins with %d, right behind the one before", from, to, first)
					}
					for i := range n {
						got = append(got, first+BlockID(i))
					}
				}
				if want := p.AppendBlocks(nil, from, to); !slices.Equal(got, want) {
					t.Errorf("%d..%d: got %v, want %v", from, to, got, want)
				}
			}
		}
	}
}
