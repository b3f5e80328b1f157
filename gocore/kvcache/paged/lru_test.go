package paged

import (
	"math/rand/v2"
	"slices"
	"testing"

	"dynosim/gocore/kvcache"
)

// plainLRU is LRUPool as a list of blocks, in the order of the free queue, and nothing else.
type plainLRU struct {
	blank int           // blocks without content in the free queue
	free  []*plainBlock // registered blocks in the free queue
	all   []*plainBlock // registered blocks, in order of registration
}

type plainBlock struct {
	id   kvcache.BlockID
	refs int
	slot Slot // in the pool that is tested
}

func (p *plainLRU) find(id kvcache.BlockID) *plainBlock {
	for _, b := range p.all {
		if b.id == id {
			return b
		}
	}
	return nil
}

func (p *plainLRU) take(count int) bool {
	if count > p.blank+len(p.free) {
		return false
	}
	for range count {
		if p.blank > 0 {
			p.blank--
			continue
		}
		victim := p.free[0]
		p.free = p.free[1:]
		p.all = slices.DeleteFunc(p.all, func(b *plainBlock) bool { return b == victim })
	}
	return true
}

func (p *plainLRU) release(held []*plainBlock, unregistered int) {
	p.blank += unregistered
	for _, b := range slices.Backward(held) {
		if b.refs--; b.refs == 0 {
			p.free = append(p.free, b)
		}
	}
}

// TestLRUPool plays random requests on both pools: each holds the longest prefix that it finds, takes some blocks,
// registers some of them, and lets go of all.
func TestLRUPool(t *testing.T) {
	type holder struct {
		slots        []Slot
		blocks       []*plainBlock
		unregistered int
		family       kvcache.BlockID
	}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		capacity := 1 + rng.IntN(20)
		pool, plain := NewLRU(capacity), &plainLRU{blank: capacity}
		pool.Record()
		known := map[kvcache.BlockID]bool{}
		var holders []*holder
		for step := range 200 {
			switch i := rng.IntN(len(holders) + 1); {
			case i == len(holders): // a new request
				h := &holder{family: kvcache.BlockID(100 * rng.IntN(3))}
				for {
					b := plain.find(h.family + kvcache.BlockID(len(h.blocks)))
					slot, inUse, ok := pool.Find(h.family + kvcache.BlockID(len(h.blocks)))
					if ok != (b != nil) || ok && (slot != b.slot || inUse != (b.refs > 0)) {
						t.Fatalf("seed %d, step %d: found %v %v %v, want %+v", seed, step, slot, inUse, ok, b)
					}
					if !ok || rng.IntN(4) == 0 {
						break
					}
					pool.Hold(slot)
					if b.refs++; b.refs == 1 {
						plain.free = slices.DeleteFunc(plain.free, func(q *plainBlock) bool { return q == b })
					}
					h.slots, h.blocks = append(h.slots, slot), append(h.blocks, b)
				}
				holders = append(holders, h)
			case rng.IntN(4) == 0: // one leaves
				h := holders[i]
				holders = slices.Delete(holders, i, i+1)
				pool.Release(h.slots, h.unregistered)
				plain.release(h.blocks, h.unregistered)
			default: // one grows
				h, count := holders[i], rng.IntN(4)
				ok := pool.Take(count)
				if want := plain.take(count); ok != want {
					t.Fatalf("seed %d, step %d: Take(%d) = %v", seed, step, count, ok)
				}
				if !ok {
					continue
				}
				h.unregistered += count
				var ids []kvcache.BlockID
				for range rng.IntN(h.unregistered + 1) {
					ids = append(ids, h.family+kvcache.BlockID(len(h.blocks)+len(ids)))
				}
				h.unregistered -= len(ids)
				h.slots = pool.Register(h.slots, ids)
				for _, id := range ids {
					b := &plainBlock{id: id, refs: 1, slot: h.slots[len(h.blocks)]}
					h.blocks, plain.all = append(h.blocks, b), append(plain.all, b)
				}
			}
			follow(t, known, pool.TakeEvents())
			checkLRU(t, pool, plain, capacity, known)
		}
	}
}

// follow keeps what an observer of the events takes to be cached.
func follow(t *testing.T, known map[kvcache.BlockID]bool, events []Event) {
	t.Helper()
	for _, e := range events {
		for id := range e.Blocks.All() {
			if stored := e.Kind == kvcache.Stored; known[id] == stored {
				t.Fatalf("%v announced twice: %v", id, e)
			}
			known[id] = e.Kind == kvcache.Stored
		}
	}
}

func checkLRU(t *testing.T, pool *LRUPool, plain *plainLRU, capacity int, known map[kvcache.BlockID]bool) {
	t.Helper()
	if got, want := pool.Free(), plain.blank+len(plain.free); got != want || pool.InUse() != capacity-want {
		t.Fatalf("%d free, %d in use, want %d free of %d", got, pool.InUse(), want, capacity)
	}
	for _, b := range plain.all {
		if !known[b.id] {
			t.Fatalf("block %v is registered and was not announced", b.id)
		}
	}
	for id, cached := range known {
		if cached && plain.find(id) == nil {
			t.Fatalf("block %v is announced and not registered", id)
		}
	}
}
