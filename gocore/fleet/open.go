package fleet

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/kvcache"
)

// What follows is for a world whose requests come from outside, one by one, and may be taken back. It has a [Watcher],
// and moves the clock itself, with [Fleet.Until] and [Fleet.Happen] in place of [Fleet.Run].

// Watcher sees what every pass brings, at the time at which it does.
type Watcher interface {
	// PassEnded is called when a pass ends, before anything that follows from it.
	PassEnded(p *Pool, i int, pass *engine.Pass)
	// CacheChanged is called when a worker has stored blocks or removed some, of every pool and whatever its router
	// wants to know.
	CacheChanged(p *Pool, i int, events []kvcache.Event)
	// Gone is called when nothing in the fleet knows a request any more: its id may be used again.
	Gone(id engine.RequestID)
	// Stuck is called when nothing is going to happen any more. It reports whether it has given a request up.
	Stuck() (changed bool, err error)
}

// NextMs returns when something happens next, if nothing comes from outside.
func (f *Fleet) NextMs() (float64, bool) { return f.sooner(f.nextEventMs()) }

// Until lets everything happen that is due before atMs, in the order of time, and moves the clock to atMs. It never
// goes back.
func (f *Fleet) Until(atMs float64) error {
	for {
		next, due := f.NextMs()
		if !due || next >= atMs {
			break
		}
		f.advance(next)
		if err := f.Happen(); err != nil {
			return err
		}
	}
	if atMs > f.nowMs {
		f.advance(atMs)
	}
	return nil
}

// Happen lets everything happen that is due now.
func (f *Fleet) Happen() error {
	for {
		if err := f.instant(); err != nil {
			return err
		}
		if _, due := f.NextMs(); due {
			return nil
		}
		if f.flow.unblock() {
			continue
		}
		if changed, err := f.Watcher.Stuck(); err != nil || !changed {
			return err
		}
	}
}

// Withdraw takes a request back that has come to the fleet and is not over. Nothing more that it does is seen, and
// [World.Over] is not called. Its workers forget it as soon as they are idle.
func (f *Fleet) Withdraw(id engine.RequestID) error {
	f.withdrawn[id] = struct{}{}
	return f.flow.recall(id, func(p *Pool, i int) { f.takeBack(p, i, id) })
}

// takeBack has a worker forget a request as soon as it is idle.
func (f *Fleet) takeBack(p *Pool, i int, id engine.RequestID) {
	if w := &p.workers[i]; w.Busy() {
		w.withdrawn = append(w.withdrawn, id)
	} else {
		f.forget(p, i, id)
	}
}

// forgetWithdrawn has a worker whose pass has ended forget the requests that were taken back meanwhile.
func (f *Fleet) forgetWithdrawn(p *Pool, i int) {
	w := &p.workers[i]
	for _, id := range w.withdrawn {
		f.forget(p, i, id)
	}
	w.withdrawn = w.withdrawn[:0]
}

func (f *Fleet) forget(p *Pool, i int, id engine.RequestID) {
	p.Cancel(i, id)
	f.flow.left(id)
}

// Empty gives a worker that has nothing to do a new engine, whose cache is empty. removed are the blocks that were in
// it. It reports false if the worker has a request or a pass.
func (p *Pool) Empty(i int, removed []kvcache.Event) bool {
	w := &p.workers[i]
	if w.Engine == nil || !w.empty() {
		return false
	}
	p.cacheChanged(i, removed)
	p.start(i)
	p.updateReady(i)
	return true
}

// gone tells the world that a request is gone.
func (f *Fleet) gone(id engine.RequestID) {
	if f.Watcher != nil {
		delete(f.withdrawn, id)
		f.Watcher.Gone(id)
	}
}
