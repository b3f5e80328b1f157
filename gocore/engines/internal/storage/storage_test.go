package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/kvcache"
)

func keyOf(first uint32, blocks int) *kvcache.Key {
	prompt := kvcache.Prompt{PerSegment: 1}
	for i := range blocks {
		prompt.Segments = append(prompt.Segments, first+uint32(i))
	}
	return &kvcache.Key{Prompt: prompt, Shareable: blocks}
}

// TestWriteAndRead: a block is there once its write has ended, 1 + 4 x 2 ms later, and a read that is stopped leaves
// what has come.
func TestWriteAndRead(t *testing.T) {
	commons := &engine.Commons{}
	args := engineargs.StorageArgs{Blocks: 10, ReadMsPerBlock: 3, WriteMsPerBlock: 2, LatencyMs: 1}
	writer, reader := ClientOf(commons, args), ClientOf(commons, args)
	writer.Record()
	key := keyOf(100, 4)
	writer.Write(0, key, 0, 4)
	for _, c := range []struct {
		ms   float64
		want int
	}{{0, 0}, {8.9, 0}, {9, 4}} {
		reader.Advance(c.ms)
		if got := reader.Find(key, 0, 4); got != c.want {
			t.Errorf("at %v ms there are %d blocks, want %d", c.ms, got, c.want)
		}
	}
	events := reader.TakeEvents()
	if len(events) != 1 || events[0].Tier != kvcache.Disk || events[0].Blocks.Len() != 4 {
		t.Errorf("events %+v", events)
	}
	r := reader.Read(9, key, 1, 4)
	if endMs := r.EndMs(); endMs != 19 {
		t.Errorf("the read ends at %v ms, want 9 + 1 + 3 x 3", endMs)
	}
	reader.Advance(16.5) // 2.17 blocks
	if r.Over() || r.Arrived() != 2 {
		t.Errorf("over %v, %d blocks", r.Over(), r.Arrived())
	}
	r.Stop()
	next := reader.Read(16.5, key, 0, 1)
	if !r.Over() || r.Arrived() != 2 || next.EndMs() != 20.5 {
		t.Errorf("over %v, %d blocks; the next read ends at %v ms", r.Over(), r.Arrived(), next.EndMs())
	}
	if use := reader.TakeUse(); use.Loaded != 2 || use.LoadMs != 7.5 {
		t.Errorf("%+v", use)
	}
	if copies := writer.TakeCopies(); fmt.Sprint(copies) != "[{false true 0 9 4 0}]" {
		t.Errorf("copies %v", copies)
	}
}

// TestBandwidth: two workers that read at the same time share what the storage gives.
func TestBandwidth(t *testing.T) {
	commons := &engine.Commons{}
	args := engineargs.StorageArgs{Blocks: 10, ReadMsPerBlock: 1, SharedMsPerBlock: 1}
	a, b := ClientOf(commons, args), ClientOf(commons, args)
	key := keyOf(1, 4)
	a.Write(0, key, 0, 4)
	a.Advance(10)
	first, second := a.Read(10, key, 0, 4), b.Read(10, key, 0, 2)
	a.Advance(14)
	if !second.Over() || first.EndMs() != 16 {
		t.Errorf("the second is over: %v; the first ends at %v ms, want 10 + 2 x 2 + 2", second.Over(), first.EndMs())
	}
}

// TestOldestLeaves: a read makes a block young, what is being written stays, and what has no room is not written.
func TestOldestLeaves(t *testing.T) {
	c := ClientOf(&engine.Commons{}, engineargs.StorageArgs{Blocks: 3, WriteMsPerBlock: 1})
	one, other := keyOf(1, 3), keyOf(50, 5)
	c.Write(0, one, 0, 3)
	c.Write(0, other, 0, 1)
	if c.Resident() != 3 {
		t.Errorf("%d blocks", c.Resident())
	}
	c.Advance(3)
	c.Read(3, one, 0, 1)
	c.Write(3, other, 0, 1)
	if got := c.Find(one, 0, 3); got != 1 {
		t.Errorf("%d of the first prompt are left, want its first one", got)
	}
	c.Write(4, other, 1, 5)
	if use := c.TakeUse(); use.Stored != 3+3 || use.Evicted != 3 || c.Resident() != 3 {
		t.Errorf("%+v, %d there", use, c.Resident())
	}
}

// TestBooks: after random transfers of several workers all that was written has left or is there, and is never more
// than the room.
func TestBooks(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		commons := &engine.Commons{}
		args := engineargs.StorageArgs{
			Blocks: 1 + rng.IntN(30), ReadMsPerBlock: float64(rng.IntN(3)), WriteMsPerBlock: float64(rng.IntN(3)),
			LatencyMs: float64(rng.IntN(2)), SharedMsPerBlock: float64(rng.IntN(2)),
		}
		clients := []*Client{ClientOf(commons, args), ClientOf(commons, args), ClientOf(commons, args)}
		var sum engine.Stored
		var reads []*Read
		asked, atMs := 0, 0.0
		for range 60 {
			c, key := clients[rng.IntN(3)], keyOf(uint32(20*rng.IntN(4)), 20)
			from := rng.IntN(20)
			switch rng.IntN(4) {
			case 0:
				c.Write(atMs, key, from, 20)
			case 1:
				if n := c.Find(key, from, 20); n > 0 {
					reads = append(reads, c.Read(atMs, key, from, from+n))
				}
			case 2:
				if len(reads) > 0 {
					reads[rng.IntN(len(reads))].Stop()
				}
			}
			atMs += 3 * rng.Float64()
			c.Advance(atMs)
		}
		clients[0].Advance(1e9)
		for _, r := range reads {
			asked += r.Arrived()
			if !r.Over() {
				t.Fatalf("seed %d: a read never ends", seed)
			}
		}
		copied := engine.Stored{}
		for _, c := range clients {
			sum.Add(c.TakeUse())
			for _, one := range c.TakeCopies() {
				if one.Back {
					copied.Loaded += one.Blocks
				} else {
					copied.Stored += one.Blocks
				}
			}
		}
		there := clients[0].Resident()
		if sum.Stored != sum.Evicted+there || there > args.Blocks || sum.Loaded != asked ||
			copied.Stored != sum.Stored || copied.Loaded != asked {
			t.Fatalf("seed %d: %+v, %d there of %d, %d read, copies %+v", seed, sum, there, args.Blocks, asked, copied)
		}
	}
}
