package fleet

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/router"
)

// targets are what the router of a pool chooses from: the workers or, if it chooses the data-parallel rank, too, the
// ranks of all workers. To the router each of these is a worker:
//
//	worker   0     0     1     1     2     2
//	rank     0     1     0     1     0     1
//	target   0     1     2     3     4     5
type targets struct {
	each   int     // targets of a worker, 1 unless the router chooses ranks
	chosen []int32 // by request: the number behind that of the rank that was chosen last; empty unless it chooses any
}

// worker returns the worker that a target belongs to.
func (t *targets) worker(target int) int { return target / t.each }

// choose keeps the rank of the target that was chosen for a request.
func (t *targets) choose(id engine.RequestID, target int) {
	if t.each > 1 {
		t.chosen = withRoom(t.chosen, id)
		t.chosen[id] = int32(target%t.each) + 1
	}
}

// of calls do with each target of a worker.
func (t *targets) of(worker int, do func(target int)) {
	for rank := range t.each {
		do(worker*t.each + rank)
	}
}

// all returns the targets of workers.
func (t *targets) all(workers []int) []int {
	if t.each == 1 {
		return workers
	}
	targets := make([]int, 0, len(workers)*t.each)
	for _, i := range workers {
		t.of(i, func(target int) { targets = append(targets, target) })
	}
	return targets
}

// tell tells a router what the cache of a worker has stored and removed. The events of a rank are together.
func (t *targets) tell(late *router.LateNews, to router.Router, worker int, events []kvcache.Event, nowMs float64) {
	for len(events) > 0 {
		rank, n := events[0].Rank, 1
		for n < len(events) && events[n].Rank == rank {
			n++
		}
		late.Tell(to, worker*t.each+int(rank), events[:n], nowMs)
		events = events[n:]
	}
}

// OnRank returns the number behind that of the rank that the router of the pool has chosen for a request, or 0 if it
// chooses none.
func (p *Pool) OnRank(id engine.RequestID) int {
	if int(id) >= len(p.targets.chosen) {
		return 0
	}
	return int(p.targets.chosen[id])
}

// observe has the engine of a worker report the changes of its cache as the router of the pool wants them.
func (p *Pool) observe(e engine.Engine) {
	if ranks, several := e.(engine.Ranked); several && p.targets.each > 1 {
		ranks.ObserveRanks()
	} else {
		e.Observe()
	}
}
