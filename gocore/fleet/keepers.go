package fleet

import (
	"fmt"
	"math"

	"dynosim/gocore/engine"
	"dynosim/gocore/handoff"
	"dynosim/gocore/router"
)

// What routers need that may keep requests although workers are idle, be told the time, or refuse requests.

// maxRouterTicks is how many ticks of a router may pass in which it lets no request go while nothing else happens either.
const maxRouterTicks = 10_000

// Refused is the reason of a request that a router has rejected.
const Refused = "the router refused it"

// Kept returns how many requests routers keep that may do so although workers are idle.
func (f *Fleet) Kept() (requests int) {
	for _, p := range f.keepers {
		if e, ok := p.router.(router.Elastic); ok {
			requests += e.Waiting()
		}
	}
	return requests
}

// mayTick reports whether it is worth to go on with ticks only.
func (f *Fleet) mayTick() bool { return f.Kept() > 0 && f.idleTicks < maxRouterTicks }

// nextTickMs returns when a router wants to be told the time next.
func (f *Fleet) nextTickMs() float64 {
	next := math.Inf(1)
	for _, p := range f.keepers {
		if t, ok := p.router.(router.Ticker); ok {
			next = min(next, t.NextTickMs())
		}
	}
	return next
}

// tick tells routers the time that want to know it now.
func (f *Fleet) tick() (ticked bool, err error) {
	for _, p := range f.keepers {
		t, ok := p.router.(router.Ticker)
		if !ok || t.NextTickMs() > f.nowMs {
			continue
		}
		ticked = true
		f.idleTicks++
		admitted, err := t.Tick(f.nowMs)
		if len(admitted) > 0 {
			f.idleTicks = 0
		}
		if err := f.flow.admitted(p, admitted, err); err != nil {
			return ticked, err
		}
	}
	return ticked, nil
}

// tellKeepers tells routers the end of the run that want to know it.
func (f *Fleet) tellKeepers() error {
	for _, p := range f.keepers {
		if r, ok := p.router.(router.Finisher); ok {
			if err := r.Finish(f.nowMs); err != nil {
				return f.World.Explain(err)
			}
		}
	}
	return nil
}

// keptForEver returns the error of a run that cannot end because a router lets requests wait.
func (f *Fleet) keptForEver() error {
	return fmt.Errorf("router: at %v ms it keeps %d requests although nothing else is going to happen: its choose has to return a worker for them, "+
		"or refuse them", f.nowMs, f.Kept())
}

// each does something with all requests, up to the first error. Requests that a router has refused are dealt with after those that it
// has sent to workers: it may be asked again meanwhile.
func each(ids []engine.RequestID, do func(engine.RequestID) error) error {
	for _, id := range ids {
		if err := do(id); err != nil {
			return err
		}
	}
	return nil
}

// refuse ends a request that the router of a pool has rejected.
func (f *Fleet) refuse(p *Pool, id engine.RequestID) error {
	if p.over(id) {
		return nil
	}
	return f.leave(p, id, Rejected, Refused)
}

// refuse ends the hand-off of a request that the router of prefill workers has rejected.
func (h *handoffs) refuse(p *Pool, id engine.RequestID) error {
	if !p.over(id) {
		h.Recorder.Failed(p, id, Refused)
		h.tell(id, handoff.Failed)
	}
	return nil
}
