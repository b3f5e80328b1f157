package report

import "dynosim/gocore/engine"

// additive is a sum of what an engine has done, which can be subtracted from a later one and added to others.
type additive[T any] interface {
	Since(earlier T) T
	Plus(more T) T
}

// overWorkers adds up, over all workers, what each reports as a total since it began.
type overWorkers[T additive[T]] struct {
	sum  T
	seen []T // by worker: its last total
}

// record takes the total of a worker.
func (o *overWorkers[T]) record(worker int, total T) {
	for worker >= len(o.seen) {
		var none T
		o.seen = append(o.seen, none)
	}
	o.add(total.Since(o.seen[worker]))
	o.seen[worker] = total
}

func (o *overWorkers[T]) add(more T) { o.sum = o.sum.Plus(more) }

// Lockstep records the time in passes that the ranks of a worker have had so far.
func (c *Collector) Lockstep(worker int, total engine.Lockstep) { c.lockstep.record(worker, total) }

// Groups records how long requests have waited for blocks of the groups of a worker's cache so far.
func (c *Collector) Groups(worker int, total engine.GroupUse) { c.groups.record(worker, total) }
