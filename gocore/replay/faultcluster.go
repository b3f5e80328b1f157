package replay

import (
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/faults"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/worker"
)

// What faults do to a cluster.

var (
	_ faultLoop = (*cluster)(nil)
	_ station   = (*cluster)(nil)
)

// endure prepares a run with faults. It has a pool.
func (c *cluster) endure() {
	c.faults = newFaultRun(c.run, c, c.scale)
	c.faults.sites = []*site{newSite(c.pool, faults.Workers, engine.Aggregated, c)}
	c.faults.prepare()
}

func newSite(p *pool, kind faults.Pool, role engine.Role, s station) *site {
	return &site{pool: p, kind: kind, role: role, station: s, kept: map[int]int{}, awaited: map[int]int{}}
}

// tellRouter tells the router what a worker has stored and removed.
func (c *cluster) tellRouter(i int, events []kvcache.Event) {
	if c.faults != nil {
		c.faults.news(0, i, events)
		return
	}
	c.router.Apply(i, events)
}

// see implements [station].
func (c *cluster) see(i int, pass *engine.Pass) error {
	if err := c.faults.show(0, i, pass); err != nil {
		return err
	}
	return c.apply(i, pass)
}

// at implements [station].
func (c *cluster) at(i int) *worker.Worker { return &c.workers[i] }

// settleEnded implements [station].
func (c *cluster) settleEnded(i int) {
	if len(c.workers[i].Coast) == 0 {
		return
	}
	c.due[i] = nowhere
	c.settle(i, endedBy(c.workers[i].Coast, c.nowMs))
	c.updateReady(i)
}

// endedBy is how many of the passes of a coast have ended.
func endedBy(endsMs []float64, nowMs float64) int {
	n := 0
	for n < len(endsMs) && endsMs[n] <= nowMs {
		n++
	}
	return n
}

// discard implements [station].
func (c *cluster) discard(i int) {
	c.Journal.Gone(engine.Aggregated, i, c.workers[i].Pass, c.nowMs)
	c.workers[i] = worker.Worker{}
	c.due[i] = nowhere
	c.ready.remove(i)
}

// finish implements [station].
func (c *cluster) finish(i int, endMs float64) {
	c.due[i] = nowhere
	if endMs <= maxTimeMs {
		c.pushEnd(i, endMs)
	}
}

// receive implements [station].
func (c *cluster) receive(i int, id engine.RequestID) error {
	c.dispatch(int32(id), i)
	return nil
}

// reached implements [station].
func (c *cluster) reached(i int) error {
	c.updateReady(i)
	return nil
}

// cancel implements [station].
func (c *cluster) cancel(i int, id engine.RequestID) {
	c.workers[i].Engine.Cancel(id)
	c.Journal.Left(engine.Aggregated, id, c.nowMs)
	c.updateReady(i)
}

// hear implements [station].
func (c *cluster) hear(i int, events []kvcache.Event) { c.router.Apply(i, events) }

// send implements [faultLoop].
func (c *cluster) send(id engine.RequestID) error {
	if c.pool.closed() {
		c.kept = append(c.kept, id)
		return nil
	}
	return c.submit(c.request(id))
}

// recall implements [faultLoop].
func (c *cluster) recall(id engine.RequestID) error {
	c.kept = slices.DeleteFunc(c.kept, func(other engine.RequestID) bool { return other == id })
	if i := c.faults.attempts[id].worker; i != unassigned {
		c.haltCoast(int(i))
		c.faults.tell(c.faults.sites[0], int(i), id)
	}
	return c.admit(c.router.Cancel(int32(id), c.nowMs))
}

// emitter implements [faultLoop].
func (c *cluster) emitter(id engine.RequestID) int32 { return c.faults.attempts[id].worker }

// struck implements [faultLoop].
func (c *cluster) struck(_ *site, i int, id engine.RequestID) bool {
	return c.faults.attempts[id].worker == int32(i)
}
