package job

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestBudgetsOfASweep has runs that begin soon after each other share a budget, and only a process with several runs
// give its garbage room.
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

// TestHeapOfTheFirstRun: the heap may grow at first, until it is large or another run begins.
func TestHeapOfTheFirstRun(t *testing.T) {
	memoryLimit := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(memoryLimit)
	before := debug.SetGCPercent(usualPercent)
	defer debug.SetGCPercent(before)
	percent := func() int {
		now := debug.SetGCPercent(usualPercent)
		debug.SetGCPercent(now)
		return now
	}
	for _, c := range []struct {
		name string
		then func(*budgets)
		want int
	}{
		{"a small run", func(b *budgets) { b.growsBeyond(firstHeap) }, firstPercent},
		{"a large run", func(b *budgets) { b.growsBeyond(firstHeap + 1) }, usualPercent},
		{"another run", func(b *budgets) { b.get(time.Now().Add(time.Hour)) }, usualPercent},
	} {
		var b budgets
		if b.get(time.Now()); b.budget.room.Usable <= 32*firstHeap {
			t.Skip("too little memory is free")
		}
		c.then(&b)
		if got := percent(); got != c.want {
			t.Errorf("%s: the heap may grow by %d %%, want %d", c.name, got, c.want)
		}
		debug.SetGCPercent(usualPercent)
	}
	debug.SetGCPercent(50)
	var b budgets
	if b.get(time.Now()); percent() != 50 {
		t.Errorf("got %d %%, want the 50 that the user has chosen", percent())
	}
}

// TestLargeHeapWithoutLimit: a heap that has become large grows as usual also where no limit of the memory is known.
func TestLargeHeapWithoutLimit(t *testing.T) {
	before := debug.SetGCPercent(usualPercent)
	defer debug.SetGCPercent(before)
	small := func() bool {
		latestBudget.mu.Lock()
		defer latestBudget.mu.Unlock()
		return latestBudget.small
	}
	latestBudget.mu.Lock()
	latestBudget.letGrow(true)
	latestBudget.mu.Unlock()
	heap := make([]byte, 2*firstHeap)
	if err := (budget{limit: math.MaxInt64}).check(); err != nil || small() {
		t.Errorf("the heap may still grow faster: %v, error %v", small(), err)
	}
	runtime.KeepAlive(heap)
}
