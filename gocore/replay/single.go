package replay

import "dynosim/gocore/engine"

// single runs one worker. Requests that arrive during a pass enter at its end.
func (r *run) single(setups []engine.Setup) error {
	r.makeWorkers(setups)
	only := &r.workers[0]
	for r.nowMs <= r.MaxSimTimeMs && (only.Engine.Requests() > 0 || r.driver.Unreleased() > 0) {
		r.releaseSingle()
		if only.Engine.Requests() == 0 {
			next, ok := r.driver.NextMs()
			if !ok {
				return r.deadEnd()
			}
			r.nowMs = next
			if r.Concurrency == 0 {
				r.releaseSingle()
			}
			continue
		}
		if only.TryCoast(r.nowMs, r.coastUntil()) {
			if err := r.poll(); err != nil {
				return err
			}
			r.nowMs = only.Coast[len(only.Coast)-1]
			r.settle(0, len(only.Coast))
		} else {
			pass, alive, err := r.runPass(0)
			if err != nil {
				return err
			}
			if !alive {
				if next, ok := r.driver.NextMs(); ok && next > r.nowMs {
					r.nowMs = next
				} else if !r.unblock() {
					return r.deadEnd()
				}
				continue
			}
			r.nowMs = pass.EndMs
			r.apply(pass)
		}
		if r.Concurrency == 0 {
			r.releaseSingle()
		}
	}
	return nil
}

// releaseSingle hands over everything that is ready, in concurrency mode as long as the worker owns fewer requests than
// sessions may be active.
func (r *run) releaseSingle() {
	for r.Concurrency == 0 || r.workers[0].Engine.Requests() < r.Concurrency {
		turn, arrivalMs, ok := r.driver.Next(r.nowMs)
		if !ok {
			return
		}
		r.arrive(turn, arrivalMs)
		r.assign(turn, 0, arrivalMs)
	}
}

// coastUntil is the time up to which passes may start without a check for arrivals.
func (r *run) coastUntil() float64 {
	until := r.afterLimit()
	if next, ok := r.driver.NextMs(); ok && (r.Concurrency == 0 || r.workers[0].Engine.Requests() < r.Concurrency) {
		until = min(until, next)
	}
	return until
}
