package blocks

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/worker"
)

// written writes changes as audience, what, and the first tokens of stored blocks; names knows the hashes.
func written(changes []Change, names map[uint64]string) string {
	var lines []string
	for _, c := range changes {
		line := map[Audience]string{Subscribers: fmt.Sprintf("group %d", c.Group), Routers: "routers"}[c.To]
		line += map[kvcache.EventKind]string{kvcache.Stored: " +", kvcache.Removed: " -"}[c.Kind]
		for _, b := range c.Blocks {
			line += names[b.Hash]
		}
		if c.HasParent {
			line += " after " + names[c.Parent]
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

// TestRoutersOfGroups: routers learn of blocks up to where all groups have what the next token needs, and of no others.
func TestRoutersOfGroups(t *testing.T) {
	table := New(1)
	table.Group(Groups{Beside: 1, Run: 2})
	p := table.Hold([]uint32{1, 2, 3, 4, 5, 6}, "")
	q := table.Hold([]uint32{1, 2, 3, 7, 8}, "")
	names := map[uint64]string{}
	for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
		names[table.blocks[p.Block(i)].key.sequence] = name
	}
	for i, name := range []string{"a", "b", "c", "x", "y"} {
		names[table.blocks[q.Block(i)].key.sequence] = name
	}
	stored := func(group int, blocks ...kvcache.BlockID) kvcache.Event {
		return kvcache.Event{Group: group, Blocks: kvcache.BlocksOf(blocks...)}
	}
	removed := func(group int, blocks ...kvcache.BlockID) kvcache.Event {
		return kvcache.Event{Kind: kvcache.Removed, Group: group, Blocks: kvcache.BlocksOf(blocks...)}
	}
	for _, step := range []struct {
		event kvcache.Event
		want  string
	}{
		{stored(0, p.AppendBlocks(nil, 0, 6)...), "group 0 +abcdef"},
		{stored(1, p.Block(3)), "group 1 +d"},
		{stored(1, p.Block(4)), "group 1 +e; routers +abcde"},
		{stored(0, q.Block(3), q.Block(4)), "group 0 +xy"},
		{stored(1, q.Block(3), q.Block(4)), "group 1 +xy; routers +xy after c"},
		{stored(1, p.Block(5)), "group 1 +f; routers +f after e"},
		{removed(1, p.Block(4)), "group 1 -e; routers -fed"},
		{removed(0, p.Block(1)), "group 0 -b; routers -yxcb; routers -a"},
		{stored(0, p.Block(1)), "group 0 +b; routers +abcxy"},
		{stored(1, p.Block(0)), "group 1 +a"},
		{removed(1, q.Block(3)), "group 1 -x; routers -yxcb"},
		{removed(1, q.Block(3)), ""},
		{removed(1, p.Block(0)), "group 1 -a; routers -a"},
	} {
		if got := written(table.Resolve([]kvcache.Event{step.event}), names); got != step.want {
			t.Errorf("%+v:\ngot  %s\nwant %s", step.event, got, step.want)
		}
	}
}

// TestRoutersFollowEngine runs engines with several groups on random requests with common prefixes, some of which are
// cancelled. What routers have been told is always what follows from what each group has.
func TestRoutersFollowEngine(t *testing.T) {
	for name, groups := range map[string]string{
		"windows": `{"type": "sliding_window", "window": 9}, {"type": "sliding_window", "window": 9}`,
		"linear":  `{"type": "linear"}`,
	} {
		for _, more := range []string{`"prefix_cache_retention_interval": 0`, `"prefix_cache_retention_interval": null`,
			`"host_cache": {"num_blocks": 150, "store_ms_per_block": 2, "load_ms_per_block": 1}`} {
			t.Run(name+" "+more, func(t *testing.T) {
				args, _, err := engineargs.Parse(fmt.Sprintf(`{"scheduler": "vllm", "block_size": 4, "num_gpu_blocks": 60, `+
					`"max_num_seqs": 8, "max_num_batched_tokens": 64, %s, "kv_cache_groups": [{"type": "full"}, %s]}`, more,
					groups))
				if err != nil {
					t.Fatal(err)
				}
				table := New(4)
				table.Group(Groups{Beside: args.VLLM.Groups.Beside, Run: args.VLLM.Groups.Run(4)})
				f := follower{
					engine: worker.New(args, engine.Setup{LowerTiers: true, Names: true}).Engine, table: table,
					held: map[engine.RequestID]kvcache.Prompt{}, cached: map[uint64]bool{},
				}
				most := 0
				f.check = func() {
					want := map[uint64]bool{}
					for _, b := range table.blocks {
						if endsNaively(table, b) {
							for ; b != nil; b = b.parent {
								want[b.key.sequence] = true
							}
						}
					}
					if most = max(most, len(want)); !maps.Equal(f.cached, want) {
						t.Fatalf("routers know %d blocks, and should know %d", len(f.cached), len(want))
					}
				}
				f.run(t, rand.New(rand.NewPCG(3, 4)))
				cached, below := 0, 0
				for _, b := range table.blocks {
					if b.cached != 0 || b.held != 0 {
						cached++
					}
					if b.held != 0 {
						below++
					}
				}
				hosted := args.HostCache.Blocks > 0
				if most < 8 || cached == 0 || table.Len() > 2*cached || hosted != (below > 0) || hosted != (f.loaded > 0) {
					t.Errorf("routers knew %d blocks at most, %d are cached in some group, %d below the device, the table has "+
						"%d; %d were loaded", most, cached, below, table.Len(), f.loaded)
				}
			})
		}
	}
}

// endsNaively reports whether a prompt may go on behind a block.
func endsNaively(t *Table, b *block) bool {
	for run, at := 0, b; at != nil; run, at = run+1, at.parent {
		for group := 1; group <= t.groups.Beside && run < t.groups.Run; group++ {
			if at.groups&(1<<group) == 0 {
				return false
			}
		}
		if at.groups&1 == 0 {
			return false
		}
	}
	return true
}
