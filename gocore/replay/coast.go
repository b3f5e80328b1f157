package replay

import "sort"

// Workers that coast (engine.Coaster) run many passes at once, and the cluster sees only the end of the last one. At the other ends
// it would have nothing to do: a pass of this kind ends no request and has no news for the router.
//
//	worker 0    ---|---|---|---|---|---|---|      ends planned
//	                        ^ a request arrives
//	worker 0    ---|---|---|---|                  ends that remain; the next pass sees the request
//
// Retrying a stalled worker advances its stall counter, and it is retried at every instant. Coasting skips instants, so no
// worker coasts while one is stalled.

// coast makes idle worker i coast if it can.
func (c *cluster) coast(i int) (bool, error) {
	w := &c.workers[i]
	untilMs, may := c.faults.mayCoast(0, i, c.untilMs())
	if !may || c.stepwise || !c.pool.mayCoast(w.Engine) || !w.TryCoast(c.nowMs, untilMs) {
		return false, nil
	}
	if w.Coast = c.faults.undisturbed(w.Coast); len(w.Coast) == 0 {
		return false, nil
	}
	c.pool.coasts(i, w.Engine, c.nowMs)
	c.faults.coasts(i)
	c.pushEnd(i, w.Coast[len(w.Coast)-1])
	return true, c.poll()
}

// untilMs is the time from which on no pass of a coast should start. What arrives next is for the only worker, if there is only
// one: passes after that would be planned in vain.
func (c *cluster) untilMs() float64 {
	limit := c.afterLimit()
	if next, ok := c.driver.NextMs(); ok && len(c.workers) == 1 {
		return min(limit, next)
	}
	return limit
}

// haltCoast cuts short the coast of worker i, if it coasts: passes that have not started yet will not.
func (c *cluster) haltCoast(i int) {
	ends := c.workers[i].Coast
	if len(ends) == 0 {
		return
	}
	// The pass after end k has started if that end lies before now, or if it is now and this worker was asked to start one.
	started := 1 + sort.Search(len(ends)-1, func(k int) bool {
		return ends[k] > c.nowMs || ends[k] == c.nowMs && i >= c.swept
	})
	if started == len(ends) {
		return
	}
	c.workers[i].Coast = ends[:started]
	if endMs := ends[started-1]; endMs > c.nowMs {
		c.pushEnd(i, endMs)
		return
	}
	c.due[i] = nowhere
	c.settle(i, started)
	c.updateReady(i)
}

// settle carries out the first passes passes through which a worker coasts, and puts their tokens on record.
func (c *cluster) settle(i, passes int) {
	endsMs := c.workers[i].Settle(passes)
	c.coasted(i, &c.workers[i], endsMs)
	c.pool.coasted(i, c.workers[i].Engine, endsMs, c.nowMs)
}

// haltAll cuts short all coasts.
func (c *cluster) haltAll() {
	for i := range c.workers {
		c.haltCoast(i)
	}
}

// lastInstant is the last time at which something happened. If the run was cut short, that may be an end in a coast.
func (c *cluster) lastInstant() float64 {
	last := c.nowMs
	for i := range c.workers {
		for _, endMs := range c.workers[i].Coast {
			if endMs <= c.MaxSimTimeMs {
				last = max(last, endMs)
			}
		}
	}
	return last
}

// nowhere is a sequence number that no end has.
const nowhere = -1
