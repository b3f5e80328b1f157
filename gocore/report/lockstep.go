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

// groupWaits adds up what requests waited for in caches of several groups, over all workers.
type groupWaits struct {
	sum  engine.GroupUse
	seen []engine.GroupUse // by worker: what its engine has told
}

// Groups records what the groups of the cache of a worker have been told of so far.
func (c *Collector) Groups(worker int, total engine.GroupUse) {
	g := &c.groups
	for worker >= len(g.seen) {
		g.seen = append(g.seen, engine.GroupUse{})
	}
	g.add(total.Since(g.seen[worker]))
	g.seen[worker] = total
}

func (g *groupWaits) add(more engine.GroupUse) {
	g.sum.WaitFullMs += more.WaitFullMs
	g.sum.WaitOthersMs += more.WaitOthersMs
}

func (l *lockstep) add(more engine.Lockstep) {
	l.sum.PassMs += more.PassMs
	l.sum.WaitMs += more.WaitMs
}
