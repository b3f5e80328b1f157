package job

import (
	"runtime/debug"
	"sync"
	"time"

	"dynosim/gocore/job/memory"
)

// A sweep makes many short runs in one process. What is done once for each of them is kept small here.

// keepBudget is how long the budget of a run is good for the next ones: finding out what the system leaves means to
// read some twenty files.
const keepBudget = 50 * time.Millisecond

// roomForGarbage is memory that is asked for and never touched, so that it takes none. Go collects garbage when the
// heap has doubled; with this in it, small runs no longer collect several times each.
const roomForGarbage = 32 << 20

// A process with a single run has no such room. Its heap may become several times as large as Go would allow at first,
// 16 MB, before garbage is collected: most runs never take as much, and the first collections of a run that does would
// find next to nothing. For ten thousand requests they were a fifth of the processor time.
const (
	usualPercent = 100
	firstPercent = 400
	firstHeap    = 16 << 20
)

// latestBudget is what the runs of this process may take.
var latestBudget budgets

type budgets struct {
	mu     sync.Mutex
	budget budget
	at     time.Time // when it was found out
	spare  []byte    // for garbage, from the second budget on: a process with a single run has none
	small  bool      // the heap of the first run is, and may grow
}

func (b *budgets) get(now time.Time) budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.at.IsZero()
	if age := now.Sub(b.at); !first && age >= 0 && age < keepBudget {
		return b.budget
	}
	room := memory.Free()
	b.letGrow(first && room.Usable > 32*firstHeap)
	if b.spare == nil && !first && room.Usable > 32*roomForGarbage {
		b.spare = make([]byte, roomForGarbage)
	}
	b.budget, b.at = newBudget(room), now
	return b.budget
}

// letGrow begins or ends that the heap may grow as that of a small first run. If the user has chosen how it grows, it
// never does.
func (b *budgets) letGrow(small bool) {
	if b.small == small {
		return
	}
	percent := usualPercent
	if small {
		percent = firstPercent
	}
	before := debug.SetGCPercent(percent)
	if small && before != usualPercent {
		debug.SetGCPercent(before)
		small = false
	}
	b.small = small
}

// growsBeyond ends that if Go has taken as much memory as used.
func (b *budgets) growsBeyond(used int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if used > firstHeap {
		b.letGrow(false)
	}
}
