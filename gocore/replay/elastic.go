package replay

import (
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/planner"
	"dynosim/gocore/router"
	"dynosim/gocore/worker"
)

// What a cluster does if a planner scales its pool.

var _ crew = (*cluster)(nil)

// scaled prepares a run with a planner.
func (c *cluster) scaled() error {
	e, err := elastic(c.router)
	if err != nil {
		return err
	}
	c.pool = newPool("agg", c.Workers, startUpsOf(c.Args, c.Seed, decodeStartUps), e, c)
	c.scale = newScaler(c.elasticPlanner(), c.pool)
	for i := range c.workers {
		c.scale.observe(c.workers[i].Engine)
	}
	if c.Faults != nil {
		c.endure()
	}
	return c.scale.begin()
}

// add implements [crew].
func (c *cluster) add(id int) {
	c.workers = append(c.workers, worker.Worker{})
	c.due = append(c.due, nowhere)
	c.ready = c.ready.withRoom(id)
	c.collector.AddWorker()
}

// start implements [crew].
func (c *cluster) start(id int) {
	c.workers[id] = worker.New(c.Args, c.setup(engine.Aggregated, id))
	if c.observes {
		c.workers[id].Engine.Observe()
	}
	c.scale.observe(c.workers[id].Engine)
}

// empty implements [crew].
func (c *cluster) empty(id int) bool {
	w := &c.workers[id]
	return w.Engine == nil || !w.Busy() && w.Engine.Requests() == 0
}

// remove implements [crew].
func (c *cluster) remove(id int) { c.workers[id] = worker.Worker{} }

// release implements [crew].
func (c *cluster) release() error {
	waiting := c.kept
	c.kept = nil
	for _, id := range waiting {
		if err := c.submit(c.request(id)); err != nil {
			return err
		}
	}
	return nil
}

// held implements [crew].
func (c *cluster) held() int { return len(c.kept) }

// catchUp implements [crew]. The pass that a coasting worker is busy with ends like others.
func (c *cluster) catchUp() {
	for i := range c.workers {
		w := &c.workers[i]
		if c.haltCoast(i); len(w.Coast) == 0 {
			continue
		}
		endMs := w.Coast[len(w.Coast)-1]
		c.settle(i, len(w.Coast))
		w.Pass = c.faults.unfinished(w, endMs)
	}
}

// gauge implements [crew].
func (c *cluster) gauge(id int) planner.Gauge {
	return gauge(id, c.workers[id].Engine, c.Args.NumGPUBlocks)
}

func gauge(id int, e engine.Engine, blocks int) planner.Gauge {
	if e == nil { // lost, which was not noticed yet
		return planner.Gauge{Worker: id, Blocks: blocks}
	}
	waiting, running, active := e.(engine.Reporter).Load()
	return planner.Gauge{Worker: id, Waiting: waiting, Running: running, ActiveBlocks: active, Blocks: blocks}
}

// arrived counts a request for a pool that computes prompts, if it finds no active worker there.
func (s *scaler) arrived(p *pool) {
	if s != nil && !p.serves() {
		s.meetings.Held++
	}
}

// count counts what the router has told of requests whose prompts it sent to workers.
func (s *scaler) count(admitted []router.Admission) {
	if s == nil {
		return
	}
	for _, a := range admitted {
		if s.pools[0].cold[a.Worker] {
			s.meetings.Cold++
		}
		if a.PromptBlocks > 0 {
			s.traffic.Hit(a.OverlapBlocks, a.PromptBlocks)
		}
	}
}

// completed counts a request whose last token was seen.
func (r *run) completed(s *scaler, id engine.RequestID) {
	if s == nil {
		return
	}
	id = r.of(id)
	ttftMs, itlMs := r.collector.Latencies(id)
	t := r.driver.Turn(int32(id))
	s.traffic.Complete(t.InputTokens, t.OutputTokens, ttftMs, itlMs)
	if s.wants.TTFT {
		s.traffic.TTFTsMs = append(s.traffic.TTFTsMs, ttftMs)
	}
}

// withRoom is the set with room for worker i.
func (s workerSet) withRoom(i int) workerSet {
	for len(s) <= i/64 {
		s = append(s, 0)
	}
	return s
}

// withoutRequest takes a request out of a list of actions that are held.
func withoutRequest(held []nextAction, id engine.RequestID) []nextAction {
	return slices.DeleteFunc(held, func(a nextAction) bool { return a.id == id })
}
