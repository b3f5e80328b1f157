package replay

import (
	"errors"
	"slices"

	"dynosim/gocore/planner"
	"dynosim/gocore/router"
)

// pool is the workers of one kind in a run with a planner, which come and go:
//
//	starting --start-up ends--> active --drain--> draining --last request ends--> gone
//	    \--cancelled--> gone
//
// Ids count up and are never used again. Only active workers get new requests. Nothing is moved from a worker that drains
// to another one.
//
// A run without a planner has no pool: what loops tell a nil pool has no effect.
type pool struct {
	name     string // "agg", "prefill" or "decode"
	startUps startUps
	router   router.Elastic
	crew     crew
	tally    tally

	active, starting, draining []int        // ids, ascending
	next                       int          // the id of the next worker that is added
	seconds                    float64      // of simulated time, times workers
	cold                       map[int]bool // ids of workers that were added and have ended no pass yet: nothing is cached there

	// What faults need; nil and empty without them. See poolfaults.go.
	life    *life
	shunned []int // active workers that get no requests
	absent  int   // lost workers that will come back
}

// crew is what a pool asks of the event loop that has its workers.
type crew interface {
	// add makes room for a worker, whose id is higher by 1 than that of the last one.
	add(id int)
	// start makes the engine of a worker.
	start(id int)
	// empty reports whether a worker has neither a request nor a pass.
	empty(id int) bool
	// remove forgets the engine of a worker.
	remove(id int)
	// admit hands requests to the workers that the router chose.
	admit(admitted []router.Admission, err error) error
	// release submits the requests that are held because no worker was active.
	release() error
	// held is the number of these.
	held() int
	// catchUp carries out the passes of coasts that have begun, so that engines are as they would be without coasting.
	catchUp()
	// gauge is what a worker has to do.
	gauge(id int) planner.Gauge
}

// newPool makes a pool whose first workers are active from the start. The crew has them.
func newPool(name string, workers int, s startUps, elastic router.Elastic, c crew) *pool {
	p := &pool{name: name, startUps: s, router: elastic, crew: c, next: workers, cold: map[int]bool{}}
	for id := range workers {
		p.active = append(p.active, id)
	}
	return p
}

func (p *pool) total() int { return len(p.active) + len(p.starting) + len(p.draining) + p.absent }

// wanted is how many workers the pool is to have, as far as was decided.
func (p *pool) wanted() int { return len(p.active) + len(p.starting) + p.absent }

// scaleTo starts workers, or takes some away: those first that have not started yet, and of either kind the youngest. It
// returns the ids of those that have to start up.
func (p *pool) scaleTo(target int) (started []int) {
	for p.wanted() < target {
		id := p.next
		p.next++
		p.crew.add(id)
		p.starting = append(p.starting, id)
		started = append(started, id)
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
func (p *pool) activate(id int) bool {
	at := slices.Index(p.starting, id)
	if at < 0 {
		return false
	}
	p.starting = slices.Delete(p.starting, at, at+1)
	p.active = append(p.active, id)
	slices.Sort(p.active)
	p.cold[id] = true
	p.crew.start(id)
	p.life.started(id)
	return true
}

// elapse counts the seconds of workers while simulated time passes.
func (p *pool) elapse(ms float64) {
	if p != nil && ms > 0 {
		p.seconds += float64(float64(p.total())*ms) / 1000
	}
}

// ended is told of the end of a pass.
func (p *pool) ended(id int) {
	if p == nil {
		return
	}
	delete(p.cold, id)
	if t := p.watch(); t != nil {
		t.end(id)
	}
}

// announce tells the router which workers are active. Requests that were held go first.
func (p *pool) announce(nowMs float64) error {
	if err := p.crew.admit(p.router.SetWorkers(p.routed(), nowMs)); err != nil || !p.serves() {
		return err
	}
	return p.crew.release()
}

// removeDrained lets workers go that have nothing left to do.
func (p *pool) removeDrained() (changed bool, err error) {
	var gone []int
	p.draining = slices.DeleteFunc(p.draining, func(id int) bool {
		if !p.crew.empty(id) || !p.life.reachable(id) {
			return false
		}
		p.router.Forget(id)
		delete(p.cold, id)
		p.crew.remove(id)
		gone = append(gone, id)
		return true
	})
	for _, id := range gone {
		if p.life != nil {
			if err := p.life.gone(id); err != nil {
				return true, err
			}
		}
	}
	return len(gone) > 0, nil
}

// waiting is the number of requests that wait for a worker.
func (p *pool) waiting() int { return p.crew.held() + p.router.Waiting() }

// closed reports whether requests have to be held before they come to the router, because it would need a worker for them.
func (p *pool) closed() bool { return p != nil && !p.serves() && !p.router.Queues() }

// state is what a planner sees of the pool.
func (p *pool) state(wants planner.Wants) planner.Pool {
	s := planner.Pool{
		Active: len(p.active), Starting: len(p.starting), Total: p.total(),
		Held:   p.waiting(),
		Passes: p.tally.take(),
	}
	if wants.Gauges {
		for _, id := range p.active {
			s.Gauges = append(s.Gauges, p.crew.gauge(id))
		}
	}
	return s
}

// elastic is the router of a pool with a planner.
func elastic(r router.Router) (router.Elastic, error) {
	if e, ok := r.(router.Elastic); ok {
		return e, nil
	}
	return nil, errors.New("this router mode cannot be used with a planner: its workers never change")
}
