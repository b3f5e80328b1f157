package fleet

import (
	"math/bits"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/router"
	"dynosim/gocore/worker"
)

// PoolConfig describes workers that are alike, and their router.
type PoolConfig struct {
	Role    engine.Role
	Args    engineargs.Args
	Workers int // that are active from the start
	Router  router.Factory
	// Setup returns what the engine of a worker gets besides its arguments.
	Setup func(worker int) engine.Setup
	// CoastWithBursts lets workers coast while they decode speculatively: how many tokens of a request came in each
	// pass of a coast is not recorded.
	CoastWithBursts bool
}

// Pool is workers that are alike, and their router.
type Pool struct {
	PoolConfig
	fleet    *Fleet
	index    int
	router   router.Router
	observes bool // the router does, and may
	workers  []Worker
	ready    workerSet // idle workers that own a request
	coasting workerSet
	swept    int // workers below have been asked to start a pass at this instant
	hooks    *Hooks

	lifecycle
	targets targets
	tally   tally
	late    router.LateNews
	kept    []action // that need an active worker
}

// Worker is a worker, of which source or destination, puller, or pusher is set in a pool of prefill or decode workers.
type Worker struct {
	worker.Worker
	source      engine.Source
	destination engine.Destination
	puller      engine.Puller      // instead of both
	pusher      engine.Pusher      // instead of all of these
	deferred    []action           // that wait for the end of its pass
	withdrawn   []engine.RequestID // that it is to forget at the end of its pass
	onWay       int                // requests on their way to its scheduler, unless the engine delays them by itself

	due          int64   // the event that ends its pass or coast; others are out of date
	coast        int64   // number of its coast, and of the event if the first pass is the last one
	coastSinceMs float64 // when the coast began
	passed       int     // passes of the coast that have ended, if the fleet tracks that
}

// open makes the router and the first workers of the pool.
func (p *Pool) open(f *Fleet, index int) {
	p.PoolConfig, p.fleet, p.index = f.Config.Pools[index], f, index
	p.targets.each = p.Args.Targets()
	p.router = p.Router.Make(p.Workers * p.targets.each)
	p.observes = p.router.Traits().Observes && p.Role != engine.Decode
	p.late.LagMs = f.KVEventLagMs
	p.workers = make([]Worker, p.Workers)
	p.ready, p.coasting = newWorkerSet(p.Workers), newWorkerSet(p.Workers)
	p.lifecycle = newLifecycle(p)
	for i := range p.workers {
		p.start(i)
		if p.CoastWithBursts {
			p.workers[i].CoastWithBursts()
		}
	}
}

// start makes the engine of worker i.
func (p *Pool) start(i int) {
	w := &p.workers[i]
	w.Worker = worker.New(p.Args, p.Setup(i))
	if p.observes || p.fleet.Watcher != nil {
		p.observe(w.Engine)
	}
	p.fleet.flow.equip(p, i)
}

// Worker returns a worker. It has no engine if it is gone or has not started.
func (p *Pool) Worker(i int) *worker.Worker { return &p.workers[i].Worker }

// Index returns the number of the pool: 1 for that of decode workers.
func (p *Pool) Index() int { return p.index }

// Len returns the number of workers that there have been, those that are starting included.
func (p *Pool) Len() int { return len(p.workers) }

// halted reports whether a worker can start no pass.
func (p *Pool) halted(i int) bool { return p.hooks != nil && p.hooks.Halted(i) }

// reachable reports whether a worker can be told something.
func (p *Pool) reachable(i int) bool { return p.hooks == nil || !p.hooks.Unreachable(i) }

// delays reports whether an action on a worker has to wait: the worker is busy, or cannot be reached.
func (p *Pool) delays(i int) bool { return p.workers[i].Busy() || !p.reachable(i) }

// accepts reports whether a worker gets a request that was sent there.
func (p *Pool) accepts(i int, id engine.RequestID) bool {
	return p.hooks == nil || p.hooks.Accepts(i, id)
}

// over reports whether nothing that a request does is to be seen any more.
func (p *Pool) over(id engine.RequestID) bool {
	if p.hooks != nil && p.hooks.Over(id) {
		return true
	}
	_, withdrawn := p.fleet.withdrawn[id]
	return withdrawn
}

// cacheChanged tells the router what a worker has stored and removed.
func (p *Pool) cacheChanged(i int, events []kvcache.Event) {
	if w := p.fleet.Watcher; w != nil {
		w.CacheChanged(p, i, events)
		if !p.observes {
			return
		}
	}
	if h := p.hooks; h != nil {
		h.CacheChanged(i, events)
		return
	}
	p.targets.tell(&p.late, p.router, i, events, p.fleet.nowMs)
}

// Refresh updates whether a worker can start a pass.
func (p *Pool) Refresh(i int) { p.updateReady(i) }

func (p *Pool) updateReady(i int) {
	if w := &p.workers[i]; w.Engine != nil && !w.Busy() && w.wantsPass() && !p.halted(i) {
		p.ready.add(i)
	} else {
		p.ready.remove(i)
	}
}

// wantsPass reports whether an idle worker has something to do, as far as it knows.
func (w *Worker) wantsPass() bool {
	switch {
	case w.puller != nil:
		return w.puller.Awake()
	case w.pusher != nil:
		return w.pusher.Awake()
	}
	return w.Engine.Requests() > 0
}

// workerSet is a set of worker indices that can be walked in ascending order.
type workerSet []uint64

func newWorkerSet(workers int) workerSet { return make(workerSet, (workers+63)/64) }

func (s workerSet) add(i int)    { s[i/64] |= 1 << (i % 64) }
func (s workerSet) remove(i int) { s[i/64] &^= 1 << (i % 64) }

func (s workerSet) empty() bool {
	_, ok := s.next(0)
	return !ok
}

// next returns the smallest member that is at least from.
func (s workerSet) next(from int) (int, bool) {
	for word := from / 64; word < len(s); word++ {
		members := s[word]
		if word == from/64 {
			members &= ^uint64(0) << (from % 64)
		}
		if members != 0 {
			return word*64 + bits.TrailingZeros64(members), true
		}
	}
	return 0, false
}

// all walks the set, whose members may leave it meanwhile.
func (s workerSet) all(yield func(int) bool) {
	i, ok := s.next(0)
	for ok && yield(i) {
		i, ok = s.next(i + 1)
	}
}

// withRoom returns the set with room for worker i.
func (s workerSet) withRoom(i int) workerSet {
	for len(s) <= i/64 {
		s = append(s, 0)
	}
	return s
}
