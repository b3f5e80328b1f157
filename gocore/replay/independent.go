package replay

import (
	"errors"
	"math"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/fleet"
	"dynosim/gocore/journal"
	"dynosim/gocore/report"
	"dynosim/gocore/timing"
	"dynosim/gocore/worker"
)

// Workers that get their requests in turn do not depend on each other if no request waits for another one: it is known
// beforehand which worker gets which request at what time. Then each worker runs by itself, from beginning to end. That
// is faster even one after the other: the state of one worker fits the caches of a processor, that of a thousand does
// not.
//
// In a dead end an SGLang engine tries something at every event, those of other workers included: what it does depends
// on how often it is asked. Such engines are run by themselves, too, as hardly any run comes to that: one that does
// begins again, with all workers in one loop.

// independent reports whether workers can run by themselves. Workers whose caches are logged cannot, as the lines are
// in the order of time. A journal cannot forget what it has been told, if the run has to begin again.
func (cfg *Config) independent(setups []engine.Setup) bool {
	if cfg.Workers == 1 || cfg.Args.Targets() > 1 || cfg.Args.HostCache.Shared || cfg.Args.HostCache.Storage.Blocks > 0 ||
		!cfg.Router.Make(cfg.Workers).Traits().InTurn {
		return false
	}
	if cfg.Concurrency > 0 || !cfg.Workload.Flat() || cfg.Journal != nil && !worker.Traits(cfg.Args).Independent {
		return false
	}
	return !slices.ContainsFunc(setups, func(s engine.Setup) bool {
		return !timing.Pure(s.Model) || s.Trace != nil ||
			s.Policy != nil
	})
}

// runIndependently runs the workers by themselves or, if that turns out to be impossible, in one loop.
func (cfg *Config) runIndependently(r *run, setups []engine.Setup) (Outcome, error) {
	outcome, err := r.through(r.independently, setups)
	if !errors.Is(err, fleet.ErrStalled) {
		return outcome, err
	}
	if r.Poll != nil { // what was over is not, now
		if err := r.Poll(r.nowMs, -r.polled); err != nil {
			return Outcome{}, err
		}
	}
	again, setups := newRun(*cfg)
	return again.through(again.inFleet, setups)
}

// independently runs the workers by themselves and joins their results in the order of workers.
func (r *run) independently(setups []engine.Setup) error {
	parts, errs := make([]*run, r.Workers), make([]error, r.Workers)
	collectors, journals := make([]*report.Collector, r.Workers), make([]*journal.Journal, r.Workers)
	for i := range parts {
		collectors[i], journals[i] = r.collector.Part(i), r.Journal.Part(i)
		parts[i] = &run{Config: r.Config, driver: r.driver.Share(i, r.Workers), collector: collectors[i]}
		parts[i].Workers, parts[i].Router, parts[i].Journal = 1, nil, journals[i]
		parts[i].stopWhenStalled = !worker.Traits(r.Args).Independent
	}
	each := r.Each
	if each == nil {
		each = inOrder
	}
	for first := 0; first < len(parts); first += partsAtOnce {
		some := min(partsAtOnce, len(parts)-first)
		each(some, func(i int) {
			i += first
			errs[i] = parts[i].alone(setups[i : i+1])
		})
		r.collector.TakeGaps(collectors[first : first+some])
	}
	for _, part := range parts {
		r.nowMs = max(r.nowMs, part.nowMs)
		r.polled += part.polled
	}
	if slices.Contains(errs, fleet.ErrStalled) {
		return fleet.ErrStalled
	}
	r.collector.Merge(collectors)
	r.Journal.Merge(journals)
	return joinDeadEnds(errs)
}

// partsAtOnce is after how many parts their gaps between tokens are joined.
const partsAtOnce = 8

func inOrder(n int, do func(int)) {
	for i := range n {
		do(i)
	}
}

// alone runs the only worker of a part and drops it afterwards: a thousand of them would fill the memory.
func (r *run) alone(setups []engine.Setup) error {
	defer func() { r.fleet, r.only = nil, worker.Worker{} }()
	loop := r.single
	if !math.IsInf(r.MaxSimTimeMs, 1) { // then single lets arrive what does until its last pass ends, a fleet does not
		loop = r.inFleet
	}
	if err := loop(setups); err != nil {
		return err
	}
	r.cut()
	r.collector.Leave()
	return nil
}

// joinDeadEnds makes one error of those of all workers: the first error that is no dead end, or one dead end with all
// requests that are left.
func joinDeadEnds(errs []error) error {
	var all *engine.DeadEnd
	for _, err := range errs {
		var end *engine.DeadEnd
		switch {
		case err == nil:
		case !errors.As(err, &end):
			return err
		case all == nil:
			all = end
		default:
			all.AtMs = max(all.AtMs, end.AtMs)
			all.Requests = append(all.Requests, end.Requests...)
		}
	}
	if all == nil {
		return nil
	}
	return all
}
