package paged

import "dynosim/gocore/kvcache"

// Policy is the order in which inactive blocks are evicted.
type Policy uint8

const (
	// Lineage evicts, among the inactive blocks without an inactive child, the one that became inactive first.
	//
	// Requests release their deepest block first, so a parent never becomes inactive before its children, and the rule
	// is a plain queue. The one exception, a failed Use that puts blocks back root first, is covered by putting them
	// back deepest first (Pool.putBack). The tests compare this queue with the forest of the definition.
	Lineage Policy = iota
	// LRU evicts the block that became inactive first, whatever depends on it.
	LRU
	// MultiLRU keeps four queues by how often a block was used and evicts the oldest of the coldest.
	MultiLRU
)

// numQueues is the number of eviction queues; all policies but MultiLRU use only the first.
const numQueues = 4

// warmFrom are the estimated uses from which a block belongs to queues 1, 2 and 3 of MultiLRU.
var warmFrom = [numQueues - 1]int{3, 8, 15}

// evictionQueues decides which queue a block enters when it becomes inactive.
type evictionQueues struct {
	uses *sketch // nil unless MultiLRU
}

func newEvictionQueues(policy Policy, capacity int) evictionQueues {
	if policy != MultiLRU {
		return evictionQueues{}
	}
	return evictionQueues{uses: newSketch(capacity)}
}

// touch counts one use: an inactive block that was found again, even by a Use that then fails, or a block that is new
// to the pool. A hit on a block that a request holds does not count.
func (q evictionQueues) touch(id kvcache.BlockID) {
	if q.uses != nil {
		q.uses.increment(uint64(id))
	}
}

// queueOf returns the queue for a block.
func (q evictionQueues) queueOf(id kvcache.BlockID) int {
	if q.uses == nil {
		return 0
	}
	level, uses := 0, q.uses.estimate(uint64(id))
	for _, from := range warmFrom {
		if uses >= from {
			level++
		}
	}
	return level
}

// oldest returns the next victim. There must be an inactive block.
func (p *Pool) oldest() Slot {
	for q := range numQueues {
		if first, ok := p.full.front(q); ok {
			return first
		}
	}
	panic("paged: nothing to evict")
}
