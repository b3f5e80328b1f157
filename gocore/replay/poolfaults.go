package replay

import (
	"math"
	"slices"

	"dynosim/gocore/planner"
)

// What faults change in a pool.

// life is told what happens to workers; nil where no faults listen.
type life struct {
	active func(id int)         // its start-up has ended
	gone   func(id int) error   // it has drained
	delay  func(id int) float64 // how many times as long as usual its start-up takes, which begins

	stands, cut func(id int) bool // it can begin no pass; it cannot be told anything
}

// halted reports whether a worker can begin no pass.
func (l *life) halted(id int) bool { return l != nil && l.stands(id) }

// reachable reports whether a worker can be told something.
func (l *life) reachable(id int) bool { return l == nil || !l.cut(id) }

// started tells that a worker has become active.
func (l *life) started(id int) {
	if l != nil {
		l.active(id)
	}
}

// factor is how many times as long as usual the start-up of a worker takes.
func (l *life) factor(id int) float64 {
	if l == nil {
		return 1
	}
	return l.delay(id)
}

// routed are the workers that get requests: active ones, but not those that are shunned.
func (p *pool) routed() []int {
	if len(p.shunned) == 0 {
		return p.active
	}
	return slices.DeleteFunc(slices.Clone(p.active), func(id int) bool { return slices.Contains(p.shunned, id) })
}

// serves reports whether some worker gets requests.
func (p *pool) serves() bool { return len(p.routed()) > 0 }

// shun has nothing sent to a worker, or something again.
func (p *pool) shun(id int, yes bool) {
	p.shunned = slices.DeleteFunc(p.shunned, func(other int) bool { return other == id })
	if yes {
		p.shunned = append(p.shunned, id)
	}
}

// leave takes a worker out of the pool. It reports false if it was not there.
func (p *pool) leave(id int) bool {
	before := len(p.active) + len(p.draining)
	p.active = slices.DeleteFunc(p.active, func(other int) bool { return other == id })
	p.draining = slices.DeleteFunc(p.draining, func(other int) bool { return other == id })
	delete(p.cold, id)
	return len(p.active)+len(p.draining) < before
}

// drain has a worker end its requests and go.
func (p *pool) drain(id int) {
	p.active = slices.DeleteFunc(p.active, func(other int) bool { return other == id })
	p.draining = append(p.draining, id)
	slices.Sort(p.draining)
}

// launch starts one more worker.
func (s *scaler) launch(p *pool, nowMs float64) {
	id := p.next
	p.next++
	p.crew.add(id)
	p.starting = append(p.starting, id)
	s.startUp(p, id, nowMs)
}

// noPlanner leaves the number of workers alone.
type noPlanner struct{}

var _ planner.Planner = noPlanner{}

// Wants implements [planner.Planner].
func (noPlanner) Wants() planner.Wants { return planner.Wants{} }

// InitialTickMs implements [planner.Planner].
func (noPlanner) InitialTickMs() (float64, error) { return math.Inf(1), nil }

// OnTick implements [planner.Planner].
func (noPlanner) OnTick(*planner.Tick) (planner.Decision, error) {
	return planner.Decision{Prefill: planner.Unchanged, Decode: planner.Unchanged, NextMs: math.Inf(1)}, nil
}

// elasticPlanner is what decides about the pools of a run whose workers may come and go.
func (cfg *Config) elasticPlanner() planner.Planner {
	if cfg.Planner == nil {
		return noPlanner{}
	}
	return cfg.Planner
}
