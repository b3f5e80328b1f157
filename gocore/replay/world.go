package replay

import (
	"errors"
	"math"

	"dynosim/gocore/engine"
	"dynosim/gocore/fleet"
	"dynosim/gocore/planner"
	"dynosim/gocore/report"
	"dynosim/gocore/router"
	"dynosim/gocore/workload"
)

var _ fleet.World = (*run)(nil)

// inFleet runs the workers in the event loop of a fleet.
func (r *run) inFleet(setups []engine.Setup) error {
	if err := r.newFleet(r.fleetConfig(setups)); err != nil {
		return err
	}
	err := r.fleet.Run()
	r.nowMs = r.fleet.NowMs()
	return err
}

// newFleet makes the fleet of a run.
func (r *run) newFleet(c fleet.Config) (err error) {
	if r.fleet, err = fleet.New(c); err == nil && r.Faults != nil {
		newFaultRun(r)
	}
	return err
}

// fleetConfig describes the fleet of a run.
func (r *run) fleetConfig(setups []engine.Setup) fleet.Config {
	c := fleet.Config{
		LimitMs: r.MaxSimTimeMs, World: r, Recorder: recorder{r}, Requests: len(r.Workload.Turns),
		Planner: r.Planner, Sampler: r.Sampler, Seed: r.Seed,
		KVEventLagMs:    r.KVEventLagMs,
		StopWhenStalled: r.stopWhenStalled,
	}
	if len(r.Late) > 0 {
		c.Enough = r.collector.TooLate
	}
	if r.Await != nil {
		c.Await = func(atMs float64) error {
			return r.Await(atMs, func() error { return r.pollNow(r.fleet.NowMs()) })
		}
	}
	switch {
	case c.Planner != nil:
	case r.Faults != nil || r.Sampler != nil:
		c.Planner = noPlanner{}
	}
	setup := func(role engine.Role) func(int) engine.Setup {
		return func(worker int) engine.Setup { return r.setup(role, worker) }
	}
	if d := r.Disagg; d != nil {
		c.Transfer = d.Transfer
		c.Pools = []fleet.PoolConfig{
			{Role: engine.Prefill, Args: d.Prefill, Workers: d.PrefillWorkers, Router: d.PrefillRouter,
				Setup: setup(engine.Prefill)},
			{Role: engine.Decode, Args: d.Decode, Workers: d.DecodeWorkers, Router: d.DecodeRouter,
				Setup: setup(engine.Decode)},
		}
		return c
	}
	later := setup(engine.Aggregated)
	c.Pools = []fleet.PoolConfig{{
		Role: engine.Aggregated, Args: r.Args, Workers: r.Workers, Router: r.Router, CoastWithBursts: r.sumsDo(),
		Setup: func(worker int) engine.Setup {
			if worker < len(setups) {
				return setups[worker]
			}
			return later(worker)
		},
	}}
	return c
}

// sumsDo reports whether nothing in the run wants to know in which pass of a coast a request emitted how many tokens.
func (r *run) sumsDo() bool { return !r.changes() && r.Journal == nil }

// NextMs implements [fleet.World].
func (r *run) NextMs() (float64, bool) { return r.driver.NextMs() }

// Unreleased implements [fleet.World].
func (r *run) Unreleased() int { return r.driver.Unreleased() }

// Next implements [fleet.World].
func (r *run) Next(nowMs float64) (engine.RequestID, bool) {
	turn, arrivalMs, ok := r.driver.Next(nowMs)
	if !ok {
		return 0, false
	}
	req := r.arrive(turn, arrivalMs)
	if r.faults != nil {
		r.faults.arrived(turn)
	}
	return req.ID, true
}

// arrive records the arrival of a turn, and returns it as a request.
func (r *run) arrive(turn int32, arrivalMs float64) engine.Request {
	req := r.Request(engine.RequestID(turn))
	r.collector.Arrival(req, arrivalMs)
	r.Journal.Arrived(req, arrivalMs)
	return req
}

// Request implements [fleet.World].
func (r *run) Request(id engine.RequestID) engine.Request {
	if r.faults != nil {
		return r.faults.request(id)
	}
	t := r.driver.Turn(int32(id))
	return engine.Request{
		ID: id, Prompt: t.Prompt, PromptTokens: t.InputTokens, OutputTokens: t.OutputTokens, NamedBlocks: t.NamedBlocks,
	}
}

// Prompt implements [fleet.World].
func (r *run) Prompt(id engine.RequestID) engine.Request { return r.Request(id) }

// ForRouter implements [fleet.World].
func (r *run) ForRouter(req engine.Request) router.Request {
	if r.faults == nil {
		return RouterRequest(req, r.Workload, r.collector.ArrivalMs(req.ID))
	}
	turn := req
	turn.ID = r.of(req.ID)
	asked := RouterRequest(turn, r.Workload, r.collector.ArrivalMs(turn.ID))
	asked.ID = int32(req.ID)
	return asked
}

// Name implements [fleet.World].
func (r *run) Name(id engine.RequestID) string { return r.Workload.TurnName(int32(r.of(id))) }

// Explain implements [fleet.World].
func (r *run) Explain(err error) error { return NameRequest(err, r.Workload) }

// BeforePass implements [fleet.World].
func (r *run) BeforePass(nowMs float64) error { return r.poll(nowMs) }

// Completing implements [fleet.World].
func (r *run) Completing(id engine.RequestID, t *planner.Traffic, wantsTTFT bool) {
	id = r.of(id)
	ttftMs, itlMs := r.collector.Latencies(id)
	turn := r.driver.Turn(int32(id))
	t.Complete(turn.InputTokens, turn.OutputTokens, ttftMs, itlMs)
	if wantsTTFT {
		t.TTFTsMs = append(t.TTFTsMs, ttftMs)
	}
}

// Over implements [fleet.World].
func (r *run) Over(id engine.RequestID, how fleet.Ending, reason string) {
	r.over(r.of(id), how, reason, r.fleet.NowMs())
}

// over records that a turn is over.
func (r *run) over(turn engine.RequestID, how fleet.Ending, reason string, nowMs float64) {
	status := [...]report.Status{fleet.Completed: report.Completed, fleet.Rejected: report.Rejected,
		fleet.Canceled: report.Canceled}[how]
	r.collector.Terminal(turn, status, reason)
	if how == fleet.Completed {
		r.driver.Completed(int32(turn), nowMs)
	} else {
		r.driver.Rejected(int32(turn), nowMs)
	}
}

// of returns the turn of an attempt, as the collector names it.
func (r *run) of(id engine.RequestID) engine.RequestID {
	if r.faults == nil {
		return id
	}
	return engine.RequestID(r.faults.attempts[id].turn)
}

// RouterRequest returns what a router needs to know of a request that arrived at arrivalMs.
func RouterRequest(req engine.Request, w *workload.Workload, arrivalMs float64) router.Request {
	hints := w.Hints[int32(req.ID)]
	deadlineMs := 0.0
	if hints.DeadlineMs > 0 {
		deadlineMs = arrivalMs + hints.DeadlineMs
	}
	return router.Request{
		DeadlineMs:     deadlineMs,
		ID:             int32(req.ID),
		Prompt:         req.Prompt,
		PromptTokens:   req.PromptTokens,
		Priority:       int64(hints.Priority),
		StrictPriority: uint64(hints.StrictPriority),
		Tenant:         hints.Tenant,
		Session:        w.SessionKey(int32(req.ID)),
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

// noPlanner leaves the number of workers alone.
type noPlanner struct{}

var _ planner.Planner = noPlanner{}

// Wants implements [planner.Planner].
func (noPlanner) Wants() planner.Wants { return planner.Wants{} }

// InitialTickMs implements [planner.Planner].
func (noPlanner) InitialTickMs() (float64, error) { return math.Inf(1), nil }

// OnTick implements [planner.Planner].
func (noPlanner) OnTick(*planner.Tick) (planner.Decision, error) {
	return planner.Decision{Prefill: planner.Unchanged, Decode: planner.Unchanged, NextMs: math.Inf(1)}, nil
}
