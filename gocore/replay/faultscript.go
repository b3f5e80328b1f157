package replay

import (
	"fmt"
	"math"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/faults"
)

// What the script of a run does to workers, links and routers.

// prepare puts the script of the run on the clock. The pools have their first workers.
func (f *faultRun) prepare() {
	for n := range f.cfg.Script {
		ft := &f.cfg.Script[n]
		switch {
		case ft.MTBFMs == 0:
			clock := faults.NewClock(f.cfg.Seed, n, faults.AnyPool, -1)
			f.onScript(ft.AtMs, func() error { return f.hit(n, clock) })
		case ft.Target.Random > 0 || !ft.OfWorkers():
			f.recur(n, faults.NewClock(f.cfg.Seed, n, faults.AnyPool, -1))
		}
	}
	for k, s := range f.sites {
		s.pool.life = f.life(k)
		for _, i := range s.active {
			f.join(k, i)
		}
	}
}

// recur has a fault that hits no place by itself happen again and again.
func (f *faultRun) recur(n int, clock *faults.Clock) {
	f.onScript(f.nowMs+clock.AfterMs(&f.cfg.Script[n]), func() error {
		f.vain++
		err := f.hit(n, clock)
		f.recur(n, clock)
		return err
	})
}

// life has faults hear of workers that become active or are gone.
func (f *faultRun) life(pool int) *life {
	return &life{
		active: func(i int) { f.join(pool, i) },
		gone:   func(i int) error { return f.left(pool, i) },
		delay:  func(i int) float64 { return f.coldFactor(pool, i) },
		stands: func(i int) bool { return f.stands(pool, i) },
		cut:    func(i int) bool { return f.sites[pool].cond(i).cut > 0 },
	}
}

// join gives an active worker its place, and starts the clocks of the faults that hit it by chance.
func (f *faultRun) join(pool, i int) {
	s := f.sites[pool]
	c := s.cond(i)
	c.place = s.takePlace(i)
	f.tellWorks(s, i)
	for n := range f.events {
		f.replaced(&f.events[n], s, c.place)
	}
	for n := range f.cfg.Script {
		if ft := &f.cfg.Script[n]; ft.MTBFMs > 0 && ft.OfWorkers() && ft.Target.Has(s.kind, c.place) {
			f.wind(n, pool, i, f.clock(n, s, c.place))
		}
	}
}

// clock is that of a fault for a place. It goes on where it was, whichever worker has the place.
func (f *faultRun) clock(n int, s *site, place int) *faults.Clock {
	key := clockKey{n, s.kind, place}
	if f.clocks[key] == nil {
		f.clocks[key] = faults.NewClock(f.cfg.Seed, n, s.kind, place)
	}
	return f.clocks[key]
}

type clockKey struct {
	fault int
	kind  faults.Pool
	place int
}

// wind has a fault hit a worker by chance, and again when that is over and the worker is still there.
func (f *faultRun) wind(n, pool, i int, clock *faults.Clock) {
	ft := &f.cfg.Script[n]
	f.onScript(f.nowMs+clock.AfterMs(ft), func() error {
		s := f.sites[pool]
		if c := s.cond(i); c.dead || !s.has(i) {
			return nil
		}
		f.vain++
		lastsMs := clock.LastsMs(ft)
		err := f.hitWorkers(n, []struck{{pool, i}}, lastsMs)
		if ft.Kind != faults.Crash && ft.Kind != faults.Restart && !math.IsInf(lastsMs, 1) {
			f.onScript(f.nowMs+lastsMs, func() error { f.wind(n, pool, i, clock); return nil })
		}
		return err
	})
}

// takePlace is the place of a worker that has become active.
func (s *site) takePlace(i int) int {
	if place, ok := s.kept[i]; ok {
		delete(s.kept, i)
		s.awaited[place]--
		s.places[place] = i
		return place
	}
	for place := range s.places {
		if s.awaited[place] == 0 && !s.has(s.places[place]) {
			s.places[place] = i
			return place
		}
	}
	s.places = append(s.places, i)
	return len(s.places) - 1
}

// has reports whether a worker is active or draining.
func (s *site) has(i int) bool { return slices.Contains(s.active, i) || slices.Contains(s.draining, i) }

// struck is a worker that a fault hits.
type struck struct{ pool, worker int }

// targets are the workers that a fault hits now.
func (f *faultRun) targets(n int, clock *faults.Clock) (hit []struck) {
	ft := &f.cfg.Script[n]
	for k, s := range f.sites {
		if !ft.Target.In(s.kind) {
			continue
		}
		for place, i := range s.places {
			c := s.cond(i)
			if c.dead || !s.has(i) || ft.Target.One && place != ft.Target.Place || slices.Contains(c.force, n) {
				continue
			}
			if ft.Target.Random > 0 && (c.cut > 0 || c.pauses > 0) {
				continue // drawn are those that work
			}
			hit = append(hit, struck{k, i})
		}
	}
	if ft.Target.Random > 0 {
		hit = faults.Pick(clock, ft.Target.Random, hit)
	}
	return hit
}

// hit carries out a fault.
func (f *faultRun) hit(n int, clock *faults.Clock) error {
	ft := &f.cfg.Script[n]
	lastsMs := clock.LastsMs(ft)
	if !ft.OfWorkers() {
		return f.hitRange(n, clock, lastsMs)
	}
	return f.hitWorkers(n, f.targets(n, clock), lastsMs)
}

// happened notes a fault.
func (f *faultRun) happened(n int, hit []struck, lastsMs float64) (event int) {
	ft := &f.cfg.Script[n]
	e := FaultEvent{Fault: n, Kind: ft.Kind, AtMs: f.nowMs, UntilMs: f.nowMs + lastsMs, Workers: []int{}}
	if ft.Kind == faults.Crash || ft.Kind == faults.Restart {
		e.UntilMs = math.Inf(1)
	}
	for _, h := range hit {
		e.Workers = append(e.Workers, h.worker)
		s := f.sites[h.pool]
		e.Pool = s.name
		e.Pools = append(e.Pools, s.name)
		e.places = append(e.places, sitePlace{s, s.cond(h.worker).place})
	}
	f.events = append(f.events, e)
	return len(f.events) - 1
}

// sitePlace is a place of a pool.
type sitePlace struct {
	site  *site
	place int
}

// replaced notes that there is a worker in a place again. A crash is over when that holds for all its places.
func (f *faultRun) replaced(e *FaultEvent, s *site, place int) {
	if !math.IsInf(e.UntilMs, 1) || e.Kind != faults.Crash && e.Kind != faults.Restart || len(e.places) == 0 {
		return
	}
	e.places = slices.DeleteFunc(e.places, func(p sitePlace) bool { return p == sitePlace{s, place} })
	if len(e.places) == 0 {
		e.UntilMs = f.nowMs
	}
}

// hitWorkers carries out a fault of workers.
func (f *faultRun) hitWorkers(n int, hit []struck, lastsMs float64) error {
	if len(hit) == 0 {
		return nil
	}
	ft := &f.cfg.Script[n]
	event := f.happened(n, hit, lastsMs)
	for _, h := range hit {
		var err error
		s := f.sites[h.pool]
		if ft.Kind != faults.Crash && ft.Kind != faults.Restart {
			f.holds(s, h.worker, n, lastsMs)
		}
		switch ft.Kind {
		case faults.Crash:
			err = f.crash(s, h.worker, ft, event, lastsMs)
		case faults.Restart:
			err = f.restart(s, h.worker, ft, event, lastsMs)
		case faults.Slow:
			factor := ft.Factor
			f.change(s, h.worker, func(c *condition) { c.slow = append(c.slow, &factor) })
			f.onScript(f.nowMs+lastsMs, func() error {
				f.change(s, h.worker, func(c *condition) { c.slow = without(c.slow, &factor) })
				return nil
			})
		case faults.Pause:
			f.change(s, h.worker, func(c *condition) { c.pauses++ })
			f.onScript(f.nowMs+lastsMs, func() error {
				f.change(s, h.worker, func(c *condition) { c.pauses-- })
				return nil
			})
		case faults.Partition:
			f.cutOff(s, h.pool, h.worker, ft, event, lastsMs)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// holds notes that a fault lasts on a worker.
func (f *faultRun) holds(s *site, i, n int, lastsMs float64) {
	c := s.cond(i)
	c.force = append(c.force, n)
	f.onScript(f.nowMs+lastsMs, func() error {
		c := s.cond(i)
		c.force = slices.DeleteFunc(c.force, func(other int) bool { return other == n })
		return nil
	})
}

func without[T any](list []*T, one *T) []*T {
	return slices.DeleteFunc(list, func(p *T) bool { return p == one })
}

// crash ends a worker. Its streams break off at once; that it is gone is noticed later.
func (f *faultRun) crash(s *site, i int, ft *faults.Fault, event int, lastsMs float64) error {
	c := s.cond(i)
	if c.event == noFault || !c.dead {
		c.event = event
	}
	hit := len(f.broken)
	f.breakOff(s, i, fmt.Sprintf("its worker was lost by a %s", ft.Kind))
	s.station.discard(i)
	c.dead = true
	if len(f.broken) > hit {
		c.retryUntilMs = f.nowMs + f.cfg.RetryRefusedMs
	}
	f.tellWorks(s, i)
	c.unseen, c.inbox, c.cancels, c.heard = nil, nil, nil, nil
	f.retime()
	returns := !math.IsInf(lastsMs, 1)
	if returns {
		place := c.place
		s.awaited[place]++
		f.onScript(f.nowMs+lastsMs, func() error { return f.comeBack(s, place) })
	}
	noticeMs := ft.Detection(f.cfg.DetectionMs)
	if noticeMs == 0 {
		return f.notice(s, i, returns)
	}
	f.onScript(f.nowMs+noticeMs, func() error { return f.notice(s, i, returns) })
	if f.cfg.AvoidMs > 0 && len(f.broken) > hit {
		return f.avoid(s, i)
	}
	return nil
}

// avoid has nothing sent to a worker for a while.
func (f *faultRun) avoid(s *site, i int) error {
	s.shun(i, true)
	f.after(f.cfg.AvoidMs, func() error {
		if s.cond(i).noticed {
			return nil
		}
		s.shun(i, false)
		return s.announce(f.nowMs)
	})
	return s.announce(f.nowMs)
}

// notice takes a worker that is lost out of its pool. A planner has it replaced, unless it will come back.
func (f *faultRun) notice(s *site, i int, returns bool) error {
	c := s.cond(i)
	c.noticed = true
	s.shun(i, false)
	if !s.leave(i) {
		return nil // it was gone before that was noticed
	}
	s.router.Forget(i)
	switch {
	case returns:
		s.absent++
	case f.run.Planner != nil:
		s.awaited[c.place]++
		f.startUp(s, c.place)
	}
	return s.announce(f.nowMs)
}

// comeBack starts a worker in the place of one that was lost.
func (f *faultRun) comeBack(s *site, place int) error {
	s.absent--
	f.startUp(s, place)
	return s.announce(f.nowMs)
}

// startUp starts a worker in a place that is kept for it.
func (f *faultRun) startUp(s *site, place int) {
	s.kept[s.next] = place
	f.scale.launch(s.pool, f.nowMs)
}

// restart ends a worker, at once or when it has ended its requests, and starts it anew.
func (f *faultRun) restart(s *site, i int, ft *faults.Fault, event int, lastsMs float64) error {
	if !ft.Drain {
		return f.crash(s, i, ft, event, lastsMs)
	}
	if !slices.Contains(s.active, i) {
		return nil // it drains already
	}
	s.awaited[s.cond(i).place]++
	s.drain(i)
	f.drained[struckWorker{s, i}] = lastsMs
	return s.announce(f.nowMs)
}

type struckWorker struct {
	site   *site
	worker int
}

// left is told that a worker which drained is gone.
func (f *faultRun) left(pool, i int) error {
	s := f.sites[pool]
	f.tellWorks(s, i)
	key := struckWorker{s, i}
	lastsMs, restarts := f.drained[key]
	if !restarts {
		return nil
	}
	delete(f.drained, key)
	s.absent++
	place := s.cond(i).place
	if lastsMs == 0 {
		return f.comeBack(s, place)
	}
	f.onScript(f.nowMs+lastsMs, func() error { return f.comeBack(s, place) })
	return nil
}

// cutOff makes a worker unreachable.
func (f *faultRun) cutOff(s *site, pool, i int, ft *faults.Fault, event int, lastsMs float64) {
	c := s.cond(i)
	if s.station.at(i).Engine == nil {
		return
	}
	s.station.settleEnded(i)
	c.cut++
	f.tellWorks(s, i)
	f.retime()
	f.onScript(f.nowMs+lastsMs, func() error { return f.rejoin(s, pool, i) })
	if c.cut > 1 {
		return
	}
	c.event = event
	f.cuts++
	cut := f.cuts
	f.cutNumbers[struckWorker{s, i}] = cut
	f.onScript(f.nowMs+ft.Detection(f.cfg.DetectionMs), func() error {
		if c.cut == 0 || c.dead || f.cutNumbers[struckWorker{s, i}] != cut {
			return nil
		}
		return f.giveUpWorker(s, i)
	})
}

// giveUpWorker is what happens when it is noticed that a worker cannot be reached: its streams break off. It goes on with its
// requests until it hears of that.
func (f *faultRun) giveUpWorker(s *site, i int) error {
	c := s.cond(i)
	f.breakOff(s, i, "its worker could not be reached")
	for _, pass := range c.unseen { // what it did to the cache will be known
		*pass = engine.Pass{StartMs: pass.StartMs, EndMs: pass.EndMs, KVEvents: pass.KVEvents, KVEventsAtMs: pass.KVEventsAtMs}
	}
	for _, state := range s.station.at(i).Engine.States() {
		if f.attempts[state.ID].over {
			c.cancels = append(c.cancels, state.ID)
		}
	}
	c.inbox = nil
	s.shun(i, true)
	return s.announce(f.nowMs)
}

// rejoin ends a partition. What the worker did in the meantime becomes visible.
func (f *faultRun) rejoin(s *site, pool, i int) error {
	c := s.cond(i)
	c.cut--
	f.tellWorks(s, i)
	if c.cut > 0 || c.dead || s.station.at(i).Engine == nil {
		return nil
	}
	unseen, inbox := c.unseen, c.inbox
	c.unseen, c.inbox = nil, nil
	f.catchUpNews(s, i)
	f.retime()
	for _, pass := range unseen {
		pass.EndMs = f.nowMs
		if err := s.station.see(i, pass); err != nil {
			return err
		}
	}
	if !s.station.at(i).Busy() {
		f.cancelDue(pool, i)
	}
	for _, id := range inbox {
		if f.attempts[id].over {
			continue
		}
		if err := s.station.receive(i, id); err != nil {
			return err
		}
	}
	if err := s.station.reached(i); err != nil {
		return err
	}
	s.shun(i, false)
	return s.announce(f.nowMs)
}

// hitRange carries out a fault of the link, of what routers hear, or of start-ups.
func (f *faultRun) hitRange(n int, clock *faults.Clock, lastsMs float64) error {
	ft := &f.cfg.Script[n]
	untilMs := f.nowMs + lastsMs
	if f.lasting[n] {
		return nil
	}
	f.lasting[n] = true
	f.onScript(untilMs, func() error { f.lasting[n] = false; return nil })
	switch ft.Kind {
	case faults.LinkSlow, faults.LinkDown:
		f.happened(n, nil, lastsMs)
		f.links = append(f.links, ft)
		f.retime()
		f.onScript(untilMs, func() error {
			f.links = without(f.links, ft)
			f.retime()
			return nil
		})
	case faults.ColdStart:
		f.happened(n, nil, lastsMs)
		f.cold = append(f.cold, ft)
		f.onScript(untilMs, func() error {
			f.cold = without(f.cold, ft)
			return nil
		})
	default:
		hit := f.targets(n, clock)
		f.happened(n, hit, lastsMs)
		for _, h := range hit {
			f.hushed(ft, f.sites[h.pool], h.worker, untilMs)
		}
	}
	return nil
}

// hushed makes what a router hears of a worker incomplete or late.
func (f *faultRun) hushed(ft *faults.Fault, s *site, i int, untilMs float64) {
	c := s.cond(i)
	if ft.Kind == faults.EventsLost {
		c.deaf++
		f.onScript(untilMs, func() error { s.cond(i).deaf--; return nil })
		return
	}
	delayMs := ft.DelayMs
	c.stale = append(c.stale, &delayMs)
	f.onScript(untilMs, func() error {
		c := s.cond(i)
		c.stale = without(c.stale, &delayMs)
		f.catchUpNews(s, i)
		return nil
	})
}

// coldFactor is how many times as long the start-up of a worker takes that begins now.
func (f *faultRun) coldFactor(pool, i int) float64 {
	s := f.sites[pool]
	factor := 1.0
	place, kept := s.kept[i]
	for _, ft := range f.cold {
		if ft.Target.In(s.kind) && (!ft.Target.One || kept && ft.Target.Place == place) {
			factor *= ft.Factor
		}
	}
	return factor
}
