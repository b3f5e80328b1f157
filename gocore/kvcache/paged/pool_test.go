package paged

import (
	"math"
	"slices"
	"testing"

	"dynosim/gocore/kvcache"
)

func TestReleaseTwicePanics(t *testing.T) {
	for name, path := range map[string]string{"full": "A", "partial": "."} {
		t.Run(name, func(t *testing.T) {
			p := New(4, Lineage, true)
			held, _ := p.Use(nil, blocksAlong(path, true))
			p.Release(held)
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			p.Release(held)
		})
	}
}

// Slots come into being when they are first taken, so a capacity that is never filled costs nothing.
func TestHugeCapacity(t *testing.T) {
	p := New(math.MaxInt, Lineage, true)
	held, ok := p.Use(nil, blocksAlong("ABC.", true))
	if !ok || p.Active() != 4 || p.Free() != math.MaxInt-4 {
		t.Errorf("got %t, %d active, %d free", ok, p.Active(), p.Free())
	}
	p.Release(held)
	if err := p.check(); err != nil {
		t.Error(err)
	}
}

// An event has its own copy of the blocks that were used, and a clone of it outlives later operations.
func TestEventsKeepTheirBlocks(t *testing.T) {
	p := New(2, Lineage, true)
	p.Record()
	blocks := blocksAlong("AB", true)
	held, _ := p.Use(nil, blocks)
	stored := p.TakeEvents()[0].Event.Clone()
	blocks[0] = pathID("Z")
	p.Release(held)
	held, _ = p.Use(nil, blocksAlong("XY", true))
	removed := p.TakeEvents()[1].Event.Clone()
	p.Release(held)
	p.Use(nil, blocksAlong("PQ", true))
	if got := pathsOf(slices.Collect(stored.Blocks.All())); got != "A AB" {
		t.Errorf("stored: got %s, want A AB", got)
	}
	if got := pathsOf(slices.Collect(removed.Blocks.All())); got != "AB A" {
		t.Errorf("removed: got %s, want AB A", got)
	}
	if got := len(p.TakeEvents()); got != 2 {
		t.Errorf("events of the last use: got %d, want 2", got)
	}
	if got := len(p.TakeEvents()); got != 0 {
		t.Errorf("events taken twice: got %d", got)
	}
}

// The pool behaves the same whatever numbers the blocks have.
func TestRenamedBlocks(t *testing.T) {
	order := func(rename func(kvcache.BlockID) kvcache.BlockID) (order []kvcache.BlockID) {
		p := New(6, Lineage, true)
		p.Record()
		for _, path := range []string{"ABC", "ABD", "XYZ", "AB", "XQR", "ABDE"} {
			blocks := blocksAlong(path, true)
			for i := range blocks {
				blocks[i] = rename(blocks[i])
			}
			held, _ := p.Use(nil, blocks)
			p.Release(held)
		}
		for _, e := range p.TakeEvents() {
			if e.Kind == kvcache.Removed {
				order = slices.AppendSeq(order, e.Blocks.All())
			}
		}
		return append(order, p.evictionOrder()...)
	}
	plain := order(func(id kvcache.BlockID) kvcache.BlockID { return id })
	renamed := order(func(id kvcache.BlockID) kvcache.BlockID { return 1<<40 - 7*id })
	if len(plain) != len(renamed) {
		t.Fatalf("got %d blocks, want %d", len(renamed), len(plain))
	}
	for i, id := range plain {
		if renamed[i] != 1<<40-7*id {
			t.Errorf("place %d: got %d, want the renamed %s", i, renamed[i], pathOf(id))
		}
	}
}

// TestSetAside: slots are set aside all at once or not at all, are active until they are used or given back, and evict.
func TestSetAside(t *testing.T) {
	p := New(4, Lineage, true)
	p.Record()
	cached, _ := p.Use(nil, blocksAlong("AB", true))
	p.Release(cached)
	held, _ := p.Use(nil, blocksAlong("X.", true))
	p.TakeEvents()
	if p.SetAside(3) || p.Active() != 2 || len(p.TakeEvents()) > 0 {
		t.Fatalf("3 slots of 2: %d are active", p.Active())
	}
	if !p.SetAside(0) || !p.SetAside(2) || p.Aside() != 2 || p.Active() != 4 || p.Available() != 0 {
		t.Fatalf("2 slots: %d aside, %d active, %d available", p.Aside(), p.Active(), p.Available())
	}
	if events := p.TakeEvents(); len(events) != 1 || pathsOf(slices.Collect(events[0].Blocks.All())) != "AB A" {
		t.Errorf("got events %v, want the removal of AB and A", events)
	}
	p.Promote(held, pathID("XY"))
	held, ok := p.UsePartial(held)
	if !ok || len(held) != 3 || p.Aside() != 1 || p.Active() != 4 {
		t.Errorf("one is used: %t, %d held, %d aside, %d active", ok, len(held), p.Aside(), p.Active())
	}
	p.GiveBack()
	if p.Aside() != 0 || p.Active() != 3 || p.Free() != 1 {
		t.Errorf("the other is given back: %d aside, %d active, %d free", p.Aside(), p.Active(), p.Free())
	}
	p.Release(held)
	if err := p.check(); err != nil || p.Active() != 0 {
		t.Errorf("%v, %d active", err, p.Active())
	}
}
