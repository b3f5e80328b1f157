package paged

import (
	"reflect"
	"testing"

	"dynosim/gocore/kvcache"
)

// shelf is a tier below the pool with room for two blocks, as an extension might bring it along.
type shelf struct{ blocks []kvcache.BlockID }

const shelfTier kvcache.Tier = 7

func (*shelf) Tier() kvcache.Tier { return shelfTier }

func (s *shelf) Store(id kvcache.BlockID) (lost kvcache.BlockID, any bool) {
	s.blocks = append(s.blocks, id)
	if len(s.blocks) <= 2 {
		return 0, false
	}
	lost, s.blocks = s.blocks[0], s.blocks[1:]
	return lost, true
}

func (s *shelf) Has(id kvcache.BlockID) bool {
	for _, b := range s.blocks {
		if b == id {
			return true
		}
	}
	return false
}

// TestLowerTier: evicted blocks are found below the pool until that tier loses them, and events name the tier.
func TestLowerTier(t *testing.T) {
	p := New(2, Lineage, true)
	p.Below(&shelf{})
	p.Record()
	for id := kvcache.BlockID(1); id <= 5; id++ {
		held, ok := p.Use(nil, []kvcache.BlockID{id})
		if !ok {
			t.Fatal("no room")
		}
		p.Release(held)
	}
	want := map[kvcache.BlockID]Found{
		1: {}, // lost by the shelf
		2: {Cached: true, Tier: shelfTier},
		3: {Cached: true, Tier: shelfTier},
		4: {Cached: true, Tier: kvcache.Device},
	}
	for id, found := range want {
		if got := p.Lookup(id); got != found {
			t.Errorf("block %d: got %+v, want %+v", id, got, found)
		}
	}
	var last []kvcache.Event
	for _, e := range p.TakeEvents() {
		last = append(last, e.Event)
	}
	wantLast := []kvcache.Event{
		{Kind: kvcache.Stored, Blocks: []kvcache.BlockID{5}},
		{Kind: kvcache.Removed, Blocks: []kvcache.BlockID{3}},
		{Kind: kvcache.Stored, Tier: shelfTier, Blocks: []kvcache.BlockID{3}},
		{Kind: kvcache.Removed, Tier: shelfTier, Blocks: []kvcache.BlockID{1}},
	}
	if last = last[len(last)-4:]; !reflect.DeepEqual(last, wantLast) {
		t.Errorf("got  %+v\nwant %+v", last, wantLast)
	}
}
