package replay

import (
	"errors"

	"dynosim/gocore/engine"
	"dynosim/gocore/router"
	"dynosim/gocore/workload"
)

// The calls of a cluster to its router, and what follows from the answers.

// submit asks the router for a worker. The request may have to wait there.
func (c *cluster) submit(req engine.Request) error {
	return c.admit(c.router.Submit(c.routed(req), c.nowMs))
}

// apply makes the end of a pass visible. A router that observes gets cache events first, then first and last tokens, then
// rejections.
func (c *cluster) apply(i int, pass *engine.Pass) error {
	if !c.observes {
		for _, id := range pass.Finished {
			if c.gone(id) {
				continue
			}
			if err := c.end(id, ""); err != nil {
				return err
			}
		}
		return c.reject(pass)
	}
	if pass.KVEventsAtMs > pass.StartMs {
		c.tellRouter(i, pass.KVEvents)
	}
	for _, s := range pass.Signals {
		if c.gone(s.ID) {
			continue
		}
		var err error
		if s.Final {
			err = c.end(s.ID, "")
		} else {
			err = c.admit(c.router.PrefillCompleted(int32(s.ID), c.nowMs))
		}
		if err != nil {
			return err
		}
	}
	return c.reject(pass)
}

// reject ends the requests that a pass has found to be unable to run.
func (c *cluster) reject(pass *engine.Pass) error {
	for _, rejected := range pass.Rejected {
		if c.gone(rejected.ID) {
			continue
		}
		if err := c.end(rejected.ID, rejected.Reason); err != nil {
			return err
		}
	}
	return nil
}

// end tells the router that a request is over.
func (c *cluster) end(id engine.RequestID, reason string) error {
	admitted, err := c.router.Free(int32(id), c.nowMs)
	if reason == "" {
		c.completed(c.scale, id)
	}
	c.over(c.of(id), reason)
	if err := c.admit(admitted, err); err != nil {
		return err
	}
	return c.faults.ended(id)
}

// admit hands requests to the workers that the router chose.
func (c *cluster) admit(admitted []router.Admission, err error) error {
	c.scale.count(admitted)
	for _, a := range admitted {
		c.dispatch(a.ID, a.Worker)
	}
	return NameRequest(err, c.Workload)
}

// RouterRequest is what a router needs to know of a request.
func RouterRequest(req engine.Request, w *workload.Workload) router.Request {
	hints := w.Hints[int32(req.ID)]
	return router.Request{
		ID:             int32(req.ID),
		Prompt:         req.Prompt,
		PromptTokens:   req.PromptTokens,
		Priority:       int64(hints.Priority),
		StrictPriority: uint64(hints.StrictPriority),
	}
}

// NameRequest gives the request in an error of the router the name that messages use.
func NameRequest(err error, w *workload.Workload) error {
	if err == nil { // this is called for every admission
		return nil
	}
	var pin *router.PinError
	if errors.As(err, &pin) {
		pin.Name = w.TurnName(pin.ID)
	}
	return err
}
