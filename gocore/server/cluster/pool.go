package cluster

import (
	"dynosim/gocore/engine"
	shares "dynosim/gocore/engines/emission"
	"dynosim/gocore/fleet"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/naming"
	"dynosim/gocore/router"
)

// emission is how many tokens of a request have been emitted.
type emission = shares.State

// Emission implements [shares.Request].
func (r *Request) Emission() *shares.State { return &r.state }

// watched is what the cluster knows of a worker besides the fleet.
type watched struct {
	broken    func() error // why durations cannot be determined; nil if they can
	emitting  shares.Set[*Request]
	cached    [][]naming.Cache // as cachesOf makes them
	counts    Counts
	published publishedCache // what others know of its cache
	named     [][]uint32     // blocks of requests that have left, until the events of the next pass are known
	changed   bool           // its load may have
}

// setup returns what the engine of a worker gets besides its arguments.
func (c *Cluster) setup(pool, i int) engine.Setup {
	p, w := &c.config.Pools[pool], &c.workers[pool][i]
	setup := p.Setup(i)
	setup.Role, setup.LowerTiers, setup.Names = p.Args.Role, true, true
	w.cached, w.broken = cachesOf(p.Args), func() error { return nil }
	w.published = publishedCache{}
	if policies := c.config.Policies; policies != nil {
		setup.Policy = policies.Of(p.Args.Role, i, c.about)
	}
	if model, asks := setup.Model.(interface{ Err() error }); asks {
		w.broken = model.Err
	}
	return setup
}

// about returns what policies of engines know of a request.
func (c *Cluster) about(id engine.RequestID) (router.Request, float64) {
	return inside{c}.ForRouter(engine.Request{ID: id}), c.requests[id].sinceMs
}

// worker returns a worker whose load may have changed.
func (c *Cluster) worker(pool, i int) *watched {
	w := &c.workers[pool][i]
	w.changed = true
	return w
}

// touch notes that the load of the worker may have changed that has a request in a pool.
func (c *Cluster) touch(pool int, id engine.RequestID) {
	if i := c.requests[id].workers[pool]; i != unassigned {
		c.worker(pool, int(i))
	}
}

// reportLoads reports the loads that have changed.
func (c *Cluster) reportLoads() {
	if c.config.Loaded == nil {
		return
	}
	for k := range c.workers {
		for i := range c.workers[k] {
			w := &c.workers[k][i]
			if !w.changed {
				continue
			}
			w.changed = false
			l := Load{Counts: w.counts}
			l.Waiting, l.Running, l.UsedBlocks = c.reporter(k, i).Load()
			c.config.Loaded(k, i, l)
		}
	}
}

func (c *Cluster) reporter(pool, i int) engine.Reporter {
	return c.fleet.Pools()[pool].Worker(i).Engine.(engine.Reporter) // all are
}

// Routed implements [fleet.Recorder].
func (c inside) Routed(p *fleet.Pool, i int, id engine.RequestID, overlapTokens int) {
	if r := c.requests[id]; c.listens(r) {
		r.Sink.Routed(p.Index(), i, overlapTokens)
	}
}

// Joined implements [fleet.Recorder].
func (c inside) Joined(p *fleet.Pool, i int, id engine.RequestID) {
	c.requests[id].workers[p.Index()] = int32(i)
	c.worker(p.Index(), i)
}

// PassStarted implements [fleet.Recorder]: prompts begin to be computed.
func (c inside) PassStarted(p *fleet.Pool, i int, pass *engine.Pass) {
	w := &c.workers[p.Index()][i]
	c.fail(w.broken())
	if c.config.Policies != nil {
		c.fail(c.config.Policies.Err())
	}
	w.counts.Preemptions += pass.Preempted
	for _, a := range pass.Admitted {
		w.changed = true
		r := c.requests[a.ID]
		if r.admitted { // a preempted request is admitted again, one of two pools by each of them
			continue
		}
		r.admitted = true
		w.counts.LookedUp += r.PromptTokens
		w.counts.Reused += a.ReusedTokens
		if c.listens(r) {
			r.Sink.Admitted(a.ReusedTokens, pass.StartMs)
		}
	}
}

// PassEnded implements [fleet.Watcher]: tokens are there, or prompts.
func (c inside) PassEnded(p *fleet.Pool, i int, pass *engine.Pass) {
	w := c.worker(p.Index(), i)
	if p.Role == engine.Prefill {
		for _, id := range pass.Held {
			w.counts.Prompt += c.requests[id].PromptTokens
		}
		return
	}
	w.counts.Drafts += pass.CountDrafts(&w.counts.Accepted)
	find := func(id engine.RequestID) *Request { return c.requests[id] }
	for _, s := range w.emitting.Book(pass, find, p.Worker(i).Engine.States) {
		if s.Request.state.Emitted == s.Tokens && p.Role == engine.Aggregated {
			w.counts.Prompt += s.Request.PromptTokens
		}
		w.counts.Generated += s.Tokens
		if c.listens(s.Request) {
			s.Request.Sink.Emitted(s.Tokens, pass.EndMs)
		}
	}
}

// CacheChanged implements [fleet.Watcher]: it follows the cache of a worker.
func (c inside) CacheChanged(p *fleet.Pool, i int, events []kvcache.Event) {
	w := &c.workers[p.Index()][i]
	c.apply(w.cached, events)
	if c.published != nil {
		if changes := c.published.changes(w.published, events); len(changes) > 0 {
			c.config.CacheChanged(p.Index(), i, changes)
		}
	}
	for _, blocks := range w.named {
		c.release(blocks)
	}
	clear(w.named)
	w.named = w.named[:0]
}

// Left implements [fleet.Recorder].
func (c inside) Left(p *fleet.Pool, id engine.RequestID) { c.touch(p.Index(), id) }

// Step implements [fleet.Recorder].
func (c inside) Step(id engine.RequestID, s fleet.Step) {
	switch s {
	case fleet.Reserved, fleet.Activated:
		c.touch(1, id)
	case fleet.Released:
		c.touch(0, id)
	}
}

// Failed implements [fleet.Recorder]: a request cannot be served.
func (c inside) Failed(_ *fleet.Pool, id engine.RequestID, reason string) {
	c.end(c.requests[id], rejection(reason))
}

// rejection returns why a request cannot be served. Clients may try again what a router has refused.
func rejection(reason string) string {
	if reason == fleet.Refused {
		return Refused
	}
	return "request rejected: " + reason
}

// Gone implements [fleet.Watcher]. Events of the next pass of its worker may still name the blocks of a request.
func (c inside) Gone(id engine.RequestID) {
	r := c.requests[id]
	r.status = over
	if i := r.workers[c.last()]; i != unassigned {
		w := c.worker(c.last(), int(i))
		w.emitting.Drop(r)
		w.named = append(w.named, r.blocks)
	} else {
		c.release(r.blocks)
	}
	r.blocks = nil
	if c.config.Policies != nil {
		c.config.Policies.Forget(id)
	}
	c.requests[id] = nil
	c.unused = append(c.unused, id)
}

// release lets go of the blocks of a request.
func (c *Cluster) release(blocks []uint32) {
	c.names.Release(blocks)
	c.published.release(blocks)
}

// Stuck implements [fleet.Watcher]: it fails the oldest request of the first worker that has one; if they wait
// elsewhere, the oldest of all.
func (c inside) Stuck() (changed bool, err error) {
	r := c.oldest()
	if r == nil || r.workers == [2]int32{unassigned, unassigned} && c.fleet.Kept() > 0 { // a router will send it
		return false, nil
	}
	c.end(r, "the KV pool cannot hold this request beside the others")
	return true, c.fleet.Withdraw(r.state.ID)
}

// oldest returns the request to give up, nil if there is none.
func (c *Cluster) oldest() (found *Request) {
	for _, p := range c.fleet.Pools() {
		for i := range p.Len() {
			for _, s := range p.Worker(i).Engine.States() {
				if r := c.requests[s.ID]; r.status == active {
					return r
				}
			}
		}
	}
	for _, r := range c.requests {
		if r != nil && r.status == active && (found == nil || r.arrived < found.arrived) {
			found = r
		}
	}
	return found
}

// Nothing of this is of interest to a cluster.

// Coasted implements [fleet.Recorder]. A server never coasts.
func (inside) Coasted(*fleet.Pool, int, []float64) {}

// Unsent implements [fleet.Recorder].
func (inside) Unsent(engine.RequestID) {}

// Added and Removed implement [fleet.Recorder].
func (inside) Added(*fleet.Pool)        {}
func (inside) Removed(*fleet.Pool, int) {}
