package job

import (
	"runtime/debug"
	"testing"
	"time"
)

// TestBudgetsOfASweep has runs that begin soon after each other share a budget, and only a process with several runs give its
// garbage room.
func TestBudgetsOfASweep(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	var b budgets
	now := time.Now()
	first := b.get(now)
	if b.spare != nil {
		t.Error("the first run has room for garbage")
	}
	b.budget.limit++ // as if something else had changed
	if again := b.get(now.Add(keepBudget / 2)); again.limit != first.limit+1 {
		t.Errorf("soon after: got limit %d, want the one before, %d", again.limit, first.limit+1)
	}
	const stale = 12345
	b.budget.limit = stale
	for _, later := range []time.Duration{keepBudget, -time.Second} { // clocks may be set back
		if again := b.get(now.Add(later)); again.limit == stale {
			t.Errorf("%v later: the budget has not been found out again", later)
		}
		b.budget.limit = stale
	}
	if roomy := b.budget.room.Usable > 32*roomForGarbage; roomy != (b.spare != nil) {
		t.Errorf("room for garbage: %d bytes, with %d left", len(b.spare), b.budget.room.Usable)
	}
}
