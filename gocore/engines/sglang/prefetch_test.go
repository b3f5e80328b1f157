package sglang

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache"
)

// TestBooksOfStorage runs random workloads with storage behind the host. What has come to the host has left it or is
// there, but for copies to come; what was written to the storage has left it or is there.
func TestBooksOfStorage(t *testing.T) {
	moved, fetched := engine.Copied{}, 0
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 37))
		args := drawArgs(rng)
		args.HostCache = engineargs.HostCacheArgs{
			Blocks: 1 + rng.IntN(20), WritePolicy: rng.IntN(3), LoadBackThreshold: rng.IntN(6),
			LoadMsPerBlock: rng.Float64(), StoreMsPerBlock: rng.Float64(),
		}
		args.HostCache.Storage = enginetest.DrawStorage(rng, 6)
		s := New(args, engine.Setup{Explain: true})
		client := s.prefetches.client
		var told engine.Copied
		err := enginetest.Draw(rng, args).Run(s, func(p *engine.Pass) {
			if p.Parts == nil { // of a coast
				return
			}
			told.Add(p.Copied)
			use := s.pool.HostUse()
			if come := use.Stored + use.Fetched + use.Fetching; come > use.Evicted+use.Resident ||
				!s.pool.Copying() && come != use.Evicted+use.Resident || use.Resident > args.HostCache.Blocks {
				t.Fatalf("seed %d: %+v in a host of %d, copying %v", seed, use, args.HostCache.Blocks, s.pool.Copying())
			}
			if client.Resident() > args.HostCache.Storage.Blocks {
				t.Fatalf("seed %d: %d pages in the storage", seed, client.Resident())
			}
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		told.Storage.Add(client.TakeUse())
		if kept := told.Storage.Evicted + client.Resident(); told.Storage.Stored != kept {
			t.Fatalf("seed %d: written %d, gone or there %d", seed, told.Storage.Stored, kept)
		}
		use := s.pool.HostUse()
		if use.Fetching != 0 || len(s.prefetches.under) != 0 || use.Fetched > told.Storage.Loaded {
			under := len(s.prefetches.under)
			t.Fatalf("seed %d: at the end %+v, %d on their way, read %d", seed, use, under, told.Storage.Loaded)
		}
		fetched += use.Fetched
		moved.Add(told)
	}
	if moved.Storage.Stored == 0 || moved.Storage.Loaded == 0 || moved.Storage.Evicted == 0 || fetched == 0 {
		t.Errorf("nothing happened: %+v, %d fetched", moved, fetched)
	}
}

// TestPolicies has a second worker read what the first one has written, 100 pages in 1 ms each: best_effort
// starts with the tokens that have come, wait_complete with all, timeout after 20 ms and 10 more for 1,600 tokens.
func TestPolicies(t *testing.T) {
	prompt := kvcache.Prompt{PerSegment: 1}
	for i := range 101 {
		prompt.Segments = append(prompt.Segments, uint32(i))
	}
	request := engine.Request{Prompt: prompt, PromptTokens: 101 * 16, OutputTokens: 1}
	for policy, want := range []string{"0 1600", "1600 1700", "480 1630"} {
		args := engineargs.Default()
		args.Scheduler, args.BlockSize, args.NumGPUBlocks = engineargs.SGLangOwn, 16, 200
		args.SGLang = engineargs.SGLangArgs{
			MaxPrefillTokens: 16384, ChunkedPrefillSize: 8192, ClipMaxNewTokens: 4096, Conservativeness: 1,
			RecvInterval: 1,
		}
		args.HostCache = engineargs.HostCacheArgs{Blocks: 300, LoadBackThreshold: 10, Storage: engineargs.StorageArgs{
			Blocks: 1000, ReadMsPerBlock: 1, Threshold: 256, Policy: policy,
			TimeoutBase: 0.02, TimeoutPerKiToken: 0.0064, TimeoutMax: 1,
		}}
		commons := &engine.Commons{}
		one, two := New(args, engine.Setup{Commons: commons}), New(args, engine.Setup{Commons: commons})
		one.Add(request)
		one.RunPass(0)
		two.Add(request)
		if got := enginetest.LastAdmission(two, 1600); got != want {
			t.Errorf("policy %d: %s tokens found and admitted at, want %s", policy, got, want)
		}
	}
}
