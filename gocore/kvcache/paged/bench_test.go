package paged

import (
	"fmt"
	"testing"

	"dynosim/gocore/kvcache"
)

// A prompt of 128 blocks is 8192 tokens in blocks of 64; 16384 slots are the engine's default pool.
const (
	benchBlocks   = 128
	benchCapacity = 16384
)

func consecutive(blocks []kvcache.BlockID, from kvcache.BlockID) {
	for i := range blocks {
		blocks[i] = from + kvcache.BlockID(i)
	}
}

// fullPool returns a pool in which every slot is inactive; the youngest blocks are 0..benchBlocks-1.
func fullPool() *Pool {
	p := New(benchCapacity, Lineage, true)
	blocks := make([]kvcache.BlockID, benchBlocks)
	for from := benchCapacity - benchBlocks; from >= 0; from -= benchBlocks {
		consecutive(blocks, kvcache.BlockID(from))
		held, _ := p.Use(nil, blocks)
		p.Release(held)
	}
	return p
}

func BenchmarkUseAllHits(b *testing.B) {
	p := fullPool()
	blocks := make([]kvcache.BlockID, benchBlocks)
	consecutive(blocks, 0)
	var held []Slot
	b.ReportAllocs()
	for b.Loop() {
		held, _ = p.Use(held[:0], blocks)
		p.Release(held)
	}
	reportPerBlock(b)
}

func BenchmarkUseAllFresh(b *testing.B) {
	for _, record := range []bool{false, true} {
		b.Run(fmt.Sprintf("recording=%t", record), func(b *testing.B) {
			p := fullPool()
			if record {
				p.Record()
			}
			blocks := make([]kvcache.BlockID, benchBlocks)
			next := kvcache.BlockID(benchCapacity)
			var held []Slot
			b.ReportAllocs()
			for b.Loop() {
				consecutive(blocks, next)
				next += benchBlocks
				held, _ = p.Use(held[:0], blocks) // evicts benchBlocks
				p.Release(held)
				p.TakeEvents()
			}
			reportPerBlock(b)
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	p := fullPool()
	blocks := make([]kvcache.BlockID, benchBlocks)
	consecutive(blocks, 0)
	b.ReportAllocs()
	for b.Loop() {
		for _, id := range blocks {
			if !p.Lookup(id).Cached {
				b.Fatal("not cached")
			}
		}
	}
	reportPerBlock(b)
}

// What block_size generated tokens cost: a partial block (which evicts), made full, and released.
func BenchmarkGenerateBlock(b *testing.B) {
	p := fullPool()
	next := kvcache.PrivateIDs
	var held []Slot
	b.ReportAllocs()
	for b.Loop() {
		held, _ = p.UsePartial(held[:0])
		p.Promote(held, next)
		p.Release(held)
		next++
	}
}

func reportPerBlock(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchBlocks, "ns/block")
}
