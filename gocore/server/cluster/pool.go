package cluster

import (
	"math/bits"

	"dynosim/gocore/engine"
	shares "dynosim/gocore/engines/emission"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/naming"
	"dynosim/gocore/router"
	"dynosim/gocore/worker"
)

// emission is how many tokens of a request have been emitted.
type emission = shares.State

// Emission implements [shares.Request].
func (r *Request) Emission() *shares.State { return &r.state }

// pool is workers that are alike, and their router.
type pool struct {
	router   router.Router
	observes bool // whether the router does
	workers  []poolWorker
	ready    []uint64 // set of idle workers that own a request
}

// poolWorker is a worker, of which source or destination is set in a pool of prefill or of decode workers.
type poolWorker struct {
	worker.Worker
	reporter    engine.Reporter
	source      engine.Source
	destination engine.Destination
	broken      func() error // why durations cannot be determined; nil if they can

	emitting shares.Set[*Request]
	cached   naming.Cache
	counts   Counts
	deferred []nextAction // that wait for the end of the pass
	leaving  []*Request   // cancelled while the pass runs
	named    [][]uint32   // blocks of requests that have left, until the events of the next pass are known
}

func newPool(c *Pool) pool {
	p := pool{router: c.Router.Make(c.Workers), workers: make([]poolWorker, c.Workers), ready: make([]uint64, (c.Workers+63)/64)}
	p.observes = p.router.Traits().Observes && c.Args.Role != engine.Decode
	for i := range p.workers {
		p.workers[i] = newWorker(c, i)
	}
	return p
}

func newWorker(c *Pool, i int) poolWorker {
	setup := c.Setup(i)
	w := poolWorker{Worker: worker.New(c.Args, setup), cached: naming.Cache{}, broken: func() error { return nil }}
	if model, asks := setup.Model.(interface{ Err() error }); asks {
		w.broken = model.Err
	}
	w.reporter = w.Engine.(engine.Reporter) // all are
	switch c.Args.Role {
	case engine.Prefill:
		w.source = w.Engine.(engine.Source)
	case engine.Decode:
		w.destination = w.Engine.(engine.Destination)
	}
	w.Engine.Observe()
	return w
}

// updateReady updates whether worker i can start a pass.
func (p *pool) updateReady(i int) {
	if w := &p.workers[i]; !w.Busy() && w.Engine.Requests() > 0 {
		p.ready[i/64] |= 1 << (i % 64)
	} else {
		p.ready[i/64] &^= 1 << (i % 64)
	}
}

// nextReady is the first ready worker from a place on.
func (p *pool) nextReady(from int) (int, bool) {
	for word := from / 64; word < len(p.ready); word++ {
		set := p.ready[word]
		if word == from/64 {
			set &= ^uint64(0) << (from % 64)
		}
		if set != 0 {
			return word*64 + bits.TrailingZeros64(set), true
		}
	}
	return 0, false
}

// startPasses starts a pass on every ready worker, and begins again with the first one after each, as a pass may make another worker
// ready. A pass without duration is applied at once; if it had no effect either, its worker is tried again only after something
// else has happened.
func (c *Cluster) startPasses(pool int) (changed bool) {
	p := &c.pools[pool]
	for i, ok := p.nextReady(0); ok && c.failure == nil; {
		w := &p.workers[i]
		pass, alive := w.Engine.RunPass(c.nowMs)
		if err := w.broken(); err != nil {
			c.fail(err)
			return true
		}
		c.passStarted(pool, w, pass)
		if !alive || pass.Idle() {
			i, ok = p.nextReady(i + 1)
			continue
		}
		if pass.KVEventsAtMs <= pass.StartMs {
			c.cacheChanged(pool, i, pass.KVEvents)
		}
		w.Pass = pass
		if len(pass.Admitted) > 0 {
			c.loadChanged(pool, i)
		}
		if pass.EndMs > c.nowMs {
			p.updateReady(i)
			c.push(pass.EndMs, event{pool: pool, worker: i})
		} else {
			c.endPass(pool, i)
		}
		changed = true
		i, ok = p.nextReady(0)
	}
	return changed
}

// passStarted tells requests that their prompts begin to be computed.
func (c *Cluster) passStarted(pool int, w *poolWorker, pass *engine.Pass) {
	w.counts.Preemptions += pass.Preempted
	for _, a := range pass.Admitted {
		r, known := c.requests[a.ID]
		if !known || r.admitted { // a preempted request is admitted again, one of two pools by each of them
			continue
		}
		r.admitted = true
		w.counts.LookedUp += r.PromptTokens
		w.counts.Reused += a.ReusedTokens
		if r.status == active {
			r.Sink.Admitted(a.ReusedTokens, pass.StartMs)
		}
	}
}

// cacheChanged follows the cache of a worker, and tells the router.
func (c *Cluster) cacheChanged(pool, i int, events []kvcache.Event) {
	p := &c.pools[pool]
	w := &p.workers[i]
	c.apply(w.cached, events)
	if p.observes {
		p.router.Apply(i, events)
	}
	for _, blocks := range w.named {
		c.names.Release(blocks)
	}
	clear(w.named)
	w.named = w.named[:0]
}

// endPass makes the end of a pass visible.
func (c *Cluster) endPass(pool, i int) {
	p := &c.pools[pool]
	w := &p.workers[i]
	pass := w.Pass
	w.Pass = nil
	if pass.KVEventsAtMs > pass.StartMs {
		c.cacheChanged(pool, i, pass.KVEvents)
	}
	switch {
	case w.source != nil:
		c.endPrefill(pass, w)
	case w.destination != nil:
		c.endDecode(pass, w)
	default:
		c.endAggregated(pass, w)
	}
	for _, a := range w.deferred {
		c.actions.PushBack(a)
	}
	w.deferred = w.deferred[:0]
	leaving := w.leaving
	w.leaving = nil
	for _, r := range leaving {
		if r.status == cancelled {
			c.withdraw(r)
		}
	}
	p.updateReady(i)
	c.loadChanged(pool, i)
}

// endAggregated hands tokens to requests; then routers hear of first and last tokens.
func (c *Cluster) endAggregated(pass *engine.Pass, w *poolWorker) {
	c.emit(pass, w)
	p := &c.pools[0]
	for _, s := range pass.Signals {
		switch {
		case s.Final:
			c.end(c.requests[s.ID], 0, w, "")
		case p.observes:
			c.dispatch(p.router.PrefillCompleted(int32(s.ID), c.nowMs))
		}
	}
	c.reject(pass, 0, w)
}

func (c *Cluster) reject(pass *engine.Pass, pool int, w *poolWorker) {
	for _, rejected := range pass.Rejected {
		c.end(c.requests[rejected.ID], pool, w, "request rejected: "+rejected.Reason)
	}
}

// emit hands the tokens of a pass to their requests.
func (c *Cluster) emit(pass *engine.Pass, w *poolWorker) {
	w.counts.Drafts += pass.CountDrafts(&w.counts.Accepted)
	find := func(id engine.RequestID) *Request { return c.requests[id] }
	for _, s := range w.emitting.Book(pass, find, w.Engine.States) {
		if s.Request.state.Emitted == s.Tokens && w.destination == nil {
			w.counts.Prompt += s.Request.PromptTokens
		}
		w.counts.Generated += s.Tokens
		if s.Request.status == active {
			s.Request.Sink.Emitted(s.Tokens, pass.EndMs)
		}
	}
}

// loadChanged reports the load of a worker.
func (c *Cluster) loadChanged(pool, i int) {
	if c.config.Loaded == nil {
		return
	}
	w := &c.pools[pool].workers[i]
	l := Load{Counts: w.counts}
	l.Waiting, l.Running, l.UsedBlocks = w.reporter.Load()
	c.config.Loaded(pool, i, l)
}

// unblock helps engines that have requests and can run no pass while nothing else is going to happen on any worker. It reports
// whether there was something to do.
func (c *Cluster) unblock() (changed bool) {
	if c.events.Len() > 0 || len(c.requests) == 0 {
		return false
	}
	for i := range c.pools {
		for j := range c.pools[i].workers {
			w := &c.pools[i].workers[j]
			if w.destination != nil && c.tryReserve(j) {
				changed = true
			}
			if w.Engine.Requests() > 0 && w.Engine.Unblock() {
				changed = true
			}
		}
	}
	return changed || c.giveUp()
}

// giveUp fails the oldest request of the first worker that has one; if they wait elsewhere, the oldest of all.
func (c *Cluster) giveUp() bool {
	r := c.oldest()
	if r == nil {
		return false
	}
	r.Sink.Ended("the KV pool cannot hold this request beside the others", c.nowMs)
	c.cancel(r)
	return true
}

// oldest is the request to give up, nil if there is none.
func (c *Cluster) oldest() (found *Request) {
	for i := range c.pools {
		for j := range c.pools[i].workers {
			for _, s := range c.pools[i].workers[j].Engine.States() {
				if r := c.requests[s.ID]; r != nil && r.status == active {
					return r
				}
			}
		}
	}
	for _, r := range c.requests {
		if r.status == active && (found == nil || r.state.ID < found.state.ID) {
			found = r
		}
	}
	return found
}
