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
	for k, s := range f.pools {
		for _, i := range s.Active() {
			f.join(k, i)
		}
	}
}

// recur has a fault that hits no place by itself happen again and again.
func (f *faultRun) recur(n int, clock *faults.Clock) {
	f.onScript(f.fleet.NowMs()+clock.AfterMs(&f.cfg.Script[n]), func() error {
		if err := f.drawing(n); err != nil {
			return err
		}
		err := f.hit(n, clock)
		f.recur(n, clock)
		return err
	})
}

// join gives an active worker its place, and starts the clocks of the faults that hit it by chance.
func (f *faultRun) join(pool, i int) {
	s := f.pools[pool]
	c := s.cond(i)
	if c.place = s.takePlace(i); c.place != i {
		s.Replaces(i, c.place)
	}
	f.tellWorks(s, i)
	for n := range f.events {
		f.replaced(&f.events[n], s, c.place)
	}
	for n := range f.cfg.Script {
		if ft := &f.cfg.Script[n]; ft.MTBFMs > 0 && ft.OfWorkers() && ft.Target.Has(s.kind, c.place) {
			f.scheduleRandomFault(n, pool, i, f.clock(n, s, c.place))
		}
	}
}

// placeOf returns the place of an active worker.
func (f *faultRun) placeOf(role engine.Role, i int) int {
	k := slices.IndexFunc(f.pools, func(s *faultyPool) bool { return s.Role == role })
	return f.pools[k].cond(i).place
}

// clock returns that of a fault for a place. It goes on where it was, whichever worker has the place.
func (f *faultRun) clock(n int, s *faultyPool, place int) *faults.Clock {
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

// scheduleRandomFault has a fault hit a worker by chance, and again when that is over and the worker is still there.
func (f *faultRun) scheduleRandomFault(n, pool, i int, clock *faults.Clock) {
	ft := &f.cfg.Script[n]
	f.onScript(f.fleet.NowMs()+clock.AfterMs(ft), func() error {
		s := f.pools[pool]
		if c := s.cond(i); c.dead || !s.Has(i) {
			return nil
		}
		if err := f.drawing(n); err != nil {
			return err
		}
		lastsMs := clock.LastsMs(ft)
		err := f.hitWorkers(n, []target{{pool, i}}, lastsMs)
		if ft.Kind != faults.Crash && ft.Kind != faults.Restart && !math.IsInf(lastsMs, 1) {
			f.onScript(f.fleet.NowMs()+lastsMs, func() error { f.scheduleRandomFault(n, pool, i, clock); return nil })
		}
		return err
	})
}

// takePlace returns the place of a worker that has become active.
func (s *faultyPool) takePlace(i int) int {
	if place, ok := s.kept[i]; ok {
		delete(s.kept, i)
		s.awaited[place]--
		s.places[place] = i
		return place
	}
	for place := range s.places {
		if s.awaited[place] == 0 && !s.Has(s.places[place]) {
			s.places[place] = i
			return place
		}
	}
	s.places = append(s.places, i)
	return len(s.places) - 1
}

// target is a worker that a fault hits.
type target struct{ pool, worker int }

// targets returns the workers that a fault hits now.
func (f *faultRun) targets(n int, clock *faults.Clock) (hit []target) {
	ft := &f.cfg.Script[n]
	for k, s := range f.pools {
		if !ft.Target.In(s.kind) {
			continue
		}
		for place, i := range s.places {
			c := s.cond(i)
			if c.dead || !s.Has(i) || ft.Target.One && place != ft.Target.Place || slices.Contains(c.force, n) {
				continue
			}
			if ft.Target.Random > 0 && (c.cut > 0 || c.pauses > 0) {
				continue // drawn are those that work
			}
			hit = append(hit, target{k, i})
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
func (f *faultRun) happened(n int, hit []target, lastsMs float64) (event int) {
	ft := &f.cfg.Script[n]
	e := FaultEvent{Fault: n, Kind: ft.Kind, AtMs: f.fleet.NowMs(), UntilMs: f.fleet.NowMs() + lastsMs,
		Workers: []int{}}
	if ft.Kind == faults.Crash || ft.Kind == faults.Restart {
		e.UntilMs = math.Inf(1)
	}
	for _, h := range hit {
		e.Workers = append(e.Workers, h.worker)
		s := f.pools[h.pool]
		e.Pool = s.Name()
		e.Pools = append(e.Pools, s.Name())
		e.places = append(e.places, poolPlace{s, s.cond(h.worker).place})
	}
	f.events = append(f.events, e)
	return len(f.events) - 1
}

// poolPlace is a place of a pool.
type poolPlace struct {
	pool  *faultyPool
	place int
}

// replaced notes that there is a worker in a place again. A crash is over when that holds for all its places.
func (f *faultRun) replaced(e *FaultEvent, s *faultyPool, place int) {
	if !math.IsInf(e.UntilMs, 1) || e.Kind != faults.Crash && e.Kind != faults.Restart || len(e.places) == 0 {
		return
	}
	e.places = slices.DeleteFunc(e.places, func(p poolPlace) bool { return p == poolPlace{s, place} })
	if len(e.places) == 0 {
		e.UntilMs = f.fleet.NowMs()
	}
}

// hitWorkers carries out a fault of workers.
func (f *faultRun) hitWorkers(n int, hit []target, lastsMs float64) error {
	if len(hit) == 0 {
		return nil
	}
	ft := &f.cfg.Script[n]
	event := f.happened(n, hit, lastsMs)
	for _, h := range hit {
		var err error
		s := f.pools[h.pool]
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
			f.onScript(f.fleet.NowMs()+lastsMs, func() error {
				f.change(s, h.worker, func(c *condition) { c.slow = without(c.slow, &factor) })
				return nil
			})
		case faults.Pause:
			f.change(s, h.worker, func(c *condition) { c.pauses++ })
			f.onScript(f.fleet.NowMs()+lastsMs, func() error {
				f.change(s, h.worker, func(c *condition) { c.pauses-- })
				return nil
			})
		case faults.Partition:
			f.cutOff(s, h.pool, h.worker, ft, event, lastsMs)
		default:
			err = unknownFault(ft)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// holds notes that a fault lasts on a worker.
func (f *faultRun) holds(s *faultyPool, i, n int, lastsMs float64) {
	c := s.cond(i)
	c.force = append(c.force, n)
	f.onScript(f.fleet.NowMs()+lastsMs, func() error {
		c := s.cond(i)
		c.force = slices.DeleteFunc(c.force, func(other int) bool { return other == n })
		return nil
	})
}

func without[T any](list []*T, one *T) []*T {
	return slices.DeleteFunc(list, func(p *T) bool { return p == one })
}

// crash ends a worker. Its streams break off at once; that it is gone is noticed later.
func (f *faultRun) crash(s *faultyPool, i int, ft *faults.Fault, event int, lastsMs float64) error {
	c := s.cond(i)
	if c.event == noFault || !c.dead {
		c.event = event
	}
	hit := len(f.broken)
	f.breakOff(s, i, fmt.Sprintf("its worker was lost by a %s", ft.Kind))
	f.Journal.Gone(s.Role, i, s.Worker(i).Pass, f.fleet.NowMs())
	s.reportStores(i, s.Worker(i).Pass)
	f.collector.Copied(s.Discard(i))
	c.dead, c.listedMs = true, f.fleet.NowMs()+f.cfg.AvoidMs
	if len(f.broken) > hit {
		c.retryUntilMs = f.fleet.NowMs() + f.cfg.RetryRefusedMs
	}
	f.tellWorks(s, i)
	c.unseen, c.inbox, c.cancels, c.lateNews = nil, nil, nil, nil
	f.fleet.LinksChanged()
	returns := !math.IsInf(lastsMs, 1)
	if returns {
		place := c.place
		s.awaited[place]++
		f.onScript(f.fleet.NowMs()+lastsMs, func() error { return f.comeBack(s, place) })
	}
	noticeMs := ft.Detection(f.cfg.DetectionMs)
	if noticeMs == 0 {
		return f.notice(s, i, returns)
	}
	f.onScript(f.fleet.NowMs()+noticeMs, func() error { return f.notice(s, i, returns) })
	if f.cfg.AvoidMs > 0 && len(f.broken) > hit {
		return f.avoid(s, i, f.cfg.AvoidMs)
	}
	return nil
}

// leaveOut has nothing sent to a worker that has refused a request, until the workers are listed anew.
func (f *faultRun) leaveOut(b breakage) error {
	if f.cfg.Rules != Rules16 || !b.refused {
		return nil
	}
	s := f.pools[b.pool]
	c := s.cond(b.worker)
	if c.leftOut || c.noticed {
		return nil
	}
	sinceMs := f.fleet.NowMs() - c.listedMs
	listings := 0.0
	if sinceMs >= 0 {
		listings = math.Floor(sinceMs/ListingMs) + 1
	}
	return f.avoid(s, b.worker, listings*ListingMs-sinceMs)
}

// avoid has nothing sent to a worker for a while.
func (f *faultRun) avoid(s *faultyPool, i int, ms float64) error {
	s.Suspend(i, true)
	s.cond(i).leftOut = true
	f.after(ms, func() error {
		s.cond(i).leftOut = false
		if s.cond(i).noticed {
			return nil
		}
		s.Suspend(i, false)
		return s.Announce()
	})
	return s.Announce()
}

// notice takes a worker that is lost out of its pool. A planner has it replaced, unless it will come back.
func (f *faultRun) notice(s *faultyPool, i int, returns bool) error {
	c := s.cond(i)
	c.noticed = true
	s.Suspend(i, false)
	if !s.Lose(i) {
		return nil // it was gone before that was noticed
	}
	switch {
	case returns:
		s.Expect(1)
	case f.run.Planner != nil:
		s.awaited[c.place]++
		f.startUp(s, c.place)
	}
	return s.Announce()
}

// comeBack starts a worker in the place of one that was lost.
func (f *faultRun) comeBack(s *faultyPool, place int) error {
	s.Expect(-1)
	f.startUp(s, place)
	return s.Announce()
}

// startUp starts a worker in a place that is kept for it.
func (f *faultRun) startUp(s *faultyPool, place int) {
	s.kept[s.Len()] = place
	s.Launch()
}

// restart ends a worker, at once or when it has ended its requests, and starts it anew.
func (f *faultRun) restart(s *faultyPool, i int, ft *faults.Fault, event int, lastsMs float64) error {
	if !ft.Drain {
		return f.crash(s, i, ft, event, lastsMs)
	}
	if !slices.Contains(s.Active(), i) {
		return nil // it drains already
	}
	s.awaited[s.cond(i).place]++
	s.Drain(i)
	f.drained[workerKey{s, i}] = lastsMs
	return s.Announce()
}

type workerKey struct {
	pool   *faultyPool
	worker int
}

// left records that a worker which drained is gone.
func (f *faultRun) left(pool, i int) error {
	s := f.pools[pool]
	f.tellWorks(s, i)
	key := workerKey{s, i}
	lastsMs, restarts := f.drained[key]
	if !restarts {
		return nil
	}
	delete(f.drained, key)
	s.Expect(1)
	place := s.cond(i).place
	if lastsMs == 0 {
		return f.comeBack(s, place)
	}
	f.onScript(f.fleet.NowMs()+lastsMs, func() error { return f.comeBack(s, place) })
	return nil
}

// cutOff makes a worker unreachable.
func (f *faultRun) cutOff(s *faultyPool, pool, i int, ft *faults.Fault, event int, lastsMs float64) {
	c := s.cond(i)
	if s.Worker(i).Engine == nil {
		return
	}
	s.SettleEnded(i)
	c.cut++
	f.tellWorks(s, i)
	f.fleet.LinksChanged()
	f.onScript(f.fleet.NowMs()+lastsMs, func() error { return f.rejoin(s, pool, i) })
	if c.cut > 1 {
		return
	}
	c.event = event
	f.cuts++
	cut := f.cuts
	f.cutNumbers[workerKey{s, i}] = cut
	f.onScript(f.fleet.NowMs()+ft.Detection(f.cfg.DetectionMs), func() error {
		if c.cut == 0 || c.dead || f.cutNumbers[workerKey{s, i}] != cut {
			return nil
		}
		return f.giveUpWorker(s, i)
	})
}

// giveUpWorker breaks off the streams of a worker once it is noticed that it cannot be reached. It goes on with its
// requests until it learns of that.
func (f *faultRun) giveUpWorker(s *faultyPool, i int) error {
	c := s.cond(i)
	f.breakOff(s, i, "its worker could not be reached")
	for _, pass := range c.unseen { // what it did to the cache will be known
		*pass = engine.Pass{StartMs: pass.StartMs, EndMs: pass.EndMs, KVEvents: pass.KVEvents,
			KVEventsAtMs: pass.KVEventsAtMs}
	}
	for _, state := range s.Worker(i).Engine.States() {
		if f.attempts[state.ID].over {
			c.cancels = append(c.cancels, state.ID)
		}
	}
	c.inbox = nil
	s.Suspend(i, true)
	return s.Announce()
}

// rejoin ends a partition. What the worker did in the meantime becomes visible.
func (f *faultRun) rejoin(s *faultyPool, pool, i int) error {
	c := s.cond(i)
	c.cut--
	f.tellWorks(s, i)
	if c.cut > 0 || c.dead || s.Worker(i).Engine == nil {
		return nil
	}
	unseen, inbox := c.unseen, c.inbox
	c.unseen, c.inbox = nil, nil
	f.catchUpNews(s, i)
	f.fleet.LinksChanged()
	for _, pass := range unseen {
		pass.EndMs = f.fleet.NowMs()
		if err := s.Show(i, pass); err != nil {
			return err
		}
	}
	if !s.Worker(i).Busy() {
		f.cancelDue(pool, i)
	}
	for _, id := range inbox {
		if f.attempts[id].over {
			continue
		}
		s.Receive(i, id)
	}
	s.Reconnect(i)
	s.Suspend(i, false)
	return s.Announce()
}

// hitRange carries out a fault of the link, of what routers hear, or of start-ups.
func (f *faultRun) hitRange(n int, clock *faults.Clock, lastsMs float64) error {
	ft := &f.cfg.Script[n]
	untilMs := f.fleet.NowMs() + lastsMs
	if f.lasting[n] {
		return nil
	}
	f.lasting[n] = true
	f.onScript(untilMs, func() error { f.lasting[n] = false; return nil })
	switch ft.Kind {
	case faults.LinkSlow, faults.LinkDown:
		f.happened(n, nil, lastsMs)
		f.links = append(f.links, ft)
		f.fleet.LinksChanged()
		f.onScript(untilMs, func() error {
			f.links = without(f.links, ft)
			f.fleet.LinksChanged()
			return nil
		})
	case faults.ColdStart:
		f.happened(n, nil, lastsMs)
		f.cold = append(f.cold, ft)
		f.onScript(untilMs, func() error {
			f.cold = without(f.cold, ft)
			return nil
		})
	case faults.EventsLost, faults.RouterStale:
		hit := f.targets(n, clock)
		f.happened(n, hit, lastsMs)
		for _, h := range hit {
			f.muteEvents(ft, f.pools[h.pool], h.worker, untilMs)
		}
	default:
		return unknownFault(ft)
	}
	return nil
}

// unknownFault returns the error for a kind that package faults lists and this file does not handle.
func unknownFault(ft *faults.Fault) error { return fmt.Errorf("faults: %s is not simulated", ft.Kind) }

// muteEvents makes what a router learns of a worker incomplete or late.
func (f *faultRun) muteEvents(ft *faults.Fault, s *faultyPool, i int, untilMs float64) {
	c := s.cond(i)
	if ft.Kind == faults.EventsLost {
		c.muted++
		f.onScript(untilMs, func() error { s.cond(i).muted--; return nil })
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

// coldFactor returns how many times as long the start-up of a worker takes that begins now.
func (f *faultRun) coldFactor(pool, i int) float64 {
	s := f.pools[pool]
	factor := 1.0
	place, kept := s.kept[i]
	for _, ft := range f.cold {
		if ft.Target.In(s.kind) && (!ft.Target.One || kept && ft.Target.Place == place) {
			factor *= ft.Factor
		}
	}
	return factor
}
