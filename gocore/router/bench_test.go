package router

import (
	"fmt"
	"testing"

	"dynosim/gocore/kvcache"
)

// benchPrompt returns blocks consecutive blocks, from a number on.
func benchPrompt(from uint32, blocks int) kvcache.Prompt {
	p := kvcache.Prompt{PerSegment: 1}
	for i := range blocks {
		p.Segments = append(p.Segments, from+uint32(i))
	}
	return p
}

// A prompt of 128 blocks is 8192 tokens in blocks of 64. Its first 16 are a system prompt that every worker has cached,
// the next 80 a conversation that one worker has, and the rest is new.
const (
	benchBlocks       = 128
	benchSystem       = 16
	benchConversation = 80
	benchPerSegment   = 8
)

// warmRouter has workers that cache cachedBlocks blocks each, in conversations of their own.
func warmRouter(workers, cachedBlocks int) *KV {
	k := New(Options{
		Config: DefaultConfig(), Workers: workers, BlockSize: 64, MaxNumBatchedTokens: 8192, Rand: naiveRand(0),
	})
	system := kvcache.Event{Blocks: kvcache.Blocks{{First: 0, Number: benchSystem}}}
	next := kvcache.BlockID(benchSystem)
	for cached := 0; cached < cachedBlocks; cached += benchConversation {
		for worker := range workers {
			event := kvcache.Event{Blocks: kvcache.Blocks{{First: next, Number: benchConversation}}}
			k.Apply(worker, []kvcache.Event{system, event})
			next += benchConversation
		}
	}
	return k
}

// conversation returns the prompt that goes on with conversation n.
func conversation(p kvcache.Prompt, n int) kvcache.Prompt {
	p.PerSegment = benchPerSegment
	p.Segments = p.Segments[:0]
	for s := range uint32(benchBlocks / benchPerSegment) {
		if s >= benchSystem/benchPerSegment {
			s += uint32(n * benchConversation / benchPerSegment)
		}
		p.Segments = append(p.Segments, s)
	}
	for i := (benchSystem + benchConversation) / benchPerSegment; i < len(p.Segments); i++ {
		p.Segments[i] = 1<<29 + uint32(n*4+i)
	}
	return p
}

// BenchmarkDecision measures the whole life of a request: submit, first token, end. Its cost must not depend on what is
// cached.
func BenchmarkDecision(b *testing.B) {
	for _, workers := range []int{4, 64, 256} {
		for _, cached := range []int{1_000, 64_000, 1_000_000} {
			if workers == 256 && cached == 1_000_000 && testing.Short() {
				continue // fills half a gigabyte
			}
			b.Run(fmt.Sprintf("workers=%d/cached=%d", workers, cached), func(b *testing.B) {
				k := warmRouter(workers, cached)
				conversations := workers * ((cached + benchConversation - 1) / benchConversation)
				var active [64]kvcache.Prompt // about as many requests are active at a time
				id, n := int32(0), 0
				b.ReportAllocs()
				for b.Loop() {
					slot := int(id) % len(active)
					n = (n + 7919) % conversations
					if old := id - int32(len(active)); old >= 0 {
						mustAdmit(b, k.Free)(old, float64(id))
					}
					active[slot] = conversation(active[slot], n)
					if _, err := k.Submit(Request{ID: id, Prompt: active[slot], PromptTokens: 64*benchBlocks + 1},
						float64(id)); err != nil {
						b.Fatal(err)
					}
					mustAdmit(b, k.PrefillCompleted)(id, float64(id))
					id++
				}
			})
		}
	}
}

func mustAdmit(b *testing.B, call func(int32, float64) ([]Admission, error)) func(int32, float64) {
	return func(id int32, nowMs float64) {
		if _, err := call(id, nowMs); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkApply stores a conversation on a worker and removes the oldest one, leaves first, as an engine with a full
// cache does.
func BenchmarkApply(b *testing.B) {
	for _, cached := range []int{1_000, 64_000, 1_000_000} {
		b.Run(fmt.Sprintf("workers=64/cached=%d", cached), func(b *testing.B) {
			const workers = 64
			k := warmRouter(workers, cached)
			perWorker := (cached + benchConversation - 1) / benchConversation
			stored := kvcache.Event{Blocks: make(kvcache.Blocks, 1)}
			removed := kvcache.Event{Kind: kvcache.Removed, Blocks: make(kvcache.Blocks, benchConversation)}
			events := []kvcache.Event{stored, removed}
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				oldest := kvcache.BlockID(benchSystem + n*benchConversation)
				newest := oldest + kvcache.BlockID(workers*perWorker*benchConversation)
				stored.Blocks[0] = kvcache.Run{First: newest, Number: benchConversation}
				for i := range removed.Blocks {
					removed.Blocks[i] = kvcache.Run{First: oldest + kvcache.BlockID(benchConversation-1-i), Number: 1}
				}
				k.Apply(n%workers, events)
				n++
			}
			if k.UnknownRemovals() != 0 {
				b.Fatal("removed what was not there")
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(2*benchConversation), "ns/block")
		})
	}
}

// TestSteadyState makes sure that a router at work does not allocate.
func TestSteadyState(t *testing.T) {
	k := warmRouter(8, 10_000)
	blocks := make(kvcache.Blocks, 1)
	events := []kvcache.Event{{Blocks: blocks}, {Kind: kvcache.Removed, Blocks: blocks}}
	var prompt kvcache.Prompt
	n := int32(0)
	work := func() {
		prompt = conversation(prompt, int(n)%1000)
		if _, err := k.Submit(Request{ID: n, Prompt: prompt, PromptTokens: 64*benchBlocks + 1},
			float64(n)); err != nil {
			t.Fatal(err)
		}
		blocks[0] = kvcache.Run{First: 1<<40 + kvcache.BlockID(n)*benchConversation, Number: benchConversation}
		k.Apply(int(n)%8, events)
		if _, err := k.PrefillCompleted(n, float64(n)); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Free(n, float64(n)); err != nil {
			t.Fatal(err)
		}
		n++
	}
	for range 1000 {
		work()
	}
	if allocs := testing.AllocsPerRun(1000, work); allocs != 0 {
		t.Errorf("%v allocations per request", allocs)
	}
}
