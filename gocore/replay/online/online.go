package online

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"dynosim/gocore/engine"
	"dynosim/gocore/pace"
	"dynosim/gocore/replay"
	"dynosim/gocore/report"
	"dynosim/gocore/router"
	"dynosim/gocore/workload"
)

// pollEvery is how often Config.Poll is called.
const pollEvery = 20 * time.Millisecond

// Run replays a workload of aggregated workers on the clock. Config.MaxSimTimeMs is ignored.
func Run(cfg replay.Config) (*report.Collector, error) {
	stop := make(chan struct{})
	d := &dispatcher{
		Config:    cfg,
		clock:     pace.New(stop),
		driver:    workload.NewDriver(cfg.Workload, cfg.Concurrency),
		collector: report.NewCollector(len(cfg.Workload.Turns), cfg.Workers).Within(cfg.Args.MaxModelLen),
		messages:  make(chan message, 4*cfg.Workers),
		router:    cfg.Router.Make(cfg.Workers),
		late:      router.LateNews{LagMs: cfg.KVEventLagMs},
	}
	d.observes = d.router.Traits().Observes
	var models sync.Mutex // workers share their timing model
	for i := range cfg.Workers {
		d.workers = append(d.workers, newWorker(i, &cfg, d.observes, &models, d.clock, d.messages, stop))
	}
	for _, w := range d.workers {
		go w.run()
	}
	err := d.serve()
	close(stop)
	for _, w := range d.workers {
		<-w.done
	}
	return d.collector, err
}

// dispatcher hands requests to workers, and records what workers report.
type dispatcher struct {
	replay.Config
	clock     *pace.Clock
	driver    *workload.Driver
	collector *report.Collector
	router    router.Router
	observes  bool            // whether the router does
	late      router.LateNews // what it has not heard of yet
	workers   []*worker
	messages  chan message
	open      int // requests that have arrived and are not over
}

// serve goes on until all requests are over.
func (d *dispatcher) serve() error {
	arrivals := time.NewTimer(math.MaxInt64)
	polls := time.NewTicker(pollEvery)
	defer polls.Stop()
	for d.driver.Unreleased() > 0 || d.open > 0 {
		if err := d.release(); err != nil {
			return err
		}
		next, ok := d.driver.NextMs()
		if !ok && d.open == 0 && d.driver.Unreleased() > 0 {
			return errors.New("the requests that are left wait for others that never arrive")
		}
		if ok {
			arrivals.Reset(time.Duration((next - d.clock.NowMs()) * 1e6))
		}
		var err error
		select {
		case m := <-d.messages:
			err = d.record(m)
		case <-arrivals.C:
		case <-polls.C:
			err = d.poll()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *dispatcher) poll() error {
	if d.Poll == nil {
		return nil
	}
	return d.Poll(d.clock.NowMs(), d.collector.Finished())
}

// release hands all requests that are due to workers.
func (d *dispatcher) release() error {
	for {
		turn, arrivalMs, ok := d.driver.Next(d.clock.NowMs())
		if !ok {
			return nil
		}
		d.open++
		req := d.request(turn)
		d.collector.Arrival(req, arrivalMs)
		now := d.clock.NowMs()
		d.late.CatchUp(d.router, now)
		if err := d.admit(d.router.Submit(replay.RouterRequest(req, d.Workload), now)); err != nil {
			return err
		}
	}
}

func (d *dispatcher) request(turn int32) engine.Request {
	t := d.driver.Turn(turn)
	return engine.Request{
		ID: engine.RequestID(turn), Prompt: t.Prompt, PromptTokens: t.InputTokens, OutputTokens: t.OutputTokens, NamedBlocks: t.NamedBlocks,
	}
}

// admit hands requests to the workers that the router chose.
func (d *dispatcher) admit(admitted []router.Admission, err error) error {
	for _, a := range admitted {
		d.dispatch(a.ID, a.Worker)
	}
	return replay.NameRequest(err, d.Workload)
}

func (d *dispatcher) dispatch(turn int32, to int) {
	d.collector.Worker(engine.RequestID(turn), to)
	d.workers[to].submit(d.request(turn))
}

// record handles the report of a worker: cache events first, then first tokens, then requests that are over.
func (d *dispatcher) record(m message) error {
	if m.failure != "" {
		return fmt.Errorf("worker %d: %s", m.worker, m.failure)
	}
	if d.observes {
		d.late.Tell(d.router, m.worker, m.cache, d.clock.NowMs())
	}
	if m.pass == nil {
		return nil
	}
	now := d.clock.NowMs()
	d.late.CatchUp(d.router, now) // requests that wait at the router may go on below
	m.pass.EndMs = now
	d.collector.Lockstep(m.worker, m.lockstep)
	d.collector.Pass(m.worker, m.pass)
	for _, s := range m.pass.Signals {
		if d.observes && !s.Final {
			if err := d.admit(d.router.PrefillCompleted(int32(s.ID), now)); err != nil {
				return err
			}
		}
	}
	for _, id := range m.pass.Finished {
		d.collector.Terminal(id, report.Completed, "")
		d.driver.Completed(int32(id), now)
		if err := d.free(id, now); err != nil {
			return err
		}
	}
	for _, rejected := range m.pass.Rejected {
		d.collector.Terminal(rejected.ID, report.Rejected, rejected.Reason)
		d.driver.Rejected(int32(rejected.ID), now)
		if err := d.free(rejected.ID, now); err != nil {
			return err
		}
	}
	return nil
}

// free forgets a request that is over.
func (d *dispatcher) free(id engine.RequestID, nowMs float64) error {
	d.open--
	return d.admit(d.router.Free(int32(id), nowMs))
}
