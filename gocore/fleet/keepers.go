package fleet

import (
	"fmt"
	"math"

	"dynosim/gocore/router"
)

// What routers need that may keep requests although workers are idle, be told the time, or refuse requests.

// maxRouterTicks is how many ticks of a router may pass in which it lets no request go while nothing else happens
// either.
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

// mayTick reports whether a run goes on of which only ticks are left.
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

// tick tells the time to the routers whose timers are due.
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
		if err := f.admitted(p, admitted, err); err != nil {
			return ticked, err
		}
	}
	return ticked, nil
}

// tellKeepers tells routers that the run ends, if they want to know that.
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
	return fmt.Errorf("router: at %v ms it keeps %d requests although nothing else is going to happen: its choose "+
		"has to return a worker for them, "+
		"or refuse them", f.nowMs, f.Kept())
}
