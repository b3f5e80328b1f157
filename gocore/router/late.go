package router

import (
	"slices"

	"dynosim/gocore/kvcache"
)

// LateNews is changes of caches that a router has not heard of yet. All of them take equally long, so they come in the
// order in which they happened. Its zero value tells the router at once.
//
// A router decides nothing when it learns of a cache, so these need no events of their own: it is enough that
// [LateNews.CatchUp] is called before the router is asked the next time.
type LateNews struct {
	LagMs float64 // how long a change takes
	queue []lateChange
}

// lateChange is what a worker has stored and removed at one time.
type lateChange struct {
	atMs   float64 // when the router learns of it
	worker int
	events []kvcache.Event
}

// Tell tells a router what a worker has stored and removed, now or after the lag. The events may be used again after it
// returns.
func (l *LateNews) Tell(r Router, worker int, events []kvcache.Event, nowMs float64) {
	if l.LagMs == 0 {
		r.Apply(worker, events)
		return
	}
	if len(events) == 0 {
		return
	}
	kept := slices.Clone(events) // engines use their room again
	for n := range kept {
		kept[n] = kept[n].Clone()
	}
	l.queue = append(l.queue, lateChange{nowMs + l.LagMs, worker, kept})
}

// Pending reports whether there are changes that the router has not heard of.
func (l *LateNews) Pending() bool { return len(l.queue) > 0 }

// CatchUp tells the router of the changes that it learns of by now.
func (l *LateNews) CatchUp(r Router, nowMs float64) {
	n := 0
	for ; n < len(l.queue) && l.queue[n].atMs <= nowMs; n++ {
		r.Apply(l.queue[n].worker, l.queue[n].events)
	}
	l.queue = l.queue[n:]
}

// Forget drops the changes of a worker that is gone, but not those of what it shared with others.
func (l *LateNews) Forget(worker int) {
	kept := l.queue[:0]
	for _, c := range l.queue {
		if c.worker == worker {
			c.events, _ = kvcache.Apart(c.events)
		}
		if len(c.events) > 0 {
			kept = append(kept, c)
		}
	}
	l.queue = kept
}
