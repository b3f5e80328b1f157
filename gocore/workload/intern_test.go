package workload

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"dynosim/gocore/kvcache"
)

// tokens expands a prompt as the rule says: every block id stands for traceBlock copies of its low 32 bits.
func tokens(hashIDs []uint64, inputTokens, traceBlock int) []uint32 {
	var all []uint32
	for _, id := range hashIDs {
		for range traceBlock {
			all = append(all, uint32(id))
		}
	}
	return all[:inputTokens]
}

// TestBlockIdentity interns random prompts and compares with a model that writes out all tokens: two full engine blocks
// have one identity exactly when the tokens of both prompts agree from the start to the end of the block.
func TestBlockIdentity(t *testing.T) {
	// The engine block divides the trace block, the other way round, equal, and neither.
	sizes := [][2]int{{8, 4}, {4, 8}, {4, 4}, {6, 4}, {3, 8}, {12, 8}, {1, 4}, {4, 1}, {5, 16}, {16, 2}}
	for _, size := range sizes {
		traceBlock, engineBlock := size[0], size[1]
		t.Run(fmt.Sprintf("trace %d engine %d", traceBlock, engineBlock), func(t *testing.T) {
			for seed := range uint64(40) {
				checkIdentity(t, rand.New(rand.NewPCG(seed, 0)), traceBlock, engineBlock)
			}
		})
	}
}

func checkIdentity(t *testing.T, rng *rand.Rand, traceBlock, engineBlock int) {
	t.Helper()
	blocks := newInterner(traceBlock, engineBlock)
	ids := map[string]kvcache.BlockID{} // tokens up to the end of a block -> its identity
	texts := map[kvcache.BlockID]string{}
	for range 30 {
		hashIDs := make([]uint64, 1+rng.IntN(8))
		for i := range hashIDs {
			hashIDs[i] = rng.Uint64N(3) | rng.Uint64N(2)<<32 // few tokens, and ids that differ only above them
		}
		input := 1 + rng.IntN(len(hashIDs)*traceBlock)
		prompt := blocks.prompt(noParent, hashIDs, input)
		text := tokens(hashIDs, input, traceBlock)
		one := prompt.AppendBlocks(nil, 0, input/engineBlock)
		for i, id := range one {
			key := fmt.Sprint(text[:(i+1)*engineBlock])
			if known, ok := ids[key]; ok && known != id {
				t.Fatalf("ids %v, %d tokens: block %d is %d, the same prefix was %d", hashIDs, input, i, id, known)
			}
			if other, ok := texts[id]; ok && other != key {
				t.Fatalf("ids %v, %d tokens: block %d is %d, as is another prefix", hashIDs, input, i, id)
			}
			if id != prompt.Block(i) || id >= kvcache.PrivateIDs {
				t.Fatalf("block %d is %d, listed as %d", i, prompt.Block(i), id)
			}
			ids[key], texts[id] = id, key
		}
	}
}

// TestBlockIdentityIsDense shows what keeps tables small: numbers are given without gaps, one per distinct prefix.
func TestBlockIdentityIsDense(t *testing.T) {
	blocks := newInterner(8, 4)
	var got [][]uint32
	for _, hashIDs := range [][]uint64{{5, 6}, {5, 7}, {6, 5}, {5, 6, 5}, {5 + 1<<32, 6}} {
		got = append(got, blocks.prompt(noParent, hashIDs, 8*len(hashIDs)).Segments)
	}
	want := [][]uint32{{0, 1}, {0, 2}, {3, 4}, {0, 1, 5}, {0, 1}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestTooManyBlocks pretends that a trace has used up the numbers.
func TestTooManyBlocks(t *testing.T) {
	n := newInterner(8, 4)
	n.chunks = 1 << 31
	if !n.overflows(true) || n.overflows(false) {
		t.Error("2^31 chunks of two blocks fit as chunks only")
	}
	if n.chunks = 1 << 32; !n.overflows(false) {
		t.Error("2^32 chunks do not fit")
	}
	const want = "t: the prompts have more than 4294967295 distinct blocks of 4 tokens, the limit"
	if got := n.tooMany(&Workload{File: "t"}).Error(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
