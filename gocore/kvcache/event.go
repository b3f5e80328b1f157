package kvcache

import "slices"

// EventKind tells a block that became available for reuse from one that is gone. Held and LetGo
// are about names only: from the one to the other a tier below the device has a block, or is going to have it.
type EventKind uint8

const (
	Stored EventKind = iota
	Removed
	Held
	LetGo
)

// Event announces that one tier of a worker's cache has stored blocks or removed them, for routers and the subscribers
// of live workers. The blocks of a Stored event follow each other in one sequence; Parent is the block before the first
// of them, when there is one. Removed lists blocks in eviction order. A block that moves to another tier is stored
// there and removed here, in two events. Groups of layers each have a copy of a block of their own: an event is about
// those of one group. Rank is the data-parallel rank whose cache it is, of workers that report each by itself; else 0.
type Event struct {
	Kind      EventKind
	Tier      Tier
	Rank      int32
	Group     int // of layers; 0 has those of full attention
	Blocks    Blocks
	Parent    BlockID
	HasParent bool
}

// Apart divides events of a worker into those of what it shares with others, and its own.
func Apart(events []Event) (shared, own []Event) {
	if !slices.ContainsFunc(events, func(e Event) bool { return e.Tier.Shared() }) {
		return nil, events
	}
	for _, e := range events {
		if e.Tier.Shared() {
			shared = append(shared, e)
		} else {
			own = append(own, e)
		}
	}
	return shared, own
}

// Clone returns a copy with blocks of its own. Pools use the room of their events again.
func (e Event) Clone() Event {
	e.Blocks = slices.Clone(e.Blocks)
	return e
}
