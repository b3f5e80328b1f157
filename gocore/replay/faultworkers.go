package replay

import (
	"math"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/faults"
	"dynosim/gocore/fleet"
	"dynosim/gocore/kvcache"
)

// faultyPool is a pool and what faults have done to its workers.
//
// A place is what users mean by "worker:3". A worker has the lowest place that is free when it becomes active, or, if
// it is started for one that was lost, the place of that one. Ids are never used again, places are.
type faultyPool struct {
	*fleet.Pool
	kind    faults.Pool
	conds   []*condition // by worker
	places  []int        // by place, the worker that has it or had it last
	kept    map[int]int  // by worker that starts up: the place that is kept for it
	awaited map[int]int  // by place: how many workers will come to it
}

// condition is what faults have done to a worker.
type condition struct {
	place   int
	dead    bool
	noticed bool // nothing is sent there any more
	// retryUntilMs is until when requests that are sent there although it is dead go to the router again.
	retryUntilMs float64
	listedMs     float64 // when the workers are listed for the first time after its loss, by Rules16
	leftOut      bool    // until the next listing
	event        int     // the fault that has ended or cut off the worker

	force []int // numbers of the faults that last, of which none hits it twice at a time

	slow   []*float64 // factors of the faults that make it slow
	pauses int
	leftMs float64 // of the pass in flight while it stands still, at full speed

	cut     int                // partitions; it cannot be reached while there are any
	inbox   []engine.RequestID // sent while it could not be reached
	unseen  []*engine.Pass     // that ended then
	cancels []engine.RequestID // to be told at the end of its pass, or when it can be reached

	muted    int // faults by which events are lost
	stale    []*float64
	lateNews []lateEvents // that reach the router later
}

// lateEvents are changes of a cache of which the router hears at atMs, or when the fault is over.
type lateEvents struct {
	atMs   float64
	events []kvcache.Event
}

// cond returns the condition of a worker.
func (s *faultyPool) cond(i int) *condition {
	for i >= len(s.conds) {
		s.conds = append(s.conds, &condition{place: unassigned, event: noFault})
	}
	return s.conds[i]
}

// rate returns the speed of a worker, 1 if nothing is wrong.
func (c *condition) rate() float64 {
	if c.pauses > 0 {
		return 0
	}
	rate := 1.0
	for _, factor := range c.slow {
		rate /= *factor
	}
	return rate
}

// tellWorks tells the journal whether a worker works: it has started, can be reached and does not stand still.
func (f *faultRun) tellWorks(s *faultyPool, i int) {
	c := s.cond(i)
	f.Journal.Works(s.Role, i, s.Has(i) && !c.dead && c.cut == 0 && c.pauses == 0, f.fleet.NowMs())
}

// harmed reports whether a worker cannot do what it should.
func (s *faultyPool) harmed() bool {
	isHarmed := func(i int) bool {
		c := s.cond(i)
		return c.dead || c.cut > 0 || c.pauses > 0
	}
	return !s.Serves() || slices.ContainsFunc(s.Active(), isHarmed) || slices.ContainsFunc(s.Draining(), isHarmed)
}

// halted reports whether a worker can begin no pass.
func (f *faultRun) halted(pool, i int) bool {
	c := f.pools[pool].cond(i)
	return c.dead || c.pauses > 0
}

// mayCoast reports whether a worker may run ahead, and until when.
func (f *faultRun) mayCoast(pool, i int, untilMs float64) (float64, bool) {
	c := f.pools[pool].cond(i)
	return min(untilMs, f.disturbedMs()), c.rate() == 1 && c.cut == 0 && len(c.cancels) == 0
}

// coasts notes that a worker that emits tokens begins to coast. It returns the ends that come before the script changes
// something.
func (f *faultRun) coasts(pool, i int, ends []float64) []float64 {
	untilMs := f.disturbedMs()
	for len(ends) > 0 && ends[len(ends)-1] > untilMs {
		ends = ends[:len(ends)-1]
	}
	if len(ends) == 0 {
		return nil
	}
	f.collector.CoastFrom(i, f.fleet.NowMs())
	f.Journal.CoastFrom(f.pools[pool].Role, i, f.fleet.NowMs())
	return ends
}

// resumed says more about the pass that stands for the last one of a coast, while it is still being run. Its tokens are
// put on record at its end, which may never come.
func (f *faultRun) resumed(pool, i int, pass *engine.Pass) {
	pass.Tokens = 1
	pass.Parts = &engine.Parts{HostMs: f.pools[pool].Worker(i).CoastHostMs()}
}

// stretch makes a pass that has just begun take as long as its worker needs for it.
func (f *faultRun) stretch(pool, i int, pass *engine.Pass) {
	rate := f.pools[pool].cond(i).rate()
	if rate == 1 || rate == 0 || !computes(pass) {
		return
	}
	atEnd := pass.KVEventsAtMs == pass.EndMs && pass.EndMs > pass.StartMs
	pass.EndMs = pass.StartMs + (pass.EndMs-pass.StartMs)/rate
	if atEnd {
		pass.KVEventsAtMs = pass.EndMs
	}
}

// computes reports whether a pass is more than waiting for a request on its way to the scheduler, which takes its time
// on slow workers, too.
func computes(pass *engine.Pass) bool { return pass.Scheduled > 0 || pass.Tokens > 0 }

// change changes the speed of a worker. A pass in flight goes on at the new one.
func (f *faultRun) change(s *faultyPool, i int, how func(*condition)) {
	c := s.cond(i)
	before := c.rate()
	how(c)
	f.tellWorks(s, i)
	now := c.rate()
	w := s.Worker(i)
	if before == now || w.Engine == nil {
		return
	}
	s.SettleEnded(i)
	if pass := w.Pass; pass != nil && (before == 0 || now == 0 || computes(pass)) {
		if before > 0 {
			c.leftMs = (pass.EndMs - f.fleet.NowMs()) * before
		}
		endMs := math.Inf(1)
		if now > 0 {
			endMs = f.fleet.NowMs() + c.leftMs/now
		}
		if pass.KVEventsAtMs == pass.EndMs && pass.EndMs > pass.StartMs {
			pass.KVEventsAtMs = endMs
		}
		pass.EndMs = endMs
		s.EndPassAt(i, endMs)
	}
	s.Refresh(i)
}

// passEnds makes the end of a pass visible. It keeps the pass for later if its worker cannot be reached.
func (f *faultRun) passEnds(pool, i int, pass *engine.Pass) error {
	s := f.pools[pool]
	f.Journal.Ended(s.Role, i, s.Worker(i).Engine, pass, f.fleet.NowMs())
	if c := s.cond(i); c.cut > 0 {
		s.reportStores(i, pass)
		c.unseen = append(c.unseen, clonePass(pass))
		return nil
	}
	if err := s.Show(i, pass); err != nil {
		return err
	}
	f.cancelDue(pool, i)
	return nil
}

// stalls tells the journal of a pass that makes no progress, and whose end is not seen: it may have displaced requests.
func (f *faultRun) stalls(pool, i int, pass *engine.Pass) {
	if !pass.Idle() {
		s := f.pools[pool]
		f.Journal.Ended(s.Role, i, s.Worker(i).Engine, pass, pass.EndMs)
	}
}

func clonePass(p *engine.Pass) *engine.Pass {
	kept := *p
	kept.Admitted, kept.Started, kept.Bursts = slices.Clone(p.Admitted), slices.Clone(p.Started), slices.Clone(p.Bursts)
	kept.Singles = slices.Clone(p.Singles)
	kept.Finished, kept.Held, kept.Rejected = slices.Clone(p.Finished), slices.Clone(p.Held), slices.Clone(p.Rejected)
	kept.Loads, kept.Released, kept.ReleasedAtStart = slices.Clone(p.Loads), slices.Clone(p.Released),
		slices.Clone(p.ReleasedAtStart)
	kept.Signals = slices.Clone(p.Signals)
	kept.KVEvents = cloneEvents(p.KVEvents)
	kept.Parts = p.Parts.Clone()
	return &kept
}

// accepts reports whether a worker gets an attempt that was sent there now. If it is lost, the attempt has failed; if
// it cannot be reached, the attempt waits.
func (f *faultRun) accepts(pool, i int, id engine.RequestID) bool {
	c := f.pools[pool].cond(i)
	switch {
	case f.attempts[id].over:
		return false
	case c.dead:
		f.lose(breakage{id: id, tokens: int(f.attempts[id].base),
			cause: "it was sent to a worker that was not there any more", refused: true,
			migrates: f.cfg.Rules == Rules16 || f.fleet.NowMs() < c.retryUntilMs, event: c.event, pool: pool,
			worker: i})
		return false
	case c.cut > 0:
		c.inbox = append(c.inbox, id)
		return false
	}
	return true
}

// forget has a worker forget an attempt, as soon as the message can reach it.
func (f *faultRun) forget(s *faultyPool, i int, id engine.RequestID) {
	c, w := s.cond(i), s.Worker(i)
	switch {
	case c.dead || w.Engine == nil:
	case c.cut > 0 || w.Busy():
		c.cancels = append(c.cancels, id)
	default:
		s.Cancel(i, id)
	}
}

// cancelDue has an idle worker forget the attempts that it should.
func (f *faultRun) cancelDue(pool, i int) {
	s := f.pools[pool]
	c := s.cond(i)
	if len(c.cancels) == 0 || c.cut > 0 || c.dead {
		return
	}
	cancels := c.cancels
	c.cancels = nil
	for _, id := range cancels {
		s.Cancel(i, id)
	}
}

// on lists the attempts that end if a worker is lost.
func (f *faultRun) on(s *faultyPool, i int) (ids []engine.RequestID) {
	for turn := range f.turns {
		for _, id := range f.turns[turn].live {
			if !f.attempts[id].over && f.fleet.Needs(id, s.Pool, i) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// breakOff ends all attempts on a worker that is lost or cannot be reached any more. Clients have the tokens of passes
// whose end they saw.
func (f *faultRun) breakOff(s *faultyPool, i int, cause string) {
	c, w := s.cond(i), s.Worker(i)
	generated := map[engine.RequestID]int{}
	passes := c.unseen
	if w.Engine != nil {
		s.SettleEnded(i)
		for _, state := range w.Engine.States() {
			generated[state.ID] = state.Generated
		}
		if w.Pass != nil {
			passes = append(slices.Clone(passes), w.Pass)
		}
	}
	for _, id := range f.on(s, i) {
		f.lose(breakage{id: id, tokens: f.seen(id, generated, passes), cause: cause, migrates: true, event: c.event})
	}
}

// seen returns how many tokens the client of an attempt has. generated is how many the attempt has got on its worker,
// passes are those whose end the client did not see.
func (f *faultRun) seen(id engine.RequestID, generated map[engine.RequestID]int, passes []*engine.Pass) int {
	a := &f.attempts[id]
	for _, pass := range passes {
		for _, s := range joinedOrSingle(pass) {
			if s.ID == id {
				return int(a.base) + s.Index
			}
		}
	}
	tokens, _ := f.collector.Emitted(engine.RequestID(a.turn))
	if n, left := generated[id]; left { // its run may have ended before, without notice
		tokens = min(tokens, int(a.base)+n)
	}
	return tokens
}

// reportStores reports to the router what a pass changes in the stores that workers share, before the pass ends: these
// changes last even if the worker is lost.
func (s *faultyPool) reportStores(i int, pass *engine.Pass) {
	if pass != nil && pass.KVEventsAtMs > pass.StartMs { // otherwise they were reported when the pass began
		pass.KVEvents = s.reportShared(i, pass.KVEvents)
	}
}

// reportShared reports changes of stores that workers share to the router, and returns the other changes.
func (s *faultyPool) reportShared(i int, events []kvcache.Event) (own []kvcache.Event) {
	stores, own := kvcache.Apart(events)
	if len(stores) > 0 {
		s.Learn(i, stores)
	}
	return own
}

// news tells the router of changes of a cache, now or later or never, but of what workers share at once.
func (f *faultRun) news(pool, i int, events []kvcache.Event) {
	s := f.pools[pool]
	c := s.cond(i)
	events = s.reportShared(i, events)
	switch {
	case len(events) == 0 || c.dead || c.muted > 0:
		return
	case len(c.stale) == 0 && c.cut == 0 && len(c.lateNews) == 0:
		s.Learn(i, events)
		return
	}
	delayMs := math.Inf(1)
	for n, d := range c.stale {
		if n == 0 || *d > delayMs {
			delayMs = *d
		}
	}
	c.lateNews = append(c.lateNews, lateEvents{f.fleet.NowMs() + delayMs, cloneEvents(events)})
	f.after(delayMs, func() error { f.catchUpNews(s, i); return nil })
}

func cloneEvents(events []kvcache.Event) []kvcache.Event {
	kept := slices.Clone(events)
	for n := range kept {
		kept[n] = kept[n].Clone()
	}
	return kept
}

// catchUpNews tells the router what it should have heard of by now, in the order in which it happened.
func (f *faultRun) catchUpNews(s *faultyPool, i int) {
	c := s.cond(i)
	for len(c.lateNews) > 0 && c.cut == 0 && !c.dead && (len(c.stale) == 0 || c.lateNews[0].atMs <= f.fleet.NowMs()) {
		s.Learn(i, c.lateNews[0].events)
		c.lateNews = c.lateNews[1:]
	}
}

// LinkRate implements [fleet.Faults].
func (f *faultRun) LinkRate(prefill, decode int) float64 {
	rate := 1.0
	for k, i := range [...]int{prefill, decode} {
		if c := f.pools[k].cond(i); c.cut > 0 || c.dead {
			return 0
		}
	}
	for _, l := range f.links {
		hit := l.Target.Pool == faults.AnyPool
		for k, i := range [...]int{prefill, decode} {
			s := f.pools[k]
			hit = hit || l.Target.Has(s.kind, s.cond(i).place)
		}
		switch {
		case !hit:
		case l.Kind == faults.LinkDown:
			return 0
		default:
			rate /= l.Factor
		}
	}
	return rate
}
