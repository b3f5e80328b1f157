package vllm

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
)

// side is a worker of several that share a store.
type side struct {
	args   engineargs.Args
	setup  engine.Setup
	s      *Scheduler
	endMs  float64 // of its last pass
	atMs   []float64
	asked  []engine.Request
	told   engine.Copied
	moved  [2]int
	copies []engine.Copy
	found  map[engine.RequestID]int // tokens at admission
	log    []string
}

func sideBySide(args engineargs.Args, n int) []*side {
	var all []*side
	commons := &engine.Commons{}
	for place := range n {
		w := &side{args: args, setup: engine.Setup{Explain: true, Commons: commons, Place: place}}
		w.s, w.found = New(w.args, w.setup), map[engine.RequestID]int{}
		all = append(all, w)
	}
	return all
}

// lose has a worker be lost, with the requests that it has. Another one takes its place at once.
func (w *side) lose(nowMs float64) {
	w.told.Add(w.s.Abandon(nowMs))
	w.s, w.endMs = New(w.args, w.setup), nowMs
}

// runAll runs workers in the order of time until all requests are over. check is called after each pass, with the time
// at which it began.
func runAll(t *testing.T, all []*side, check func(nowMs float64)) {
	for {
		var next *side
		var atMs float64
		for _, w := range all {
			ms := w.endMs
			if w.s.Requests() == 0 {
				if len(w.asked) == 0 {
					continue
				}
				ms = max(ms, w.atMs[0])
			}
			if next == nil || ms < atMs {
				next, atMs = w, ms
			}
		}
		if next == nil {
			return
		}
		for len(next.asked) > 0 && next.atMs[0] <= atMs {
			next.s.Add(next.asked[0])
			next.asked, next.atMs = next.asked[1:], next.atMs[1:]
		}
		p, alive := next.s.RunPass(atMs)
		if !alive {
			t.Fatalf("at %v ms: no end in sight", atMs)
		}
		if p.Waits && len(next.asked) > 0 && next.atMs[0] < p.EndMs {
			p.Cut(next.atMs[0])
		}
		next.endMs = p.EndMs
		next.told.Add(p.Copied)
		next.copies = append(next.copies, p.Parts.Copies...)
		for _, c := range p.Parts.Copies {
			if c.Back {
				next.moved[1] += c.Blocks
			} else {
				next.moved[0] += c.Blocks
			}
		}
		for _, a := range p.Admitted {
			next.found[a.ID] = a.ReusedTokens
			next.log = append(next.log, fmt.Sprint(a.ID, a.ReusedTokens, p.StartMs, p.EndMs))
		}
		check(atMs)
	}
}

// TestOthersLoad has a second worker find what the first one has computed: once its copy has ended, and no earlier.
func TestOthersLoad(t *testing.T) {
	args := sharedArgs(engineargs.HostCacheArgs{LoadMsPerBlock: 1, StoreMsPerBlock: 10})
	for _, c := range []struct{ atMs, found float64 }{{50, 0}, {100, 0}, {1000, 159}} {
		both := sideBySide(args, 2)
		ask(both, 0, c.atMs)
		runAll(t, both, func(float64) {})
		if got := both[1].found[1]; float64(got) != c.found {
			t.Errorf("at %v ms the other worker finds %d tokens, want %v", c.atMs, got, c.found)
		}
		if both[1].told.Stored > 0 {
			t.Errorf("at %v ms the other worker stores %d blocks that are there", c.atMs, both[1].told.Stored)
		}
	}
}

// TestSharedBooks runs random workloads on workers that share a store, twice. What was stored has been evicted or is
// there, the link of the store never moves two things at once, and both runs are the same.
func TestSharedBooks(t *testing.T) {
	loads := 0
	for seed := range uint64(300) {
		var logs [2][]string
		for again := range 2 {
			rng := rand.New(rand.NewPCG(seed, 37))
			args := drawArgs(rng)
			args.VLLM.Groups.Beside, args.BlockSize = 0, 1<<rng.IntN(5)
			withHost(rng, &args)
			args.HostCache.Shared, args.HostCache.PromptOnly = true, true
			args.HostCache.SharedMsPerBlock = rng.Float64() * float64(rng.IntN(3))
			all := sideBySide(args, 2+rng.IntN(3))
			for _, w := range all {
				drawn := enginetest.Draw(rng, args)
				w.asked, w.atMs = drawn.Requests, drawn.AtMs
			}
			c := all[0].s.offload.common
			runAll(t, all, func(float64) {
				told, toCome, untold := engine.Copied{}, 0, 0
				for _, w := range all {
					told.Add(w.told)
					o := w.s.offload
					toCome += o.unsubmitted()
					untold += o.use.Stored - o.told.Stored
				}
				if use := c.store.Use(); told.Stored+untold+toCome != (use.Evicted+use.Resident)*args.HostCache.ChunkBlocks {
					t.Fatalf("seed %d: stored %d, untold %d, to come %d, in chunks of %d %+v", seed, told.Stored,
						untold, toCome, args.HostCache.ChunkBlocks, use)
				}
			})
			var copies []engine.Copy
			for _, w := range all {
				loads += w.told.Loaded
				copies = append(copies, w.copies...)
				for _, q := range []*deque.Deque[*transferring]{&w.s.offload.storing, &w.s.offload.loading} {
					for i := range q.Len() { // that have not ended
						w.moved[way(q.At(i))] += q.At(i).blocks
					}
				}
				if w.moved[0] != w.told.Stored || w.moved[1] != w.told.Loaded {
					t.Fatalf("seed %d: single copies are of %v blocks, told %+v", seed, w.moved, w.told)
				}
				logs[again] = append(logs[again], w.log...)
			}
			slices.SortFunc(copies, func(a, b engine.Copy) int { return cmp.Compare(a.EndMs, b.EndMs) })
			blocks := 0
			for _, c := range copies {
				blocks += c.Blocks
				if ms := float64(blocks) * args.HostCache.SharedMsPerBlock; c.EndMs < ms*(1-1e-9) {
					t.Fatalf("seed %d: the link moved %d blocks by %v ms, which takes it %v ms", seed, blocks, c.EndMs,
						ms)
				}
			}
		}
		if !slices.Equal(logs[0], logs[1]) {
			t.Fatalf("seed %d: two runs differ", seed)
		}
	}
	if loads == 0 {
		t.Error("nothing was loaded")
	}
}

// TestHalfOfTheStore: two workers that load at the same time get half of the store each, and are through together; one
// after the other each gets all of it. A prompt of 10 blocks is loaded up to its last token, after a start at 0.
func TestHalfOfTheStore(t *testing.T) {
	args := sharedArgs(engineargs.HostCacheArgs{LoadMsPerBlock: 2, SharedMsPerBlock: 2})
	for _, c := range []struct {
		atMs [2]float64
		want string
	}{
		{[2]float64{1000, 1000}, "[1000-1040 1000-1040]"},
		{[2]float64{1000, 1020}, "[1000-1020 1020-1040]"},
		{[2]float64{1000, 1010}, "[1000-1030 1010-1040]"}, // 5 blocks alone, 5 of each together, 5 alone
	} {
		all := sideBySide(args, 3)
		ask(all, 0, c.atMs[0], c.atMs[1])
		runAll(t, all, func(float64) {})
		var got []string
		for _, w := range all[1:] {
			for _, copied := range w.copies {
				got = append(got, fmt.Sprintf("%v-%v", copied.StartMs, copied.EndMs))
			}
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("at %v ms: got %v, want %s", c.atMs, got, c.want)
		}
	}
}

// TestCancelledLoad cancels a request whose ten blocks are loading: the next one with the same prompt does not find
// them in the pool, and loads all of them again.
func TestCancelledLoad(t *testing.T) {
	both := sideBySide(sharedArgs(engineargs.HostCacheArgs{LoadMsPerBlock: 20}), 2)
	ask(both, 0, 1000)
	again := both[1].asked[0]
	again.ID++
	both[1].asked, both[1].atMs = append(both[1].asked, again), append(both[1].atMs, 1500)
	runAll(t, both, func(nowMs float64) {
		if nowMs == 1000 {
			both[1].s.Cancel(1)
		}
	})
	if _, admitted := both[1].found[1]; admitted || both[1].found[2] != 159 || both[1].told.Loaded != 20 {
		t.Errorf("admitted with %v tokens, %d blocks loaded, want 20", both[1].found, both[1].told.Loaded)
	}
}
