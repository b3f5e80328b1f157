package kvcache

import "slices"

// EventKind tells a block that became available for reuse from one that is gone.
type EventKind uint8

const (
	Stored EventKind = iota
	Removed
)

// Event announces blocks to whoever tracks what a worker has cached: the router, or subscribers of a live worker. The
// blocks of a Stored event follow each other in one sequence; Parent is the block before the first of them, when there
// is one. Removed lists blocks in eviction order.
type Event struct {
	Kind      EventKind
	Blocks    []BlockID
	Parent    BlockID
	HasParent bool
}

// Clone is a copy with blocks of its own. Pools use the room of their events again.
func (e Event) Clone() Event {
	e.Blocks = slices.Clone(e.Blocks)
	return e
}
