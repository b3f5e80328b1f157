package lockstep

import "dynosim/gocore/kvcache"

// Events puts the cache events of several ranks together: as those of one worker, which has a block as long as any rank
// has it, or rank by rank.
type Events struct {
	merged []kvcache.Event
}

// Holders counts, for each block, the ranks that have it: in each tier, and those that need its name.
type Holders []map[kvcache.BlockID]int

// NewHolders returns counts of ranks that have nothing.
func NewHolders() Holders {
	h := make(Holders, kvcache.Tiers+1)
	for i := range h {
		h[i] = map[kvcache.BlockID]int{}
	}
	return h
}

// of returns the counts that an event changes.
func (h Holders) of(e kvcache.Event) map[kvcache.BlockID]int {
	if e.Kind == kvcache.Held || e.Kind == kvcache.LetGo {
		return h[kvcache.Tiers]
	}
	return h[e.Tier]
}

// Add appends what events of one rank change for the worker or, without holders, for the rank.
func (m *Events) Add(holders Holders, rank int, events []kvcache.Event) {
	for _, e := range events {
		if holders == nil {
			e.Rank = int32(rank)
			m.merged = append(m.merged, e)
		} else if e.Kind == kvcache.Removed || e.Kind == kvcache.LetGo {
			m.removed(holders.of(e), e)
		} else {
			m.stored(holders.of(e), e)
		}
	}
}

// stored passes on the blocks that no other rank has, as runs of blocks that follow each other.
func (m *Events) stored(holders map[kvcache.BlockID]int, e kvcache.Event) {
	run := kvcache.Event{Kind: e.Kind, Tier: e.Tier, Parent: e.Parent, HasParent: e.HasParent}
	flush := func() {
		if len(run.Blocks) > 0 {
			m.merged = append(m.merged, run)
		}
		run.Blocks = nil
	}
	for id := range e.Blocks.All() {
		holders[id]++
		if holders[id] == 1 {
			run.Blocks = run.Blocks.Append(id, 1)
			continue
		}
		flush()
		run.Parent, run.HasParent = id, true
	}
	flush()
}

// removed passes on the blocks that no other rank has left.
func (m *Events) removed(holders map[kvcache.BlockID]int, e kvcache.Event) {
	gone := kvcache.Event{Kind: e.Kind, Tier: e.Tier}
	for id := range e.Blocks.All() {
		holders[id]--
		if holders[id] == 0 {
			delete(holders, id)
			gone.Blocks = gone.Blocks.Append(id, 1)
		}
	}
	if len(gone.Blocks) > 0 {
		m.merged = append(m.merged, gone)
	}
}

// Take appends the merged events to dst and forgets them.
func (m *Events) Take(dst []kvcache.Event) []kvcache.Event {
	dst = append(dst, m.merged...)
	m.merged = m.merged[:0]
	return dst
}
