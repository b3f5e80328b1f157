package replay

import (
	"math"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/journal"
	"dynosim/gocore/planner"
	"dynosim/gocore/report"
	"dynosim/gocore/router"
	"dynosim/gocore/worker"
	"dynosim/gocore/workload"
)

// Config is one run.
type Config struct {
	Args     engineargs.Args
	Workers  int // >= 1
	Router   router.Factory
	Workload *workload.Workload // scheduled
	// Disagg splits prompts and outputs between two pools of workers; Args and Workers are not used then.
	Disagg *DisaggConfig
	// Concurrency is the number of sessions active at a time; 0 starts sessions at their own times.
	Concurrency int
	// MaxSimTimeMs ends the run early: no pass starts later. +Inf for no limit. Passes that have started keep their tokens.
	MaxSimTimeMs float64
	// Poll is called every few passes with the simulated time and the number of requests that are over since its last call.
	// An error it returns ends the run and is passed on.
	Poll func(nowMs float64, finished int) error
	// Each calls do for 0 to n-1, in any order and possibly several at a time; nil means one after the other. It is
	// used for workers that do not depend on each other. Poll may then be called at the same time by several of them, each with
	// its own simulated time.
	Each func(n int, do func(int))
	// NoRows leaves the collector of an aggregated run without rows, which takes much less memory. Its Summarise must then be
	// given SLA.
	NoRows bool
	SLA    report.SLA
	// Attribution has the collector divide latencies among their parts.
	Attribution bool
	// Journal is told of everything that happens, for timelines and series; nil for no journal.
	Journal *journal.Journal
	// Planner changes how many workers there are; Workers and those of Disagg are the first ones then. Nil leaves them alone.
	// Every router has to be a [router.Elastic], and every engine an [engine.Reporter].
	Planner planner.Planner
	// Faults go wrong in the run, whose collector has to keep rows then; nil for none. What Planner says of routers holds.
	Faults *FaultConfig
	// Seed is that of start-up times which are drawn.
	Seed uint64
	// Setup is what the engine of each worker gets besides Args and its role; nil stands for nothing.
	Setup func(role engine.Role, worker int) engine.Setup
}

// Outcome is the result of a run.
type Outcome struct {
	Collector            *report.Collector
	WorkerSeconds        float64         // simulated seconds times workers, of those that emit tokens
	PrefillWorkerSeconds float64         // of the others
	Scaling              []planner.Event // by the planner; nil without one
	Meetings             Meetings        // 0 without one
	Faults               []FaultEvent    // that have happened, in the order of time; nil without faults
	FaultTally           FaultTally
}

// Run replays a workload.
func Run(cfg Config) (Outcome, error) {
	if cfg.Disagg != nil {
		return runDisaggregated(cfg)
	}
	r, setups := newRun(cfg)
	if cfg.Planner != nil || cfg.Faults != nil {
		return r.throughPlanned(setups)
	}
	loop := r.cluster
	switch {
	case cfg.Workers == 1:
		loop = r.single
	case r.independent(setups):
		return cfg.runIndependently(r, setups)
	}
	return r.through(loop, setups)
}

// newRun prepares a run, and what each worker gets besides its arguments.
func newRun(cfg Config) (*run, []engine.Setup) {
	r := &run{
		Config:    cfg,
		driver:    workload.NewDriver(cfg.Workload, cfg.Concurrency),
		collector: cfg.collector(),
	}
	r.attribute(cfg.Args)
	setups := make([]engine.Setup, cfg.Workers)
	for i := range setups {
		setups[i] = cfg.setup(engine.Aggregated, i)
	}
	return r, setups
}

// through runs one of the loops to its end.
func (r *run) through(loop func([]engine.Setup) error, setups []engine.Setup) (Outcome, error) {
	if err := loop(setups); err != nil {
		return Outcome{}, err
	}
	r.cut()
	seconds := float64(r.Workers) * r.nowMs / 1000
	if r.Workers == 1 {
		seconds = report.Seconds(r.collector.DurationMs())
	}
	return Outcome{Collector: r.collector, WorkerSeconds: seconds}, nil
}

// throughPlanned is through for a run with a planner.
func (r *run) throughPlanned(setups []engine.Setup) (Outcome, error) {
	c := r.newCluster(setups)
	if err := c.scaled(); err != nil {
		return Outcome{}, err
	}
	if err := c.loop(); err != nil {
		return Outcome{}, err
	}
	r.cut()
	outcome := Outcome{Collector: r.collector, WorkerSeconds: c.pool.seconds}
	r.planned(&outcome, c.scale)
	return outcome, nil
}

func (r *run) makeWorkers(setups []engine.Setup) {
	for _, setup := range setups {
		w := worker.New(r.Args, setup)
		if r.sumsDo() {
			w.CoastWithBursts()
		}
		r.workers = append(r.workers, w)
	}
}

// sumsDo reports whether nothing in the run wants to know in which pass of a coast a request emitted how many tokens.
func (r *run) sumsDo() bool { return r.Planner == nil && r.Faults == nil && r.Journal == nil }

func runDisaggregated(cfg Config) (Outcome, error) {
	r := &run{
		Config:    cfg,
		driver:    workload.NewDriver(cfg.Workload, cfg.Concurrency),
		collector: report.NewDisaggCollector(len(cfg.Workload.Turns), cfg.Disagg.DecodeWorkers),
	}
	r.attribute(cfg.Disagg.Prefill)
	d, err := r.newDisagg()
	if err != nil {
		return Outcome{}, err
	}
	if err := d.loop(); err != nil {
		return Outcome{}, err
	}
	d.cut()
	outcome := Outcome{Collector: r.collector, WorkerSeconds: d.decode.seconds, PrefillWorkerSeconds: d.prefill.seconds}
	r.planned(&outcome, d.scale)
	return outcome, nil
}

// planned adds what a planner and faults have done.
func (r *run) planned(o *Outcome, s *scaler) {
	if r.Planner != nil {
		o.Scaling, o.Meetings = s.events, s.meetings
	}
	if r.faults != nil {
		o.Faults, o.FaultTally = r.faults.outcome()
	}
}

func (cfg *Config) collector() *report.Collector {
	if cfg.NoRows {
		return report.NewPassingCollector(cfg.Workload.Len(), cfg.Workers, cfg.SLA)
	}
	return report.NewCollector(cfg.Workload.Len(), cfg.Workers)
}

// setup is what a worker gets besides its arguments.
func (cfg *Config) setup(role engine.Role, worker int) engine.Setup {
	var s engine.Setup
	if cfg.Setup != nil {
		s = cfg.Setup(role, worker)
	}
	s.Role = role
	s.Explain = cfg.Attribution || cfg.Journal != nil
	return s
}

// attribute has the collector divide latencies, if that is wanted. Requests come to workers with first as their arguments first.
func (r *run) attribute(first engineargs.Args) {
	if r.Attribution {
		r.collector.Attribute(r.Workload.Len(), worker.RequestDelayMs(first), !math.IsInf(r.MaxSimTimeMs, 1))
	}
}

// run is the state shared by all loops.
type run struct {
	Config
	driver    *workload.Driver
	collector *report.Collector
	workers   []worker.Worker // of an aggregated run

	nowMs  float64
	passes int
	polled int // requests that were over at the last call of Config.Poll

	asksOnce bool // a pass without effect ends the run: see runIndependently

	faults *faultRun // nil if nothing goes wrong
}

// pollEvery is the number of passes between two calls of Config.Poll.
const pollEvery = 16

// arrive records the arrival of a turn, and returns it as a request.
func (r *run) arrive(turn int32, arrivalMs float64) engine.Request {
	req := r.request(engine.RequestID(turn))
	r.collector.Arrival(req, arrivalMs)
	r.Journal.Arrived(req, arrivalMs)
	return req
}

// assign hands a turn to a worker, which it reached at sentMs.
func (r *run) assign(turn int32, to int, sentMs float64) {
	req := r.request(engine.RequestID(turn))
	req.SentMs = sentMs
	r.workers[to].Engine.Add(req)
	r.collector.Worker(r.of(engine.RequestID(turn)), to)
	r.collector.Spends(engine.RequestID(turn), report.WorkerWait, sentMs)
	r.Journal.Joined(engine.Aggregated, to, engine.RequestID(turn), sentMs)
}

func (r *run) request(id engine.RequestID) engine.Request {
	if r.faults != nil {
		return r.faults.request(id)
	}
	t := r.driver.Turn(int32(id))
	return engine.Request{
		ID: id, Prompt: t.Prompt, PromptTokens: t.InputTokens, OutputTokens: t.OutputTokens, NamedBlocks: t.NamedBlocks,
	}
}

// runPass starts a pass of a worker. Its admissions and tokens are recorded at once, even those beyond the end of a run that is cut
// short.
func (r *run) runPass(i int) (pass *engine.Pass, alive bool, err error) {
	if err := r.poll(); err != nil {
		return nil, false, err
	}
	pass, alive = r.workers[i].Engine.RunPass(r.nowMs)
	seen := pass
	if r.faults != nil {
		seen = r.faults.admitted(engine.Aggregated, i, pass)
	}
	r.collector.Pass(i, seen)
	if r.faults != nil {
		r.Journal.Begun(engine.Aggregated, i, pass)
	} else {
		r.Journal.Pass(engine.Aggregated, i, r.workers[i].Engine, pass, r.collector.BeforeRun)
	}
	return pass, alive, nil
}

// settle carries out the first passes passes of a coast, and records their tokens.
func (r *run) settle(i, passes int) {
	r.coasted(i, &r.workers[i], r.workers[i].Settle(passes))
}

// coasted records the tokens of passes through which a worker coasted.
func (r *run) coasted(i int, w *worker.Worker, endsMs []float64) {
	endsMs = r.faults.visible(endsMs)
	r.collector.Coast(i, endsMs)
	r.collector.Surplus(w.Surplus())
	role := engine.Aggregated
	if r.Disagg != nil {
		role = engine.Decode
	}
	r.Journal.Coast(role, i, w.Engine, endsMs)
	if r.Attribution {
		r.collector.CoastParts(i, endsMs, w.CoastHostMs())
	}
}

// afterLimit is the first time at which no pass may start any more.
func (r *run) afterLimit() float64 { return math.Nextafter(r.MaxSimTimeMs, math.Inf(1)) }

// poll calls Config.Poll, if this pass is one before which it is due.
func (r *run) poll() error {
	r.passes++
	if r.passes%pollEvery != 0 || r.Poll == nil {
		return nil
	}
	finished := r.collector.Finished() - r.polled
	r.polled += finished
	return r.Poll(r.nowMs, finished)
}

// apply makes the end of a pass visible: requests that finished, then those that were rejected, are over.
func (r *run) apply(pass *engine.Pass) {
	for _, id := range pass.Finished {
		r.over(id, "")
	}
	for _, rejected := range pass.Rejected {
		r.over(rejected.ID, rejected.Reason)
	}
}

// over records that a request has completed or, if there is a reason, has been rejected.
func (r *run) over(id engine.RequestID, reason string) {
	if reason != "" {
		r.collector.Terminal(id, report.Rejected, reason)
		r.driver.Rejected(int32(id), r.nowMs)
		return
	}
	r.collector.Terminal(id, report.Completed, "")
	r.driver.Completed(int32(id), r.nowMs)
}

// unblock is called when no further event is due. It makes workers that cannot go on give something up.
func (r *run) unblock() bool {
	any := false
	for i := range r.workers {
		if w := &r.workers[i]; w.Engine != nil && !r.faults.stands(0, i) && w.Engine.Requests() > 0 && w.Engine.Unblock() {
			any = true
		}
	}
	return any
}

// cut records the tokens of requests that are not finished when the run ends.
func (r *run) cut() {
	if r.faults != nil {
		r.faults.cut()
		return
	}
	for i := range r.workers {
		if r.workers[i].Engine == nil { // gone, or not started
			continue
		}
		if w := &r.workers[i]; len(w.Coast) > 0 {
			r.settle(i, len(w.Coast))
		}
		for _, request := range r.workers[i].Engine.States() {
			r.collector.Cut(request)
		}
	}
}

func (r *run) deadEnd() error {
	e := &engine.DeadEnd{
		AtMs:      r.nowMs,
		BlockSize: r.Args.BlockSize,
		Capacity:  r.Args.NumGPUBlocks,
	}
	for i := range r.workers {
		if w := &r.workers[i]; w.Engine != nil {
			e.Requests = append(e.Requests, w.Engine.States()...)
		}
	}
	for i := range e.Requests {
		e.Requests[i].Name = r.Workload.TurnName(int32(r.of(e.Requests[i].ID)))
	}
	return e
}
