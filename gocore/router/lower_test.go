package router

import (
	"testing"

	"dynosim/gocore/kvcache"
)

// TestLowerTiers chooses between a worker that has a prompt on its device, one that has more of it on its host, and one
// that has nothing when all of it is in a store that they share.
func TestLowerTiers(t *testing.T) {
	prompt := kvcache.Prompt{Segments: []uint32{1}, PerSegment: 20}
	stored := func(tier kvcache.Tier, count int) []kvcache.Event {
		return []kvcache.Event{{Kind: kvcache.Stored, Tier: tier, Blocks: prompt.Blocks(0, count)}}
	}
	for _, c := range []struct {
		name                   string
		host, shared           float64
		onDevice, onHost, kept int // blocks of worker 0, worker 1, the store
		busy                   int // prompt tokens that worker 0 got before, 4 of which it has cached
		worker                 int
		load                   int64 // tokens that the worker is booked for then
	}{
		{"host weighs", 0.75, 0, 8, 12, 0, 0, 1, 80 - 36},
		{"host weighs less", 0.5, 0, 8, 12, 0, 0, 0, 80 - 32},
		{"host counts for nothing", 0, 0, 1, 20, 0, 0, 0, 80 - 4},
		{"hot worker", 0.75, 0.5, 20, 0, 20, 0, 0, 0},
		{"hot worker is busy", 0.75, 0.5, 20, 0, 20, 48, 1, 80 - 40},
		{"no credit for the store", 0.75, 0, 20, 0, 20, 48, 0, 44},
		{"store beyond the host", 0.5, 0.25, 0, 8, 20, 0, 1, 80 - 16 - 12},
	} {
		config := DefaultConfig()
		config.HostCredit, config.SharedCredit, config.TrackActiveBlocks = c.host, c.shared, false
		k := New(Options{Config: config, Workers: 2, BlockSize: 4, MaxNumBatchedTokens: 1000, LowerTiers: true})
		if c.busy > 0 {
			k.Apply(0, []kvcache.Event{{Kind: kvcache.Stored, Blocks: kvcache.BlocksOf(1000)}})
			other := kvcache.Prompt{Segments: []uint32{50}, PerSegment: 20} // begins with block 1000
			if _, err := k.Submit(Request{ID: 1, Prompt: other, PromptTokens: c.busy}, 0); err != nil {
				t.Fatal(err)
			}
			k.Apply(0, []kvcache.Event{{Kind: kvcache.Removed, Blocks: kvcache.BlocksOf(1000)}})
		}
		k.Apply(0, stored(kvcache.Device, c.onDevice))
		k.Apply(1, stored(kvcache.Host, c.onHost))
		k.Apply(1, stored(kvcache.External, c.kept))
		admitted, err := k.Submit(Request{ID: 2, Prompt: prompt, PromptTokens: 80}, 0)
		if err != nil || len(admitted) != 1 || admitted[0].Worker != c.worker {
			t.Errorf("%s: got %+v, %v, want worker %d", c.name, admitted, err, c.worker)
			continue
		}
		if got := k.Load(c.worker, 0).PrefillTokens; got != c.load {
			t.Errorf("%s: worker %d is booked for %d tokens, want %d", c.name, c.worker, got, c.load)
		}
		k.Apply(0, []kvcache.Event{{Kind: kvcache.Removed, Tier: kvcache.External, Blocks: prompt.Blocks(0, c.kept)}})
		if gone := k.lower.shared.units.used; gone != 0 {
			t.Errorf("%s: %d units of the store are left", c.name, gone)
		}
	}
}

// TestNodes: the store of the second node counts for the workers there, one of which has replaced worker 3.
func TestNodes(t *testing.T) {
	l := &lowerTiers{perNode: 2}
	l.place(9, 3)
	blocks := kvcache.BlocksOf(5)
	l.apply(9, kvcache.Event{Kind: kvcache.Stored, Tier: kvcache.External, Blocks: blocks})
	copied := l.clone()
	copied.apply(2, kvcache.Event{Kind: kvcache.Removed, Tier: kvcache.External, Blocks: blocks})
	if copied.node(9) != 1 || copied.shared.units.used != 0 || l.shared.units.used != 1 {
		t.Errorf("node %d, %d and %d units", copied.node(9), copied.shared.units.used, l.shared.units.used)
	}
}
