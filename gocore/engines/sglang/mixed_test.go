package sglang

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
)

// TestChunkWithoutRoom: requests that decode in mixed batches take the room that the rest of a prompt needs, a few
// tokens of which are computed in each batch. It waits then. Where a last request decodes that lacks room as well, the
// run says that it is at a dead end.
func TestChunkWithoutRoom(t *testing.T) {
	ends := 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 37))
		args := drawArgs(rng)
		args.SGLang.MixedChunk, args.SGLang.ChunkedPrefillSize = true, args.BlockSize*(1+args.MaxNumSeqs/args.BlockSize)
		if err := enginetest.Draw(rng, args).Run(New(args, engine.Setup{}), func(*engine.Pass) {}); err == nil {
			ends++
		}
	}
	if ends < 1900 {
		t.Errorf("only %d of 2000 runs end", ends)
	}
}
