package job

import (
	"math"
	"runtime"
	"runtime/debug"
	"sync"
)

// thriftFrom is the number of requests from which a run is thrifty.
const thriftFrom = 1 << 19

// thriftPercent is by how much the heap of thrifty runs may grow between two collections of garbage. What they hold is
// a few long lists of numbers, which collections need not look into.
const thriftPercent = 25

// thrift counts the runs of this process that are thrifty, and remembers what Go did before.
var thrift struct {
	mu     sync.Mutex
	runs   int
	before int
}

// beThrifty makes Go collect garbage now, and more often until end is called: what was needed to read a trace is over.
func beThrifty() (end func()) {
	thrift.mu.Lock()
	defer thrift.mu.Unlock()
	if thrift.runs++; thrift.runs == 1 {
		latestBudget.growsBeyond(math.MaxInt64)
		thrift.before = debug.SetGCPercent(thriftPercent)
	}
	runtime.GC()
	return func() {
		thrift.mu.Lock()
		defer thrift.mu.Unlock()
		if thrift.runs--; thrift.runs == 0 {
			debug.SetGCPercent(thrift.before)
		}
	}
}
