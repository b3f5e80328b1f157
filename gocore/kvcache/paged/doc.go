// Package paged is the block pool of the vLLM-style engine: a fixed number of slots, each free, active or inactive.
//
//	          Use                      last reference dropped
//	free ------------> active (full) ------------------------> inactive (cached, evictable)
//	  ^                  ^   |  ^                                 |          |
//	  |   last reference |   |  +------------- prefix hit --------+          |
//	  +---- (partial) ---+---+                                               |
//	  +------------------------------- evicted by Use -----------------------+
//
// A request holds an ordered list of slots: full blocks, found by BlockID and shared by all requests with the same
// prefix, and at most one partial block at the end, its own. Use acquires the next stretch of that list, all or
// nothing; Promote makes a partial block full; Release gives everything back, deepest block first. Reserve keeps room
// for a prompt that is still computed or copied elsewhere; Activate turns it into what a request holds.
//
// Invariants, checked by Pool.check in the tests:
//
//   - free + active + inactive = capacity; a block shared by many requests counts once.
//   - A BlockID occupies at most one slot.
//   - Inactive blocks have no reference, active ones at least one. At most all references of a block are pins, those of
//     reservations.
//   - A Use that fails changes nothing but the age of the inactive blocks it touched (and their uses, for MultiLRU).
//
// A block can be hit from the moment it is allocated, before its compute has finished: two identical prompts in one
// pass share everything. pool.go is the pool, eviction.go the order in which inactive blocks go, table.go holds the
// full blocks and finds them by id, reserve.go keeps room for prompts to come. Of partial blocks only the number is
// kept.
package paged
