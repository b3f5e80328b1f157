package blocks

import (
	"math/rand/v2"
	"slices"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/worker"
)

func upFrom(first uint32, count int) []uint32 {
	tokens := make([]uint32, count)
	for i := range tokens {
		tokens[i] = first + uint32(i)
	}
	return tokens
}

// TestHashes are prompts that were sent to the reference, and the hashes of its events.
func TestHashes(t *testing.T) {
	eights := slices.Repeat([]uint32{64, 65, 66, 67, 68, 69, 70, 71}, 16)
	for _, test := range []struct {
		name              string
		blockSize         int
		tokens            []uint32
		hash, tokensHashs []uint64
	}{
		{"two equal blocks", 64, eights, []uint64{0x1032b10c76ae2b64, 0x2606b531ba32ca7d},
			[]uint64{0x1032b10c76ae2b64, 0x1032b10c76ae2b64}},
		{"a tail has no name", 16, slices.Concat(upFrom(64, 26), upFrom(15, 6), upFrom(0, 15)),
			[]uint64{16071864640778362908, 10355079745570635607}, nil},
		{"100 to 131", 16, upFrom(100, 32), []uint64{10823191264391160519, 4102179227871607950},
			[]uint64{10823191264391160519, 1219978239041041138}},
		{"300 to 315", 16, upFrom(300, 16), []uint64{16394733772155227027}, nil},
	} {
		table := New(test.blockSize)
		p := table.Hold(test.tokens, "")
		if len(p.Segments) != len(test.hash) {
			t.Fatalf("%s: got %d blocks, want %d", test.name, len(p.Segments), len(test.hash))
		}
		changes := table.Resolve([]kvcache.Event{{Blocks: p.Blocks(0, len(p.Segments))}})
		for i, b := range changes[0].Blocks {
			if b.Hash != test.hash[i] || test.tokensHashs != nil && b.TokensHash != test.tokensHashs[i] {
				t.Errorf("%s, block %d: got %+v", test.name, i, b)
			}
		}
	}
}

func TestHoldAndRelease(t *testing.T) {
	table := New(4)
	a := table.Hold(upFrom(0, 9), "")
	b := table.Hold(append(upFrom(0, 4), 9, 9, 9, 9), "")
	if a.Segments[0] != b.Segments[0] || a.Segments[1] == b.Segments[1] || table.Len() != 3 {
		t.Fatalf("got %v and %v, %d blocks in all", a.Segments, b.Segments, table.Len())
	}
	table.Resolve([]kvcache.Event{{Blocks: kvcache.BlocksOf(a.Block(0), a.Block(1))}})
	table.Release(a)
	table.Release(b)
	if table.Len() != 2 {
		t.Errorf("2 blocks are cached, the table has %d", table.Len())
	}
	if again := table.Hold(upFrom(0, 8), ""); !slices.Equal(again.Segments, a.Segments) {
		t.Errorf("cached blocks are now called %v, were %v", again.Segments, a.Segments)
	} else {
		table.Release(again)
	}
	removed := []kvcache.Event{{Kind: kvcache.Removed, Blocks: kvcache.BlocksOf(a.Block(1), a.Block(0))}}
	if got := table.Resolve(removed); len(got) != 1 || len(got[0].Blocks) != 2 {
		t.Errorf("removed: got %+v", got)
	}
	if got := table.Resolve(removed); got != nil || table.Len() != 0 {
		t.Errorf("removed again: got %+v, %d blocks left", got, table.Len())
	}
	if p := table.Hold(upFrom(0, 4), ""); slices.Contains(append(a.Segments, b.Segments...), p.Segments[0]) {
		t.Errorf("id %d is used again at once", p.Segments[0])
	}
}

func TestIDsWrapAround(t *testing.T) {
	table := New(2)
	first := table.Hold(upFrom(0, 2), "")
	table.next = ^uint32(0)
	got := table.Hold(upFrom(5, 4), "")
	if want := []uint32{^uint32(0), 1}; !slices.Equal(got.Segments, want) || first.Segments[0] != 0 {
		t.Errorf("got %v, want %v", got.Segments, want)
	}
}

func TestResolve(t *testing.T) {
	table := New(2)
	table.KeepTokens()
	p := table.Hold(upFrom(0, 6), "")
	private := kvcache.PrivateIDs + 5
	got := table.Resolve([]kvcache.Event{
		{Blocks: kvcache.BlocksOf(p.Block(0))},
		{Blocks: kvcache.BlocksOf(p.Block(1), private), Parent: p.Block(0), HasParent: true},
		{Blocks: kvcache.BlocksOf(private + 1), Parent: private, HasParent: true},
		{Kind: kvcache.Removed, Blocks: kvcache.BlocksOf(private, p.Block(1))},
		{Blocks: kvcache.BlocksOf(p.Block(0), p.Block(1))},
	})
	if len(got) != 4 {
		t.Fatalf("got %d changes, want 4: %+v", len(got), got)
	}
	if c := got[1]; !c.HasParent || c.Parent != got[0].Blocks[0].Hash || len(c.Blocks) != 1 ||
		!slices.Equal(c.Blocks[0].Tokens, []uint32{2, 3}) {
		t.Errorf("second block: got %+v", c)
	}
	if c := got[2]; c.Kind != kvcache.Removed || len(c.Blocks) != 1 || c.Blocks[0].Hash != got[1].Blocks[0].Hash {
		t.Errorf("removed: got %+v", c)
	}
	if c := got[3]; c.Blocks[0].New || !c.Blocks[1].New {
		t.Errorf("block 0 was cached before, block 1 was not: got %+v", c)
	}
}

// TestTableFollowsEngine runs engines with small pools on random requests with common prefixes, some of which are
// cancelled. Once all have ended, the table has exactly the blocks that the events say are cached.
func TestTableFollowsEngine(t *testing.T) {
	for _, engineType := range []string{"vllm", "sglang"} {
		t.Run(engineType, func(t *testing.T) {
			args := enginetest.Args(t, `{"engine_type": "`+engineType+
				`", "block_size": 4, "num_gpu_blocks": 24}`)
			f := follower{engine: worker.New(args, engine.Setup{}).Engine, table: New(4),
				held: map[engine.RequestID]kvcache.Prompt{}, cached: map[uint64]bool{}}
			f.run(t, rand.New(rand.NewPCG(1, 2)))
			if n := len(f.cached); f.table.Len() != n || n == 0 || n > 24 {
				t.Errorf("no request holds blocks, %d are cached, the table has %d", n, f.table.Len())
			}
		})
	}
}

// TestTableKeepsWhatLowerTiersNeed runs engines with host memory. Once all requests have ended, the table has the
// blocks that are on the device or needed below it, and prompts that come back are found there.
func TestTableKeepsWhatLowerTiersNeed(t *testing.T) {
	for name, text := range map[string]string{
		"vllm": `"scheduler":"vllm","host_cache":{"num_blocks":60,"store_ms_per_block":2,"load_ms_per_block":1}`,
		"chunks": `"scheduler":"vllm","host_cache":{"num_blocks":60,"blocks_per_chunk":2,"eviction_policy":"arc",` +
			`"offload_prompt_only":false}`,
		"sglang": `"engine_type":"sglang","scheduler":"sglang","host_cache":{"num_blocks":60,"store_ms_per_block":2}`,
		"back": `"engine_type":"sglang","scheduler":"sglang","host_cache":{"num_blocks":60,"write_policy":"write_back",` +
			`"load_back_threshold":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			args := enginetest.Args(t, `{"block_size": 4, "num_gpu_blocks": 24,`+text+`}`)
			f := follower{
				engine: worker.New(args, engine.Setup{LowerTiers: true, Names: true}).Engine, table: New(4),
				held: map[engine.RequestID]kvcache.Prompt{}, cached: map[uint64]bool{},
				onDevice: map[kvcache.BlockID]int{}, below: map[kvcache.BlockID]int{},
			}
			f.run(t, rand.New(rand.NewPCG(1, 2)))
			only := 0
			for id := range f.below {
				if f.onDevice[id] == 0 {
					only++
				}
			}
			if n := len(f.onDevice) + only; f.table.Len() != n || only == 0 {
				t.Errorf("%d blocks are on the device, %d only below it, the table has %d", len(f.onDevice), only,
					f.table.Len())
			}
			if f.loaded == 0 {
				t.Error("nothing came back from the host")
			}
		})
	}
}

// follower is what the loop of a live worker does with a table.
type follower struct {
	engine engine.Engine
	table  *Table
	held   map[engine.RequestID]kvcache.Prompt
	cached map[uint64]bool
	check  func() // after each pass; may be nil

	onDevice, below map[kvcache.BlockID]int // nil if nothing counts them
	loaded          int                     // blocks
}

// count counts what events say of blocks, by where they are.
func (f *follower) count(pass *engine.Pass) {
	f.loaded += pass.Copied.Loaded
	for _, e := range pass.KVEvents {
		to := f.onDevice
		if e.Tier != kvcache.Device {
			to = f.below
		}
		for id := range e.Blocks.All() {
			switch {
			case id >= kvcache.PrivateIDs || to == nil:
			case e.Tier == kvcache.Device && e.Kind == kvcache.Stored:
				to[id] = 1
			case e.Kind == kvcache.Held:
				to[id]++
			case e.Tier == kvcache.Device || e.Kind == kvcache.LetGo && to[id] == 1:
				delete(to, id)
			case e.Kind == kvcache.LetGo:
				to[id]--
			}
		}
	}
}

func (f *follower) run(t *testing.T, rng *rand.Rand) {
	const requests = 3000
	f.engine.Observe()
	now, next := 0.0, engine.RequestID(0)
	for next < requests || f.engine.Requests() > 0 {
		for next < requests && f.engine.Requests() < 3 {
			f.add(next, rng)
			next++
		}
		pass, alive := f.engine.RunPass(now)
		if !alive && !f.engine.Unblock() {
			t.Fatal("the engine is stuck")
		}
		now = max(now+1, pass.EndMs)
		f.see(pass)
		if id := next - 1 - engine.RequestID(rng.IntN(20)); f.held[id].PerSegment > 0 {
			f.engine.Cancel(id)
			f.release(id)
		}
	}
	pass, _ := f.engine.RunPass(now) // has what the last cancellation did to the cache
	f.see(pass)
}

func (f *follower) add(id engine.RequestID, rng *rand.Rand) {
	tokens := slices.Concat(upFrom(uint32(rng.IntN(3)), rng.IntN(20)+1), upFrom(uint32(rng.IntN(3)), 20))
	prompt := rng.IntN(len(tokens)-12) + 1
	output := rng.IntN(12) + 1
	p := f.table.Hold(tokens[:prompt+output], "")
	f.held[id] = p
	f.engine.Add(engine.Request{ID: id, Prompt: p, PromptTokens: prompt, OutputTokens: output,
		NamedBlocks: len(p.Segments)})
}

func (f *follower) see(pass *engine.Pass) {
	f.count(pass)
	for _, c := range f.table.Resolve(pass.KVEvents) {
		if c.To == Subscribers || c.Tier != kvcache.Device {
			continue
		}
		for _, b := range c.Blocks {
			if c.Kind == kvcache.Stored {
				f.cached[b.Hash] = true
			} else {
				delete(f.cached, b.Hash)
			}
		}
	}
	if f.check != nil {
		f.check()
	}
	for _, id := range pass.Finished {
		f.release(id)
	}
	for _, r := range pass.Rejected {
		f.release(r.ID)
	}
}

func (f *follower) release(id engine.RequestID) {
	f.table.Release(f.held[id])
	delete(f.held, id)
}

func BenchmarkHoldRelease(b *testing.B) {
	table := New(64)
	tokens := upFrom(0, 64*32)
	for b.Loop() {
		tokens[0]++
		table.Release(table.Hold(tokens, ""))
	}
}

// TestSalts: equal prompts with different salts share nothing, and their hashes differ from the first block on.
func TestSalts(t *testing.T) {
	table := New(4)
	prompt := upFrom(0, 8)
	a, b, plain, again := table.Hold(prompt, "a"), table.Hold(prompt, "b"), table.Hold(prompt, ""),
		table.Hold(prompt, "a")
	if table.Len() != 6 || !slices.Equal(a.Segments, again.Segments) {
		t.Errorf("%d blocks; %v and %v", table.Len(), a.Segments, again.Segments)
	}
	seen := map[uint64]bool{}
	for _, p := range []kvcache.Prompt{a, b, plain} {
		changes := table.Resolve([]kvcache.Event{{Blocks: p.Blocks(0, 2)}})
		for _, block := range changes[0].Blocks {
			seen[block.Hash] = true
		}
		if first := changes[0].Blocks[0]; first.Hash != first.TokensHash {
			t.Errorf("the hash of the first block is %x, that of its tokens %x: routers take them for equal",
				first.Hash, first.TokensHash)
		}
	}
	if len(seen) != 6 {
		t.Errorf("%d hashes of 6 blocks", len(seen))
	}
}
