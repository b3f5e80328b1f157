package job

import (
	"sync"
	"time"

	"dynosim/gocore/job/memory"
)

// A sweep makes many short runs in one process. What is done once for each of them is kept small here.

// keepBudget is how long the budget of a run is good for the next ones: finding out what the system leaves means to read some
// twenty files.
const keepBudget = 50 * time.Millisecond

// roomForGarbage is memory that is asked for and never touched, so that it takes none. Go collects garbage when the heap
// has doubled; with this in it, small runs no longer collect several times each.
const roomForGarbage = 32 << 20

// latestBudget is what the runs of this process may take.
var latestBudget budgets

type budgets struct {
	mu     sync.Mutex
	budget budget
	at     time.Time // when it was found out
	spare  []byte    // for garbage, from the second budget on: a process with a single run has none
}

func (b *budgets) get(now time.Time) budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.at.IsZero()
	if age := now.Sub(b.at); !first && age >= 0 && age < keepBudget {
		return b.budget
	}
	room := memory.Free()
	if b.spare == nil && !first && room.Usable > 32*roomForGarbage {
		b.spare = make([]byte, roomForGarbage)
	}
	b.budget, b.at = newBudget(room), now
	return b.budget
}
