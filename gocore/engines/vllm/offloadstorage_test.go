package vllm

import (
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache"
)

// TestBooksOfStorage runs random workloads on two workers with storage behind their hosts, or behind one that they
// share. What has come to a host has left it or is there, and so has what was written to the storage.
func TestBooksOfStorage(t *testing.T) {
	moved := engine.Copied{}
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 38))
		args := drawArgs(rng)
		args.VLLM.Groups.Beside, args.BlockSize = 0, 1<<rng.IntN(5)
		withHost(rng, &args)
		args.HostCache.Shared = args.HostCache.PromptOnly && rng.IntN(3) == 0
		args.HostCache.Storage = enginetest.DrawStorage(rng, 20)
		all := sideBySide(args, 2)
		for _, w := range all {
			drawn := enginetest.Draw(rng, args)
			w.atMs, w.asked = drawn.AtMs, drawn.Requests
		}
		client := all[0].s.offload.prefetches.client
		runAll(t, all, func(float64) {
			for _, w := range all {
				use, size := w.s.offload.host.Use(), args.HostCache.ChunkBlocks
				if use.Stored != use.Evicted+use.Resident || use.Resident*size > args.HostCache.Blocks {
					t.Fatalf("seed %d: %+v in a host of %d", seed, use, args.HostCache.Blocks)
				}
			}
			if client.Resident() > args.HostCache.Storage.Blocks {
				t.Fatalf("seed %d: %d blocks in the storage", seed, client.Resident())
			}
		})
		sum := engine.Stored{}
		for _, w := range all {
			sum.Add(w.told.Storage)
			sum.Add(w.s.offload.prefetches.client.TakeUse())
			moved.Add(w.told)
			if left := len(w.s.offload.prefetches.under); left > 0 {
				t.Fatalf("seed %d: %d prompts are on their way", seed, left)
			}
		}
		if sum.Stored != sum.Evicted+client.Resident() {
			t.Fatalf("seed %d: %+v, %d there", seed, sum, client.Resident())
		}
	}
	if moved.Storage.Stored == 0 || moved.Storage.Loaded == 0 || moved.Storage.Evicted == 0 || moved.Loaded == 0 {
		t.Errorf("nothing happened: %+v", moved)
	}
}

// TestPolicies has a second worker read what the first one has written, 100 blocks in 1 ms each: best_effort starts
// with the tokens that have come, wait_complete with all, timeout after 20 ms and 10 more for 1,600 tokens. What has
// come is loaded, which takes no time here; the request runs with the pass after the one that finds it.
func TestPolicies(t *testing.T) {
	prompt := kvcache.Prompt{PerSegment: 1}
	for i := range 100 {
		prompt.Segments = append(prompt.Segments, uint32(i))
	}
	request := engine.Request{Prompt: prompt, PromptTokens: 100*16 + 5, OutputTokens: 1}
	for policy, want := range []string{"0 1600", "1600 1700", "480 1630"} {
		args := engineargs.Default()
		args.Scheduler, args.BlockSize, args.NumGPUBlocks = engineargs.VLLMOwn, 16, 200
		args.VLLM = engineargs.VLLMArgs{
			ReserveFullISL: true, PrefillInterval: 1, MaxActiveSeqs: args.MaxNumSeqs, Release: engineargs.VLLM033,
		}
		args.HostCache = engineargs.HostCacheArgs{Blocks: 300, ChunkBlocks: 1, StoreThreshold: 1, PromptOnly: true}
		args.HostCache.Storage = engineargs.StorageArgs{
			Blocks: 1000, ReadMsPerBlock: 1, Threshold: 256, Policy: policy,
			TimeoutBase: 0.02, TimeoutPerKiToken: 0.0064, TimeoutMax: 1,
		}
		commons := &engine.Commons{}
		one, two := New(args, engine.Setup{Commons: commons}), New(args, engine.Setup{Commons: commons})
		one.Add(request)
		one.RunPass(0) // it has no other, and yet submits its copies
		two.Add(request)
		if got := enginetest.LastAdmission(two, 1600); got != want {
			t.Errorf("policy %d: %s tokens found and admitted at, want %s", policy, got, want)
		}
	}
}
