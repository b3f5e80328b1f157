package replay

import (
	"fmt"
	"math"

	"dynosim/gocore/engine"
	"dynosim/gocore/eventheap"
	"dynosim/gocore/planner"
)

// scaler has a planner decide on the pools of a run. It adds three steps to an instant: start-ups end after the passes that
// end then; and once nothing else is left to do, drained workers go, and then comes the tick.
//
// A run without a planner has no scaler: loops call the methods of a nil one, which do nothing.
type scaler struct {
	planner planner.Planner
	wants   planner.Wants
	pools   []*pool // that of an aggregated run, or those of prefill and of decode workers

	asked   bool    // for the first tick
	tickMs  float64 // the next tick, +Inf if there is none
	ready   eventheap.Heap[startUp]
	started int64 // start-ups so far
	traffic planner.Traffic
	events  []planner.Event
	vain    int // ticks since anything else has happened

	meetings Meetings
}

// Meetings counts requests, at the pool that computes their prompts, which met workers that were not up to speed.
type Meetings struct {
	Held int // no worker was active when they came there
	Cold int // they were sent to a worker that had been added during the run and had not ended a pass yet
}

// startUp is a worker whose start-up ends.
type startUp struct {
	pool *pool
	id   int
}

// maxVainTicks is how many ticks may follow each other without anything else happening while requests wait.
const maxVainTicks = 1_000_000

func newScaler(p planner.Planner, pools ...*pool) *scaler {
	s := &scaler{planner: p, wants: p.Wants(), pools: pools, tickMs: math.Inf(1), events: []planner.Event{}}
	for i, pool := range pools {
		pool.tally = tally{on: s.wants.Passes, emits: i == len(pools)-1, traffic: &s.traffic}
	}
	return s
}

// begin tells the routers which workers there are.
func (s *scaler) begin() error {
	for _, p := range s.pools {
		if err := p.announce(0); err != nil {
			return err
		}
	}
	return nil
}

// observe has an engine report what the planner wants to see.
func (s *scaler) observe(e engine.Engine) {
	if s != nil && s.wants.Passes {
		e.(engine.Reporter).ReportWork()
	}
}

// goesOn is told that something else than a tick has happened.
func (s *scaler) goesOn() {
	if s != nil {
		s.vain = 0
	}
}

// sooner is the next instant, if next is that without a planner and ok tells whether there is one.
func (s *scaler) sooner(next float64, ok bool) (float64, bool) {
	if s == nil {
		return next, ok
	}
	if !ok {
		next = math.Inf(1)
	}
	next = min(next, s.tickMs)
	if top, some := s.ready.Top(); some {
		next = min(next, top.AtMs)
	}
	return next, !math.IsInf(next, 1)
}

// afterwards does what comes once everything else of an instant has happened. It reports true if there may be more to do.
// Nothing is asked of the planner any more when the run is done.
func (s *scaler) afterwards(nowMs float64, done func() bool) (again bool, err error) {
	if s == nil {
		return false, nil
	}
	if err := s.ask(); err != nil {
		return false, err
	}
	if removed, err := s.removeDrained(); removed || err != nil {
		return true, err
	}
	if done() {
		return false, nil
	}
	return s.tick(nowMs)
}

// becomeReady ends the start-ups that are due.
func (s *scaler) becomeReady(nowMs float64) (changed bool, err error) {
	for s != nil {
		top, ok := s.ready.Top()
		if !ok || top.AtMs > nowMs {
			return changed, nil
		}
		up := s.ready.Pop()
		if !up.pool.activate(up.id) {
			continue
		}
		changed = true
		if err := up.pool.announce(nowMs); err != nil {
			return changed, err
		}
	}
	return false, nil
}

func (s *scaler) removeDrained() (changed bool, err error) {
	for _, p := range s.pools {
		removed, err := p.removeDrained()
		if changed = changed || removed; err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// waiting is the number of requests that wait for a worker.
func (s *scaler) waiting() (requests int) {
	for _, p := range s.pools {
		requests += p.waiting()
	}
	return requests
}

// holds reports whether requests wait for a worker.
func (s *scaler) holds() bool { return s != nil && s.waiting() > 0 }

// deadEnd is the error of a run in which requests wait for workers that will never be there.
func (s *scaler) deadEnd(nowMs float64) error {
	return fmt.Errorf("planner: dead end at %v ms of simulated time: no worker is active or starting, no tick is due, and requests wait: %d", nowMs, s.waiting())
}

// ask asks for the first tick, once everything at time 0 has happened.
func (s *scaler) ask() error {
	if s.asked {
		return nil
	}
	s.asked = true
	first, err := s.planner.InitialTickMs()
	if err != nil {
		return err
	}
	s.tickMs = math.Inf(1)
	if !math.IsNaN(first) && !math.IsInf(first, 0) {
		s.tickMs = max(first, 0)
	}
	return nil
}

// tick has the planner decide, if that is due, and carries it out.
func (s *scaler) tick(nowMs float64) (ticked bool, err error) {
	if s.tickMs > nowMs {
		return false, nil
	}
	if s.vain++; s.vain > maxVainTicks {
		return true, fmt.Errorf("planner: %d ticks in a row until %v ms while requests wait and nothing else happens; have it ask for workers, or for no further tick", maxVainTicks, nowMs)
	}
	decision, err := s.planner.OnTick(s.look(nowMs))
	if err != nil {
		return true, err
	}
	if err := s.check(decision, nowMs); err != nil {
		return true, err
	}
	s.tickMs = math.Inf(1)
	if !math.IsNaN(decision.NextMs) && !math.IsInf(decision.NextMs, 0) {
		s.tickMs = decision.NextMs
	}
	targets := []int{decision.Prefill, decision.Decode}
	if len(s.pools) == 1 {
		targets = targets[1:]
	}
	for i, p := range s.pools {
		if targets[i] == planner.Unchanged {
			continue
		}
		if err := s.scale(p, targets[i], decision.Reason, nowMs); err != nil {
			return true, err
		}
	}
	return true, nil
}

// look is what the planner sees now. A new window begins.
func (s *scaler) look(nowMs float64) *planner.Tick {
	t := &planner.Tick{NowMs: nowMs}
	if s.wants.Passes || s.wants.Gauges {
		for _, p := range s.pools {
			p.crew.catchUp()
		}
	}
	last := len(s.pools) - 1
	t.Decode = s.pools[last].state(s.wants)
	if last > 0 {
		t.Prefill = s.pools[0].state(s.wants)
	}
	s.traffic.NowMs = nowMs
	t.Traffic = s.traffic
	s.traffic = planner.Traffic{SinceMs: nowMs}
	return t
}

func (s *scaler) check(d planner.Decision, nowMs float64) error {
	for _, target := range []struct {
		name  string
		value int
	}{{"target_prefill", d.Prefill}, {"target_decode", d.Decode}} {
		switch {
		case target.value == planner.Unchanged:
		case target.name == "target_prefill" && len(s.pools) == 1:
			return &planner.DecisionError{AtMs: nowMs, Field: target.name, Got: target.value, Want: "None in a run with one pool, whose workers are target_decode"}
		case target.value < 0 || target.value > planner.MaxWorkers:
			return &planner.DecisionError{AtMs: nowMs, Field: target.name, Got: target.value, Want: fmt.Sprintf("0 to %d", planner.MaxWorkers)}
		}
	}
	if d.NextMs <= nowMs && !math.IsInf(d.NextMs, 0) {
		return &planner.DecisionError{AtMs: nowMs, Field: "next_tick_ms", Got: d.NextMs, Want: "a later time, or None for no further tick"}
	}
	return nil
}

func (s *scaler) scale(p *pool, target int, reason string, nowMs float64) error {
	if from := p.wanted(); from != target {
		s.events = append(s.events, planner.Event{AtMs: nowMs, Pool: p.name, From: from, To: target, Reason: reason})
	}
	for _, id := range p.scaleTo(target) {
		s.startUp(p, id, nowMs)
	}
	return p.announce(nowMs)
}

// startUp begins the start-up of a worker that was added.
func (s *scaler) startUp(p *pool, id int, nowMs float64) {
	takesMs := float64(p.startUps.ms(id) * p.life.factor(id))
	if takesMs == 0 {
		p.activate(id)
		return
	}
	s.ready.Push(nowMs+takesMs, s.started, startUp{p, id})
	s.started++
}
