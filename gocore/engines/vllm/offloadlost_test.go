package vllm

import (
	"math/rand/v2"
	"slices"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache"
)

// sharedArgs returns the arguments of workers with blocks of 16 tokens that share a store.
func sharedArgs(host engineargs.HostCacheArgs) engineargs.Args {
	args := engineargs.Default()
	args.Scheduler, args.BlockSize, args.NumGPUBlocks = engineargs.VLLMOwn, 16, 100
	args.VLLM = engineargs.VLLMArgs{ReserveFullISL: true, PrefillInterval: 1, MaxActiveSeqs: args.MaxNumSeqs,
		Release: engineargs.VLLM033}
	host.Blocks, host.ChunkBlocks, host.StoreThreshold, host.PromptOnly, host.Shared = 100, 1, 1, true, true
	args.HostCache = host
	return args
}

// ask gives workers a request each, for the same prompt of ten blocks.
func ask(all []*side, atMs ...float64) {
	prompt := kvcache.Prompt{PerSegment: 10, Segments: []uint32{7}}
	for i, ms := range atMs {
		all[i].atMs = []float64{ms}
		all[i].asked = []engine.Request{{ID: engine.RequestID(i), Prompt: prompt, PromptTokens: 160, OutputTokens: 2}}
	}
}

// TestLostCopies has another worker look for what a worker was storing when it was lost, from about 60 to 160 ms: it is
// there only if the copy had ended. A copy takes 10 ms for a block.
func TestLostCopies(t *testing.T) {
	for _, c := range []struct {
		lostMs      float64
		found, lost int
	}{{70, 0, 10}, {1000, 159, 0}} {
		both := sideBySide(sharedArgs(engineargs.HostCacheArgs{StoreMsPerBlock: 10}), 2)
		ask(both, 0)
		for nowMs := 0.0; nowMs < c.lostMs && (nowMs == 0 || both[0].s.Requests() > 0); nowMs = both[0].endMs {
			if nowMs == 0 {
				both[0].s.Add(both[0].asked[0])
			}
			p, _ := both[0].s.RunPass(nowMs)
			both[0].endMs = p.EndMs
		}
		both[0].asked = nil
		both[0].lose(c.lostMs)
		if both[0].told.Lost != c.lost {
			t.Errorf("at %v ms %d blocks are lost, want %d", c.lostMs, both[0].told.Lost, c.lost)
		}
		ask(both[1:], 2000)
		runAll(t, both[1:], func(float64) {})
		if got := both[1].found[0]; got != c.found {
			t.Errorf("lost at %v ms: the other worker finds %d tokens, want %d", c.lostMs, got, c.found)
		}
	}
}

// TestBandwidthOfTheLost: two workers load ten blocks each from 1,000 ms on, of which the store moves one in 2 ms. When
// one of them is lost at 1,010 ms, each has moved 2.5; the other one moves the rest alone, in 15 ms.
func TestBandwidthOfTheLost(t *testing.T) {
	all := sideBySide(sharedArgs(engineargs.HostCacheArgs{LoadMsPerBlock: 2, SharedMsPerBlock: 2}), 4)
	ask(all, 0, 1000, 1000, 1010)
	all[3].asked[0].Prompt.Segments = []uint32{8}
	runAll(t, all, func(nowMs float64) {
		if nowMs == 1010 {
			all[1].lose(nowMs)
		}
	})
	copies := all[2].copies
	if len(all[1].copies) > 0 || len(copies) != 1 || copies[0].StartMs != 1000 || copies[0].EndMs != 1025 {
		t.Errorf("the lost worker has copied %v, the other one %v", all[1].copies, copies)
	}
}

// TestBooksOfTheLost runs random workloads on workers that are lost now and then, with host memory of their own, of
// their nodes or of all, and with storage behind it, twice. What was stored has been evicted, is lost or is there, no
// link has a lane for a worker that is gone, and both runs are the same.
func TestBooksOfTheLost(t *testing.T) {
	sum := engine.Copied{}
	for seed := range uint64(400) {
		var logs [2][]string
		for again := range 2 {
			rng := rand.New(rand.NewPCG(seed, 39))
			args := drawArgs(rng)
			args.VLLM.Groups.Beside, args.BlockSize = 0, 1<<rng.IntN(5)
			withHost(rng, &args)
			h := &args.HostCache
			h.Shared = rng.IntN(3) > 0
			h.PromptOnly = h.PromptOnly || h.Shared
			h.SharedWorkers, h.SharedMsPerBlock = 2*rng.IntN(2), rng.Float64()*float64(rng.IntN(3))
			if rng.IntN(2) == 0 {
				h.Storage = enginetest.DrawStorage(rng, 20)
			}
			all := sideBySide(args, 4)
			for _, w := range all {
				drawn := enginetest.Draw(rng, args)
				w.asked, w.atMs = drawn.Requests, drawn.AtMs
			}
			check := func() {
				if h.Storage.Blocks == 0 {
					checkBooks(t, seed, args, all)
				} else {
					checkStorage(t, seed, args, all)
				}
			}
			runAll(t, all, func(nowMs float64) {
				check()
				for _, w := range all {
					if rng.IntN(40) == 0 {
						w.lose(nowMs)
						check()
					}
				}
			})
			for _, w := range all {
				sum.Add(w.told)
				logs[again] = append(logs[again], w.log...)
			}
		}
		if !slices.Equal(logs[0], logs[1]) {
			t.Fatalf("seed %d: two runs differ", seed)
		}
	}
	if sum.Lost == 0 || sum.Loaded == 0 || sum.Evicted == 0 || sum.Storage.Lost == 0 || sum.Storage.Loaded == 0 {
		t.Errorf("nothing happened: %+v", sum)
	}
}

// checkBooks looks at the blocks of hosts, node by node of workers that share them.
func checkBooks(t *testing.T, seed uint64, args engineargs.Args, all []*side) {
	t.Helper()
	node := 1
	if h := args.HostCache; h.Shared {
		if node = h.SharedWorkers; node == 0 {
			node = len(all)
		}
	}
	for workers := range slices.Chunk(all, node) {
		told, ahead := engine.Copied{}, 0
		use := workers[0].s.offload.host.Use()
		for _, w := range workers {
			o := w.s.offload
			told.Add(w.told)
			ahead += o.unsubmitted() + o.use.Stored - o.told.Stored
			if o.host != workers[0].s.offload.host {
				t.Fatalf("seed %d: workers of a node have two stores", seed)
			}
		}
		there := (use.Evicted + use.Resident) * args.HostCache.ChunkBlocks
		if node == 1 {
			there = told.Evicted + use.Resident*args.HostCache.ChunkBlocks // of those before it, too
		} else if c := workers[0].s.offload.common; len(c.members) != node {
			t.Fatalf("seed %d: %d of %d workers share the store", seed, len(c.members), node)
		}
		if told.Stored+ahead-told.Lost != there {
			t.Fatalf("seed %d: told %+v, %d ahead, %+v", seed, told, ahead, use)
		}
	}
}

// checkStorage looks at the blocks of the storage.
func checkStorage(t *testing.T, seed uint64, args engineargs.Args, all []*side) {
	t.Helper()
	told, client := engine.Stored{}, all[0].s.offload.prefetches.client
	for _, w := range all {
		use := w.s.offload.prefetches.client.TakeUse()
		w.told.Storage.Add(use)
		told.Add(w.told.Storage)
		if host := w.s.offload.host.Use(); host.Stored != host.Evicted+host.Resident {
			t.Fatalf("seed %d: a host has %+v", seed, host)
		}
	}
	if told.Stored != told.Evicted+told.Lost+client.Resident() || client.Resident() > args.HostCache.Storage.Blocks {
		t.Fatalf("seed %d: storage: %+v, %d there", seed, told, client.Resident())
	}
}
