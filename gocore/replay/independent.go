package replay

import (
	"errors"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/journal"
	"dynosim/gocore/report"
	"dynosim/gocore/timing"
	"dynosim/gocore/worker"
)

// Workers that get their requests in turn do not depend on each other if no request waits for another one: it is known beforehand
// which worker gets which request at what time. Then each worker runs by itself, from beginning to end. That is faster even one
// after the other: the state of one worker fits the caches of a processor, that of a thousand does not.

// independent reports whether workers can run by themselves. Engines that depend on events of other workers cannot: in a dead end
// SGLang tries something at every event. Nor can workers whose caches are logged, as the lines are in the order of time.
func (cfg *Config) independent(setups []engine.Setup) bool {
	if cfg.Workers == 1 || !cfg.Router.Make(cfg.Workers).Traits().InTurn {
		return false
	}
	if cfg.Concurrency > 0 || !cfg.Workload.Flat() || !worker.Traits(cfg.Args).Independent {
		return false
	}
	return !slices.ContainsFunc(setups, func(s engine.Setup) bool { return !timing.Pure(s.Model) || s.Trace != nil })
}

// independently runs the workers by themselves, each as a cluster of one, and joins their results in the order of workers.
func (r *run) independently(setups []engine.Setup) error {
	parts, errs := make([]*run, r.Workers), make([]error, r.Workers)
	collectors, journals := make([]*report.Collector, r.Workers), make([]*journal.Journal, r.Workers)
	for i := range parts {
		collectors[i], journals[i] = r.collector.Part(i), r.Journal.Part(i)
		parts[i] = &run{Config: r.Config, driver: r.driver.Share(i, r.Workers), collector: collectors[i]}
		parts[i].Workers, parts[i].Router, parts[i].Journal = 1, nil, journals[i]
	}
	each := r.Each
	if each == nil {
		each = inOrder
	}
	each(len(parts), func(i int) {
		errs[i] = parts[i].alone(setups[i : i+1])
	})
	for _, part := range parts {
		r.nowMs = max(r.nowMs, part.nowMs)
	}
	r.collector.Merge(collectors)
	r.Journal.Merge(journals)
	return joinDeadEnds(errs)
}

func inOrder(n int, do func(int)) {
	for i := range n {
		do(i)
	}
}

// alone runs the only worker of a part and drops it afterwards: a thousand of them would fill the memory.
func (r *run) alone(setups []engine.Setup) error {
	defer func() { r.workers = nil }()
	if err := r.cluster(setups); err != nil {
		return err
	}
	r.cut()
	r.collector.Leave()
	return nil
}

// joinDeadEnds makes one error of those of all workers: the first error that is no dead end, or one dead end with all requests that
// are left.
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
