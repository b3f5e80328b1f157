package report

import "dynosim/gocore/engine"

// lockstep adds up the time of ranks in common passes, over all workers.
type lockstep struct {
	sum  engine.Lockstep
	seen []engine.Lockstep // by worker: what its engine has told
}

// Lockstep records the time in passes that the ranks of a worker have had so far.
func (c *Collector) Lockstep(worker int, total engine.Lockstep) {
	l := &c.lockstep
	for worker >= len(l.seen) {
		l.seen = append(l.seen, engine.Lockstep{})
	}
	l.add(total.Since(l.seen[worker]))
	l.seen[worker] = total
}

func (l *lockstep) add(more engine.Lockstep) {
	l.sum.PassMs += more.PassMs
	l.sum.WaitMs += more.WaitMs
}
