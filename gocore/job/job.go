package job

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"slices"
	"time"

	"dynosim/gocore/deploy"
	"dynosim/gocore/engine"
	"dynosim/gocore/journal"
	"dynosim/gocore/pace"
	"dynosim/gocore/planner"
	"dynosim/gocore/replay"
	"dynosim/gocore/report"
	"dynosim/gocore/router"
	_ "dynosim/gocore/router/policies" // routing modes
	"dynosim/gocore/workload"
)

// runError is an error of a run that had begun.
type runError struct{ error }

func (e runError) Unwrap() error { return e.error }

// Kind sorts an error of Run: "usage" for bad input, decisions of a planner included, "notfound" for a file that does
// not exist, "failed" for a run that had begun, "cancelled" for one that was stopped.
func Kind(err error) string {
	var failed runError
	var decision *planner.DecisionError
	switch {
	case errors.As(err, &decision):
		return "usage"
	case errors.Is(err, ErrCancelled):
		return "cancelled"
	case errors.As(err, &failed):
		return "failed"
	case errors.Is(err, fs.ErrNotExist):
		return "notfound"
	}
	return "usage"
}

// Run carries out the run that config describes, see [Parse]. All input is checked before anything is simulated.
func Run(config string, m *Monitor) (_ *Result, err error) {
	spec, err := Parse(config)
	if err != nil {
		return nil, err
	}
	r, err := load(spec, m)
	if err != nil {
		return nil, err
	}
	complete, thrift := false, func() {}
	defer func() {
		if !complete { // also after a panic
			r.abandon(err)
		}
		if !complete || !r.rows {
			thrift()
		}
	}()
	warnings := r.check()
	if r.workload.Len() >= thriftFrom {
		thrift = beThrifty()
	}
	outcome, err := r.simulate()
	if err != nil {
		return nil, err
	}
	result, err := r.report(outcome, warnings)
	if complete = err == nil; complete && r.rows {
		result.thrift = thrift // columns of rows are large
	}
	return result, err
}

// run is a Spec together with the inputs that were loaded for it.
type run struct {
	*Spec
	monitor    *Monitor
	sdk        *sdk
	deployment deployment // with the sizes of KV pools that the AIC SDK has estimated
	calibrated []string   // what profiles have set
	link       *link      // between two pools
	freeLink   string     // the warning that it is free, "" for none
	models     models
	stages     []*router.Options // the routers of one pool, or of prefill and decode workers
	workload   *workload.Workload
	files      *writtenFiles
	policies   *deploy.Policies // in Python, nil without any
	unpinned   []string         // warnings of the file with decisions to repeat
	origin     provenance
	saved      *savedTrace // nil if the workload is not saved
}

// load opens the inputs of a run: predictions of the AIC SDK, measured durations, the workload, decisions to repeat,
// and ai-dynamo's planner.
func load(s *Spec, m *Monitor) (*run, error) {
	r := &run{Spec: s, monitor: m, sdk: newSDK(m), files: new(writtenFiles)}
	var err error
	if r.deployment, r.calibrated, err = s.deployment.calibrate(); err != nil {
		return nil, err
	}
	if r.deployment, err = r.sdk.sizePools(r.deployment); err != nil {
		return nil, err
	}
	if r.deployment, err = r.sdk.sizeHost(r.deployment); err != nil {
		return nil, err
	}
	if r.deployment, r.link, r.freeLink, err = r.sdk.withLink(r.deployment); err != nil {
		return nil, err
	}
	if r.models, err = loadModels(r.deployment, r.sdk, m); err != nil {
		return nil, err
	}
	if r.stages, err = s.routing.open(s.deployment, r.sdk); err != nil {
		return nil, err
	}
	if r.workload, err = loadWithin(m, s, r.deployment); err != nil {
		return nil, err
	}
	if r.unpinned, err = s.routing.pin(r.stages, r.workload, s.faults != nil); err != nil {
		return nil, err
	}
	if r.policies, err = r.askPolicies(); err != nil {
		return nil, err
	}
	if r.origin, err = describe(s, r.deployment, r.sdk, m); err != nil {
		return nil, err
	}
	r.origin.Durations[0].Link = r.link
	if err = r.scaling.stock.open(m, r.deployment, r.sdk); err != nil {
		return nil, err
	}
	r.saved, err = r.schedule()
	return r, err
}

// check returns the warnings of a run that is about to begin.
func (r *run) check() []string {
	warnings := slices.Concat(r.warnings, r.calibrated)
	if r.freeLink != "" {
		warnings = append(warnings, r.freeLink)
	}
	return slices.Concat(warnings, r.unpinned, r.sdk.sessions.Warnings(), r.scaling.warnings(), r.ineffective())
}

// ended is the outcome of a simulation.
type ended struct {
	replay.Outcome
	wall    time.Duration
	journal *journal.Journal // nil if the run keeps none
}

// simulate carries out the run, and writes what is logged of it.
func (r *run) simulate() (ended, error) {
	r.monitor.total.Store(int64(r.workload.Len()))
	if err := r.monitor.enter(running); err != nil {
		return ended{}, err
	}
	var e ended
	err := r.beside(r.logs(), func() (err error) {
		e, err = r.timed()
		return err
	})
	if err == nil {
		err = cmp.Or(r.sdk.err(), r.models.err(), r.policies.Err()) // of the last few passes
	}
	if err != nil {
		return ended{}, runError{r.named(err)}
	}
	r.monitor.done.Store(int64(e.Collector.Ended())) // the last requests end after the last poll
	return e, nil
}

// config returns the configuration of the replay.
func (r *run) config() replay.Config {
	r.askRouters()
	cfg := withWorkers(replay.Config{
		Concurrency: r.concurrency, MaxSimTimeMs: r.maxSimTimeMs, Late: r.late,
		Workload: r.workload, Each: inParallel, Setup: r.models.setup(r.deployment), Poll: r.poll,
		NoRows: !r.rows && r.faults == nil && !r.workload.Tenants, Faults: r.faults, SLA: r.sla,
		Attribution: r.attribution, Seed: r.startUpSeed(),
		KVEventLagMs: r.kvEventLagMs,
	}, r.deployment, r.routing.Mode, r.stages)
	if r.policies != nil {
		cfg.Policy = r.policies.Of
	}
	cfg.Planner = r.scaling.planner(r.monitor, r.deployment.disaggregated)
	cfg.Sampler = r.scaling.sampler(r.monitor)
	cfg.Journal = r.journal.open(r)
	if r.online {
		cfg.Await = pace.NewFollower().Await
	}
	return cfg
}

// startUpSeed returns the seed of start-up times that are drawn.
func (r *run) startUpSeed() uint64 {
	if r.synthetic {
		return r.generated.Seed
	}
	return r.seed
}

// poll stops the run when it is cancelled or the AIC SDK has failed.
func (r *run) poll(nowMs float64, finished int) error {
	if err := cmp.Or(r.sdk.err(), r.models.err(), r.policies.Err()); err != nil {
		return err
	}
	return r.monitor.pollRun(nowMs, finished)
}

// runLog is a file that is written while the run goes on, "" for none. begin has the run told to it, and returns what
// ends the file.
type runLog struct {
	path  string
	begin func(io.Writer) (end func() error)
}

// logs lists those files: decisions of the routers, and ticks of the planner.
func (r *run) logs() []runLog {
	return []runLog{{r.outputs.routerLog, r.logDecisions}, {r.scaling.log, r.logTicks}}
}

// beside does work while logs are written.
func (r *run) beside(logs []runLog, work func() error) error {
	switch {
	case len(logs) == 0:
		return work()
	case logs[0].path == "":
		return r.beside(logs[1:], work)
	}
	return r.files.write(logs[0].path, func(file io.Writer) error {
		end := logs[0].begin(file)
		return errors.Join(r.beside(logs[1:], work), end())
	})
}

func (r *run) logDecisions(file io.Writer) (end func() error) {
	log := newDecisionLog(file, r.workload)
	for _, stage := range r.stages {
		stage.Log = func(d router.Decision) { log.add(d, stage.Ranks > 1) }
	}
	if r.faults != nil {
		log.again, r.faults.Began = map[int32]attempt{}, log.began
	}
	return log.flush
}

func (r *run) logTicks(file io.Writer) (end func() error) {
	r.scaling.ticks = newTickLog(file)
	return r.scaling.ticks.flush
}

// timed runs the event loop and measures how long that takes.
func (r *run) timed() (ended, error) {
	started := time.Now()
	cfg := r.config()
	outcome, err := replay.Run(cfg)
	return ended{outcome, time.Since(started), cfg.Journal}, err
}

// report sums up the run and writes the file with its requests.
func (r *run) report(e ended, warnings []string) (*Result, error) {
	if err := r.monitor.enter(reporting); err != nil {
		return nil, err
	}
	summary := append(e.Collector.Summarise(r.resources(e), r.sla), lateCounts(r.late, e.Collector.Late())...)
	warnings = slices.Concat(warnings, r.sdk.finalWarnings(), r.outcomeWarnings(e.Collector))
	result := &Result{summary: summary, warnings: warnings, saved: r.saved, files: r.files, origin: r.origin,
		scaling: e.Scaling, meetings: e.Meetings}
	result.explained = e.Collector.Explain()
	if w := r.workload; w.Tenants {
		tenants := e.Collector.ByTenant(func(id engine.RequestID) (string, float64) {
			hints := w.Hints[int32(id)]
			return hints.Tenant, hints.DeadlineMs
		}, r.sla)
		result.tenants = &tenants
	}
	var err error
	var warning string
	if result.series, warning, err = r.journal.close(e.journal, e.Outcome, r.files, r.monitor.poll); err != nil {
		return nil, err
	}
	if warning != "" {
		result.warnings = append(result.warnings, warning)
	}
	result.faults = r.reportFaults(e)
	if r.rows {
		result.rows = e.Collector.Rows(r.workload)
	}
	if r.outputs.rows == "" {
		return result, nil
	}
	result.writeErr = r.files.write(r.outputs.rows, func(file io.Writer) error {
		return result.rows.WriteJSONL(pollingWriter{file, r.monitor.poll})
	})
	if errors.Is(result.writeErr, ErrCancelled) {
		return nil, ErrCancelled
	}
	if result.writeErr != nil { // the result stays, but no file
		r.files.discard()
		result.saved = nil
	}
	return result, nil
}

// resources returns what the run used.
func (r *run) resources(e ended) report.Resources {
	return report.Resources{
		PrefillWorkerSeconds: e.PrefillWorkerSeconds,
		DecodeWorkerSeconds:  e.WorkerSeconds,
		PrefillGPUsPerWorker: r.deployment.prefill.GPUsPerWorker,
		DecodeGPUsPerWorker:  r.deployment.args.GPUsPerWorker,
		TimingModel:          r.models.name,
		Scheduler:            r.deployment.ownScheduler(),
		HostTier:             r.deployment.args.HostCache.Blocks > 0,
		Storage:              r.deployment.args.HostCache.Storage.Blocks > 0,
		Faults:               r.faults != nil,
		HostBlockBytes:       r.deployment.args.HostCache.TokenBytes * r.deployment.args.BlockSize,
		HostLinks:            r.deployment.args.Ranks,
		Ranks:                r.deployment.ranked(),
		Groups:               r.deployment.args.LayerGroups().Beside > 0,
		WallMs:               float64(e.wall.Nanoseconds()) / 1e6,
		GPUHourPrice:         r.gpuHourPrice,
	}
}
