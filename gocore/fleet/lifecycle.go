package fleet

import (
	"errors"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/planner"
	"dynosim/gocore/router"
)

// lifecycle is how the workers of a pool come and go, if a planner or faults have them do so:
//
//	starting --start-up ends--> active --drain--> draining --last request ends--> gone
//	    \--cancelled--> gone
//
// Ids count up and are never used again. Only active workers get new requests. Nothing is moved from a worker that
// drains to another one.
type lifecycle struct {
	elastic  router.Elastic // the router; nil if workers never change
	startUps startUps

	active, starting, draining []int   // ids, ascending
	suspended                  []int   // active workers that get no requests
	absent                     int     // lost workers that will come back
	seconds                    float64 // of simulated time, times workers
	// cold are workers that were added and have ended no pass yet: nothing is cached there.
	cold map[int]bool
}

func newLifecycle(p *Pool) lifecycle {
	l := lifecycle{active: make([]int, p.Workers)}
	for id := range l.active {
		l.active[id] = id
	}
	return l
}

// changes prepares a pool whose workers come and go.
func (p *Pool) changes(f *Fleet) error {
	e, ok := p.router.(router.Elastic)
	if !ok {
		return errors.New("this router mode cannot be used with a planner: its workers never change")
	}
	stream := uint64(decodeStartUps)
	if p.Role == engine.Prefill {
		stream = prefillStartUps
	}
	p.elastic, p.startUps, p.cold = e, startUpsOf(p.Args, f.Seed, stream), map[int]bool{}
	return nil
}

// Name returns what planners and reports call the pool.
func (p *Pool) Name() string {
	if p.Role == engine.Aggregated {
		return "agg"
	}
	return p.Role.String()
}

// Active returns the ids of the active workers, in ascending order. Draining returns those of workers that end their
// requests.
func (p *Pool) Active() []int   { return p.active }
func (p *Pool) Draining() []int { return p.draining }

// Has reports whether a worker is active or draining.
func (p *Pool) Has(i int) bool { return slices.Contains(p.active, i) || slices.Contains(p.draining, i) }

// Seconds returns the simulated seconds of all workers, as far as the clock has come.
func (p *Pool) Seconds() float64 { return p.seconds }

func (p *Pool) total() int { return len(p.active) + len(p.starting) + len(p.draining) + p.absent }

// wanted returns how many workers the pool is to have, as far as was decided.
func (p *Pool) wanted() int { return len(p.active) + len(p.starting) + p.absent }

// add makes room for one more worker, and returns its id. It starts up.
func (p *Pool) add() (id int) {
	id = len(p.workers)
	p.workers = append(p.workers, Worker{})
	p.ready, p.coasting = p.ready.withRoom(id), p.coasting.withRoom(id)
	p.fleet.Recorder.Added(p)
	p.starting = append(p.starting, id)
	return id
}

// scaleTo starts workers, or takes some away: those first that have not started yet, and of either kind the youngest.
// It returns the ids of those that have to start up.
func (p *Pool) scaleTo(target int) (started []int) {
	for p.wanted() < target {
		started = append(started, p.add())
	}
	for p.wanted() > target && len(p.starting) > 0 {
		p.starting = p.starting[:len(p.starting)-1]
	}
	for len(p.active) > target { // with those that will come back it may have more for a while
		last := len(p.active) - 1
		p.draining = append(p.draining, p.active[last])
		p.active = p.active[:last]
	}
	slices.Sort(p.draining)
	return started
}

// activate ends the start-up of a worker. It reports false if the worker was cancelled.
func (p *Pool) activate(id int) bool {
	at := slices.Index(p.starting, id)
	if at < 0 {
		return false
	}
	p.starting = slices.Delete(p.starting, at, at+1)
	p.active = append(p.active, id)
	slices.Sort(p.active)
	p.cold[id] = true
	if h := p.hooks; h != nil {
		h.Activated(id)
	}
	p.start(id)
	p.fleet.scaler.observe(p.workers[id].Engine)
	return true
}

// passEnded counts the end of a pass.
func (p *Pool) passEnded(id int) {
	if len(p.cold) > 0 {
		delete(p.cold, id)
	}
	if p.tally.on {
		p.tally.end(id)
	}
}

// Announce tells the router which workers get requests. Requests that were held go first.
func (p *Pool) Announce() error {
	admitted, err := p.elastic.SetWorkers(p.targets.all(p.routed()), p.fleet.nowMs)
	if err := p.fleet.admitted(p, admitted, err); err != nil || !p.Serves() {
		return err
	}
	return p.release()
}

// routed returns the workers that get requests: active ones, but not those that are suspended.
func (p *Pool) routed() []int {
	if len(p.suspended) == 0 {
		return p.active
	}
	return slices.DeleteFunc(slices.Clone(p.active), func(id int) bool { return slices.Contains(p.suspended, id) })
}

// Serves reports whether some worker gets requests.
func (p *Pool) Serves() bool { return len(p.routed()) > 0 }

// removeDrained lets workers go that have nothing left to do.
func (p *Pool) removeDrained() (changed bool, err error) {
	var gone []int
	p.draining = slices.DeleteFunc(p.draining, func(id int) bool {
		if !p.workers[id].empty() || !p.reachable(id) {
			return false
		}
		p.targets.of(id, p.elastic.Forget)
		delete(p.cold, id)
		p.workers[id] = Worker{}
		p.targets.of(id, p.late.Forget)
		p.fleet.Recorder.Removed(p, id)
		gone = append(gone, id)
		return true
	})
	if h := p.hooks; h != nil {
		for _, id := range gone {
			if err := h.Drained(id); err != nil {
				return true, err
			}
		}
	}
	return len(gone) > 0, nil
}

// empty reports whether a worker has neither a request nor a pass, and nothing waits for it.
func (w *Worker) empty() bool {
	return w.Engine == nil ||
		!w.Busy() && len(w.deferred) == 0 && w.onWay == 0 && w.Engine.Requests() == 0 && len(w.Engine.States()) == 0
}

// waiting returns the number of requests that wait for a worker.
func (p *Pool) waiting() int {
	if p.elastic == nil { // some worker is always active
		return 0
	}
	return len(p.kept) + p.elastic.Waiting()
}

// closed reports whether requests have to be held before they come to the router, because it would need a worker for
// them.
func (p *Pool) closed() bool { return p.elastic != nil && !p.Serves() && !p.elastic.Queues() }

// Suspend has nothing sent to a worker, or something again, from the next [Pool.Announce] on.
func (p *Pool) Suspend(id int, yes bool) {
	p.suspended = slices.DeleteFunc(p.suspended, func(other int) bool { return other == id })
	if yes {
		p.suspended = append(p.suspended, id)
	}
}

// Lose takes a worker out of the pool. It reports false if it was not there.
func (p *Pool) Lose(id int) bool {
	if !p.Has(id) {
		return false
	}
	p.active = slices.DeleteFunc(p.active, func(other int) bool { return other == id })
	p.draining = slices.DeleteFunc(p.draining, func(other int) bool { return other == id })
	delete(p.cold, id)
	p.targets.of(id, p.elastic.Forget)
	return true
}

// Drain has a worker end its requests and go.
func (p *Pool) Drain(id int) {
	p.active = slices.DeleteFunc(p.active, func(other int) bool { return other == id })
	p.draining = append(p.draining, id)
	slices.Sort(p.draining)
}

// Expect counts workers that are lost and will come back.
func (p *Pool) Expect(more int) { p.absent += more }

// Launch starts one more worker, whose id is [Pool.Len] before.
func (p *Pool) Launch() { p.fleet.scaler.startUp(p, p.add()) }

// state returns what a planner sees of the pool.
func (p *Pool) state(wants planner.Wants) planner.Pool {
	s := planner.Pool{
		Active: len(p.active), Starting: len(p.starting), Total: p.total(),
		Held: p.waiting(),
	}
	if wants.Passes {
		s.Passes = p.tally.take()
	}
	if wants.Gauges {
		for _, id := range p.active {
			s.Gauges = append(s.Gauges, p.gauge(id))
		}
		s.StartingIDs, s.DrainingIDs = p.starting, p.draining
	}
	return s
}

// gauge returns what a worker has to do.
func (p *Pool) gauge(id int) planner.Gauge {
	e := p.workers[id].Engine
	if e == nil { // lost, which was not noticed yet
		return planner.Gauge{Worker: id, Blocks: p.Args.NumGPUBlocks}
	}
	waiting, running, active := e.(engine.Reporter).Load()
	return planner.Gauge{Worker: id, Waiting: waiting, Running: running, ActiveBlocks: active,
		Blocks: p.Args.NumGPUBlocks}
}
