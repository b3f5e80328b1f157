package router

import (
	"testing"

	"dynosim/gocore/kvcache"
)

// TestOtherTiers: blocks that a worker has in another tier than the device are no prefix hit.
func TestOtherTiers(t *testing.T) {
	k := New(Options{Config: DefaultConfig(), Workers: 2, BlockSize: 4, MaxNumBatchedTokens: 100})
	prompt := kvcache.Prompt{Segments: []uint32{1}, PerSegment: 2}
	blocks := prompt.Blocks(0, 2)
	k.Apply(0, []kvcache.Event{{Kind: kvcache.Stored, Tier: kvcache.Device + 1, Blocks: blocks}})
	k.Apply(1, []kvcache.Event{{Kind: kvcache.Stored, Blocks: blocks},
		{Kind: kvcache.Removed, Tier: kvcache.Device + 1, Blocks: blocks}})
	admitted, err := k.Submit(Request{Prompt: prompt, PromptTokens: 8}, 0)
	if err != nil || len(admitted) != 1 || admitted[0].Worker != 1 || admitted[0].OverlapBlocks != 2 {
		t.Errorf("got %+v, %v, want worker 1 with 2 blocks", admitted, err)
	}
}
