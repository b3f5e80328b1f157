package replay

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/router"
)

// What a cluster tells its KV-aware router, and what it does with the answers.

// submit asks the router for a worker. The request may have to wait there.
func (c *cluster) submit(turn int32) error {
	return c.admit(c.kv.Submit(RouterRequest(c.request(engine.RequestID(turn)), c.Workload), c.nowMs))
}

// applyToRouter makes the end of a pass visible to the router too: cache events first, then who emitted a first or last
// token, then who was rejected.
func (c *cluster) applyToRouter(i int, pass *engine.Pass) error {
	if pass.KVEventsAtMs > pass.StartMs {
		c.kv.Apply(i, pass.KVEvents)
	}
	for _, s := range pass.Signals {
		if !s.Final {
			if err := c.admit(c.kv.PrefillCompleted(int32(s.ID), c.nowMs)); err != nil {
				return err
			}
		} else if err := c.end(s.ID, ""); err != nil {
			return err
		}
	}
	for _, rejected := range pass.Rejected {
		if err := c.end(rejected.ID, rejected.Reason); err != nil {
			return err
		}
	}
	return nil
}

// end takes a request that is over off the router's books.
func (c *cluster) end(id engine.RequestID, reason string) error {
	admitted, err := c.kv.Free(int32(id), c.nowMs)
	c.over(id, reason)
	return c.admit(admitted, err)
}

// admit hands requests to the workers that the router chose.
func (c *cluster) admit(admitted []router.Admission, err error) error {
	for _, a := range admitted {
		c.dispatch(a.ID, a.Worker)
	}
	return NameRequest(err, c.Workload)
}
