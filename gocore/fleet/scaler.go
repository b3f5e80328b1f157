package fleet

import (
	"fmt"
	"math"

	"dynosim/gocore/engine"
	"dynosim/gocore/eventheap"
	"dynosim/gocore/planner"
	"dynosim/gocore/router"
)

// scaler has a planner decide on the pools of a run. It adds three steps to an instant: start-ups end after the passes
// that end then; and once nothing else is left to do, drained workers go, and then comes the tick. Without a planner it
// has no watchers, and nothing is due.
type scaler struct {
	fleet    *Fleet
	planner  *watcher
	sampler  *watcher   // nil for none
	watchers []*watcher // both, the sampler first
	pools    []*Pool    // that of an aggregated run, or those of prefill and of decode workers

	asked     bool // for the first ticks
	ready     eventheap.Heap[startUp]
	started   int64 // start-ups so far
	events    []planner.Event
	idleTicks int // since anything else has happened
	ticks     int // so far

	meetings Meetings
}

// watcher is what ticks are for: the planner, or the sampler, which decides nothing.
type watcher struct {
	planner.Planner
	wants   planner.Wants
	tickMs  float64         // the next tick, +Inf if there is none
	traffic planner.Traffic // since the last tick
}

func (s *scaler) watch(p planner.Planner) *watcher {
	w := &watcher{Planner: p, wants: p.Wants(), tickMs: math.Inf(1)}
	s.watchers = append(s.watchers, w)
	return w
}

// begin asks for the first tick.
func (w *watcher) begin() error {
	first, err := w.InitialTickMs()
	if w.due(first); w.tickMs < 0 {
		w.tickMs = 0
	}
	return err
}

// due sets the next tick. There is none if it is not finite.
func (w *watcher) due(atMs float64) {
	if w.tickMs = atMs; math.IsNaN(atMs) || math.IsInf(atMs, 0) {
		w.tickMs = math.Inf(1)
	}
}

// Meetings counts requests, at the pool that computes their prompts, which met workers that were not up to speed.
type Meetings struct {
	Held int // no worker was active when they came there
	Cold int // they were sent to a worker that had been added during the run and had not ended a pass yet
}

// startUp is a worker whose start-up ends.
type startUp struct {
	pool *Pool
	id   int
}

// maxIdleTicks is how many ticks may follow each other without anything else happening while requests wait. Beyond
// freeTicks, there are at most ticksPerSecond in a second of simulated time.
const (
	maxIdleTicks   = 50_000
	freeTicks      = 100_000.
	ticksPerSecond = 1000.
)

// scale prepares a fleet whose workers come and go, if it has a planner.
func (f *Fleet) scale() error {
	s := &scaler{fleet: f, pools: f.pools, events: []planner.Event{}, planner: &watcher{tickMs: math.Inf(1)}}
	f.scaler = s
	if f.Planner == nil {
		return nil
	}
	if f.Sampler != nil {
		s.sampler = s.watch(f.Sampler)
	}
	s.planner = s.watch(f.Planner)
	for i, p := range f.pools {
		if err := p.changes(f); err != nil {
			return err
		}
		p.tally = tally{on: s.planner.wants.Passes, emits: i == len(f.pools)-1, traffic: &s.planner.traffic}
		for i := range p.workers {
			s.observe(p.workers[i].Engine)
		}
	}
	return nil
}

// Scaling returns what a planner has changed, and how many requests met workers that were not up to speed.
func (f *Fleet) Scaling() ([]planner.Event, Meetings) { return f.scaler.events, f.scaler.meetings }

// begin tells the routers which workers there are, if these may change.
func (s *scaler) begin() error {
	if s.fleet.Planner == nil {
		return nil
	}
	for _, p := range s.pools {
		if err := p.Announce(); err != nil {
			return err
		}
	}
	return nil
}

// observe has an engine report what the planner wants to see.
func (s *scaler) observe(e engine.Engine) {
	if s.planner.wants.Passes {
		e.(engine.Reporter).ReportWork()
	}
}

// nextMs returns when the planner's next tick is due or the next start-up ends, +Inf if neither will come.
func (s *scaler) nextMs() float64 {
	return min(s.planner.tickMs, s.ready.NextMs())
}

// sampled returns the next instant of a run, if next is that without samples. Samples alone do not keep a run going.
func (s *scaler) sampled(next float64) float64 {
	if s.sampler == nil || math.IsInf(next, 1) {
		return next
	}
	return min(next, s.sampler.tickMs)
}

// afterwards does what comes once everything else of an instant has happened. It reports true if there may be more to
// do. Nothing is asked of the planner any more when the run is done.
func (s *scaler) afterwards(nowMs float64, done func() bool) (again bool, err error) {
	if s.fleet.Planner == nil {
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
	if err := s.sample(nowMs); err != nil {
		return false, err
	}
	return s.tick(nowMs)
}

// becomeReady ends the start-ups that are due.
func (s *scaler) becomeReady(nowMs float64) (changed bool, err error) {
	for s.ready.NextMs() <= nowMs {
		up := s.ready.Pop()
		if !up.pool.activate(up.id) {
			continue
		}
		changed = true
		if err := up.pool.Announce(); err != nil {
			return changed, err
		}
	}
	return changed, nil
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

// waiting returns the number of requests that wait for a worker.
func (s *scaler) waiting() (requests int) {
	for _, p := range s.pools {
		requests += p.waiting()
	}
	return requests
}

// holds reports whether requests wait for a worker, which may still come.
func (f *Fleet) holds() bool { return f.scaler.waiting() > 0 }

// meets counts a request for a pool that computes prompts, if it finds no active worker there.
func (f *Fleet) meets(p *Pool) {
	if !p.Serves() {
		f.scaler.meetings.Held++
	}
}

// count counts, of requests that the router of the first pool has placed, those that meet a cold worker, and the blocks
// of their prompts that were cached there.
func (f *Fleet) count(admitted []router.Admission) {
	s := f.scaler
	for _, a := range admitted {
		if p := s.pools[0]; a.Worker != router.Refused && p.cold[p.targets.worker(a.Worker)] {
			s.meetings.Cold++
		}
		if a.PromptBlocks > 0 {
			s.each(func(t *planner.Traffic) { t.Hit(a.OverlapBlocks, a.PromptBlocks) })
		}
	}
}

// deadEnd returns the error of a run in which requests wait for workers that will never be there.
func (s *scaler) deadEnd(nowMs float64) error {
	return fmt.Errorf("planner: dead end at %v ms of simulated time: no worker is active or starting, no tick is due, "+
		"and requests wait: %d", nowMs, s.waiting())
}

// ask asks for the first tick, once everything at time 0 has happened.
func (s *scaler) ask() error {
	if s.asked {
		return nil
	}
	s.asked = true
	for _, w := range s.watchers {
		if err := w.begin(); err != nil {
			return err
		}
	}
	return nil
}

// each has the planner and the sampler count something.
func (s *scaler) each(count func(*planner.Traffic)) {
	for _, w := range s.watchers {
		count(&w.traffic)
	}
}

// completing counts a request that is about to complete.
func (s *scaler) completing(id engine.RequestID) {
	for _, w := range s.watchers {
		s.fleet.World.Completing(id, &w.traffic, w.wants.TTFT)
	}
}

// sample has the sampler look, if that is due: before the planner, whose decisions are seen at the next sample.
func (s *scaler) sample(nowMs float64) error {
	if s.sampler == nil || s.sampler.tickMs > nowMs {
		return nil
	}
	decision, err := s.sampler.OnTick(s.look(s.sampler, nowMs))
	s.sampler.due(decision.NextMs)
	return err
}

// end shows the sampler and the planner the end of the run, if they want to see that.
func (s *scaler) end(nowMs float64) error {
	for _, w := range s.watchers {
		if e, ok := w.Planner.(planner.Ender); ok {
			if err := e.End(s.look(w, nowMs)); err != nil {
				return err
			}
		}
	}
	return nil
}

// tick has the planner decide, if that is due, and carries it out.
func (s *scaler) tick(nowMs float64) (ticked bool, err error) {
	if s.planner.tickMs > nowMs {
		return false, nil
	}
	if err := s.tooMany(nowMs); err != nil {
		return true, err
	}
	decision, err := s.planner.OnTick(s.look(s.planner, nowMs))
	if err != nil {
		return true, err
	}
	if err := decision.Check(nowMs, len(s.pools) == 2); err != nil {
		return true, err
	}
	s.planner.due(decision.NextMs)
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

// tooMany counts a tick. It returns an error if the run would never end for them, or do little else.
func (s *scaler) tooMany(nowMs float64) error {
	if s.ticks++; float64(s.ticks) > freeTicks+ticksPerSecond*nowMs/1000 {
		return fmt.Errorf("planner: %d ticks in %v s of simulated time, want at most %v and %v a second; "+
			"have it ask for later ones", s.ticks, nowMs/1000, freeTicks, ticksPerSecond)
	}
	if s.waiting() == 0 {
		s.idleTicks = 0
		return nil
	}
	if s.idleTicks++; s.idleTicks > maxIdleTicks {
		return fmt.Errorf("planner: %d ticks in a row until %v ms while requests wait and nothing else happens; "+
			"have it ask for workers, or for no further tick", maxIdleTicks, nowMs)
	}
	return nil
}

// look returns what the planner or the sampler sees now. A new window of it begins.
func (s *scaler) look(w *watcher, nowMs float64) *planner.Tick {
	t := &planner.Tick{NowMs: nowMs}
	if w.wants.Passes || w.wants.Gauges {
		s.fleet.catchUp()
	}
	last := len(s.pools) - 1
	t.Decode = s.pools[last].state(w.wants)
	if last > 0 {
		t.Prefill = s.pools[0].state(w.wants)
	}
	w.traffic.NowMs = nowMs
	t.Traffic = w.traffic
	w.traffic = planner.Traffic{SinceMs: nowMs}
	return t
}

func (s *scaler) scale(p *Pool, target int, reason string, nowMs float64) error {
	if from := p.wanted(); from != target {
		s.events = append(s.events, planner.Event{AtMs: nowMs, Pool: p.Name(), From: from, To: target, Reason: reason})
	}
	for _, id := range p.scaleTo(target) {
		s.startUp(p, id)
	}
	return p.Announce()
}

// startUp begins the start-up of a worker that was added.
func (s *scaler) startUp(p *Pool, id int) {
	takesMs := p.startUps.ms(id)
	if h := p.hooks; h != nil {
		takesMs = float64(takesMs * h.StartUpFactor(id))
	}
	if takesMs == 0 {
		p.activate(id)
		return
	}
	s.ready.Push(s.fleet.nowMs+takesMs, s.started, startUp{p, id})
	s.started++
}
