package fleet

import (
	"slices"

	"dynosim/gocore/kvcache"
)

// lateNews is changes of caches that a router has not heard of yet. All of them take equally long, so they come in the order in
// which they happened.
//
// They are no events of the loop: a router decides nothing when it hears of a cache. It is enough that it has heard of everything
// that is due before it is asked the next time, which [Fleet.advance] sees to.
type lateNews struct {
	lagMs float64 // 0 tells the router at once
	queue []lateChange
}

// lateChange is what a worker has stored and removed at one time.
type lateChange struct {
	atMs   float64 // when the router hears of it
	worker int
	events []kvcache.Event
}

// tell tells the router what a worker has stored and removed, now or after the lag.
func (p *Pool) tell(i int, events []kvcache.Event) {
	if p.late.lagMs == 0 {
		p.router.Apply(i, events)
		return
	}
	if len(events) == 0 {
		return
	}
	kept := slices.Clone(events) // engines use their room again
	for n := range kept {
		kept[n] = kept[n].Clone()
	}
	p.late.queue = append(p.late.queue, lateChange{p.fleet.nowMs + p.late.lagMs, i, kept})
}

// catchUpNews tells the router of the changes that it hears of by now.
func (p *Pool) catchUpNews(nowMs float64) {
	n := 0
	for ; n < len(p.late.queue) && p.late.queue[n].atMs <= nowMs; n++ {
		p.router.Apply(p.late.queue[n].worker, p.late.queue[n].events)
	}
	p.late.queue = p.late.queue[n:]
}

// forgetNews drops the changes of a worker that is gone.
func (p *Pool) forgetNews(i int) {
	p.late.queue = slices.DeleteFunc(p.late.queue, func(c lateChange) bool { return c.worker == i })
}
