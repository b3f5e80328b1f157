package replay

import (
	"math"

	"dynosim/gocore/engine"
	"dynosim/gocore/fleet"
	"dynosim/gocore/worker"
)

// single runs one worker. Requests that arrive during a pass enter at its end; one in which it only waits ends then.
func (r *run) single(setups []engine.Setup) error {
	only, record := &r.only, recorder{r}
	*only = worker.New(r.Args, setups[0])
	if r.sumsDo() {
		only.CoastWithBursts()
	}
	for r.nowMs <= r.MaxSimTimeMs && !r.collector.TooLate() &&
		(only.Engine.Requests() > 0 || r.driver.Unreleased() > 0) {
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
		if err := r.poll(r.nowMs); err != nil {
			return err
		}
		if only.TryCoast(r.nowMs, r.coastUntil()) {
			passes := len(only.Coast)
			r.nowMs = only.Coast[passes-1]
			record.coasted(engine.Aggregated, 0, only, only.Settle(passes))
		} else {
			pass, alive := only.Engine.RunPass(r.nowMs)
			if next, ok := r.driver.NextMs(); ok && pass.Waits && r.Concurrency == 0 {
				pass.Cut(next)
			}
			record.follow(engine.Aggregated, 0, only.Engine)
			record.pass(engine.Aggregated, 0, only.Engine, pass)
			if r.stopWhenStalled && (!alive || pass.Idle()) {
				return fleet.ErrStalled
			}
			if !alive {
				if next, ok := r.driver.NextMs(); ok && next > r.nowMs {
					r.nowMs = next
				} else if !only.Engine.Unblock() {
					return r.deadEnd()
				}
				continue
			}
			r.nowMs = pass.EndMs
			for _, id := range pass.Finished {
				r.over(id, fleet.Completed, "", r.nowMs)
			}
			for _, rejected := range pass.Rejected {
				r.over(rejected.ID, fleet.Rejected, rejected.Reason, r.nowMs)
			}
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
	for r.Concurrency == 0 || r.only.Engine.Requests() < r.Concurrency {
		turn, arrivalMs, ok := r.driver.Next(r.nowMs)
		if !ok {
			return
		}
		req := r.arrive(turn, arrivalMs)
		req.SentMs = arrivalMs
		r.only.Engine.Add(req)
		recorder{r}.joined(engine.Aggregated, 0, req.ID, arrivalMs)
	}
}

// coastUntil returns the time up to which passes may start without a check for arrivals.
func (r *run) coastUntil() float64 {
	until := math.Nextafter(r.MaxSimTimeMs, math.Inf(1)) // the first time at which no pass may start any more
	if next, ok := r.driver.NextMs(); ok && (r.Concurrency == 0 || r.only.Engine.Requests() < r.Concurrency) {
		until = min(until, next)
	}
	return until
}

func (r *run) deadEnd() error {
	e := &engine.DeadEnd{
		AtMs: r.nowMs, BlockSize: r.Args.BlockSize, Capacity: r.Args.NumGPUBlocks, Requests: r.only.Engine.States(),
	}
	for i := range e.Requests {
		e.Requests[i].Name = r.Name(e.Requests[i].ID)
	}
	return e
}
