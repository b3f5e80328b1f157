package replay

import (
	"math"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/faults"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/worker"
)

// site is a pool and what faults have done to its workers.
//
// A place is what users mean by "worker:3". A worker has the lowest place that is free when it becomes active, or, if it is
// started for one that was lost, the place of that one. Ids are never used again, places are.
type site struct {
	*pool
	kind    faults.Pool
	role    engine.Role
	station station
	conds   []*condition // by worker
	places  []int        // by place, the worker that has it or had it last
	kept    map[int]int  // by worker that starts up: the place that is kept for it
	awaited map[int]int  // by place: how many workers will come to it
}

// station is what faults ask of the event loop about the workers of one pool.
type station interface {
	// at is a worker. It has no engine if it is gone or has not started.
	at(i int) *worker.Worker
	// settleEnded carries out the passes of a coast that have ended.
	settleEnded(i int)
	// discard throws away the engine of a worker, and the pass that it is busy with.
	discard(i int)
	// finish makes the pass that a worker is busy with end at endMs; +Inf stands for a time that is not known yet.
	finish(i int, endMs float64)
	updateReady(i int)
	// see makes the end of a pass visible.
	see(i int, pass *engine.Pass) error
	// receive hands an attempt to a worker, which it has been sent to.
	receive(i int, id engine.RequestID) error
	// reached is told that a worker can be reached again.
	reached(i int) error
	// cancel forgets an attempt on an idle worker.
	cancel(i int, id engine.RequestID)
	// hear tells the router what a worker has in its cache.
	hear(i int, events []kvcache.Event)
}

// condition is what faults have done to a worker.
type condition struct {
	place   int
	dead    bool
	noticed bool // nothing is sent there any more
	// retryUntilMs is until when requests that are sent there although it is dead go to the router again.
	retryUntilMs float64
	event        int // the fault that has ended or cut off the worker

	force []int // numbers of the faults that last, of which none hits it twice at a time

	slow   []*float64 // factors of the faults that make it slow
	pauses int
	leftMs float64 // of the pass in flight while it stands still, at full speed

	cut     int                // partitions; it cannot be reached while there are any
	inbox   []engine.RequestID // sent while it could not be reached
	unseen  []*engine.Pass     // that ended then
	cancels []engine.RequestID // to be told at the end of its pass, or when it can be reached

	deaf  int // faults by which events are lost
	stale []*float64
	heard []lateEvents // that the router will hear of later
}

// lateEvents are changes of a cache of which the router hears at atMs, or when the fault is over.
type lateEvents struct {
	atMs   float64
	events []kvcache.Event
}

// cond is the condition of a worker.
func (s *site) cond(i int) *condition {
	for i >= len(s.conds) {
		s.conds = append(s.conds, &condition{place: unassigned, event: noFault})
	}
	return s.conds[i]
}

// rate is the speed of a worker, 1 if nothing is wrong.
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
func (f *faultRun) tellWorks(s *site, i int) {
	c := s.cond(i)
	f.Journal.Works(s.role, i, s.has(i) && !c.dead && c.cut == 0 && c.pauses == 0, f.nowMs)
}

// harmed reports whether a worker cannot do what it should.
func (s *site) harmed() bool {
	isHarmed := func(i int) bool {
		c := s.cond(i)
		return c.dead || c.cut > 0 || c.pauses > 0
	}
	return !s.serves() || slices.ContainsFunc(s.active, isHarmed) || slices.ContainsFunc(s.draining, isHarmed)
}

// stands reports whether a worker can begin no pass.
func (f *faultRun) stands(pool, i int) bool {
	if f == nil {
		return false
	}
	c := f.sites[pool].cond(i)
	return c.dead || c.pauses > 0
}

// mayCoast reports whether a worker may run ahead, and until when.
func (f *faultRun) mayCoast(pool, i int, untilMs float64) (float64, bool) {
	if f == nil {
		return untilMs, true
	}
	c := f.sites[pool].cond(i)
	return min(untilMs, f.disturbedMs()), c.rate() == 1 && c.cut == 0 && len(c.cancels) == 0
}

// undisturbed is the ends in a coast that come before the script changes something.
func (f *faultRun) undisturbed(ends []float64) []float64 {
	if f == nil {
		return ends
	}
	untilMs := f.disturbedMs()
	for len(ends) > 0 && ends[len(ends)-1] > untilMs {
		ends = ends[:len(ends)-1]
	}
	if len(ends) == 0 {
		return nil
	}
	return ends
}

// coasts notes that a worker that emits tokens begins to coast.
func (f *faultRun) coasts(i int) {
	if f != nil {
		f.collector.CoastFrom(i, f.nowMs)
		f.Journal.CoastFrom(f.sites[len(f.sites)-1].role, i, f.nowMs)
	}
}

// visible is the ends of passes that were settled, as far as clients see them now. The last pass may still be being run.
func (f *faultRun) visible(endsMs []float64) []float64 {
	if f == nil {
		return endsMs
	}
	return endsMs[:endedBy(endsMs, f.nowMs)]
}

// unfinished stands for the last pass of a coast that was settled, while it is still being run. With faults its tokens are
// put on record at its end, which may never come.
func (f *faultRun) unfinished(w *worker.Worker, endMs float64) *engine.Pass {
	pass := &engine.Pass{EndMs: endMs}
	if f != nil {
		pass.Tokens = 1
		pass.Parts = &engine.Parts{HostMs: w.CoastHostMs()}
	}
	return pass
}

// stretch makes a pass that has just begun take as long as its worker needs for it.
func (f *faultRun) stretch(pool, i int, pass *engine.Pass) {
	if f == nil {
		return
	}
	rate := f.sites[pool].cond(i).rate()
	if rate == 1 || rate == 0 || !computes(pass) {
		return
	}
	atEnd := pass.KVEventsAtMs == pass.EndMs && pass.EndMs > pass.StartMs
	pass.EndMs = pass.StartMs + (pass.EndMs-pass.StartMs)/rate
	if atEnd {
		pass.KVEventsAtMs = pass.EndMs
	}
}

// computes reports whether a pass is more than waiting for a request on its way to the scheduler, which takes its time on slow
// workers, too.
func computes(pass *engine.Pass) bool { return pass.Scheduled > 0 || pass.Tokens > 0 }

// change changes the speed of a worker. A pass in flight goes on at the new one.
func (f *faultRun) change(s *site, i int, how func(*condition)) {
	c := s.cond(i)
	before := c.rate()
	how(c)
	f.tellWorks(s, i)
	now := c.rate()
	w := s.station.at(i)
	if before == now || w.Engine == nil {
		return
	}
	s.station.settleEnded(i)
	if pass := w.Pass; pass != nil && (before == 0 || now == 0 || computes(pass)) {
		if before > 0 {
			c.leftMs = (pass.EndMs - f.nowMs) * before
		}
		endMs := math.Inf(1)
		if now > 0 {
			endMs = f.nowMs + c.leftMs/now
		}
		if pass.KVEventsAtMs == pass.EndMs && pass.EndMs > pass.StartMs {
			pass.KVEventsAtMs = endMs
		}
		pass.EndMs = endMs
		s.station.finish(i, endMs)
	}
	s.station.updateReady(i)
}

// passEnds makes the end of a pass visible. It keeps the pass for later if its worker cannot be reached.
func (f *faultRun) passEnds(pool, i int, pass *engine.Pass) error {
	s := f.sites[pool]
	f.Journal.Ended(s.role, i, s.station.at(i).Engine, pass, f.nowMs)
	if c := s.cond(i); c.cut > 0 {
		c.unseen = append(c.unseen, clonePass(pass))
		return nil
	}
	if err := s.station.see(i, pass); err != nil {
		return err
	}
	f.cancelDue(pool, i)
	return nil
}

// stalls tells the journal of a pass that makes no progress, and whose end is not seen: it may have displaced requests.
func (f *faultRun) stalls(pool, i int, pass *engine.Pass) {
	if f != nil && !pass.Idle() {
		s := f.sites[pool]
		f.Journal.Ended(s.role, i, s.station.at(i).Engine, pass, pass.EndMs)
	}
}

func clonePass(p *engine.Pass) *engine.Pass {
	kept := *p
	kept.Admitted, kept.Started, kept.Bursts = slices.Clone(p.Admitted), slices.Clone(p.Started), slices.Clone(p.Bursts)
	kept.Singles = slices.Clone(p.Singles)
	kept.Finished, kept.Held, kept.Rejected = slices.Clone(p.Finished), slices.Clone(p.Held), slices.Clone(p.Rejected)
	kept.Signals = slices.Clone(p.Signals)
	kept.KVEvents = cloneEvents(p.KVEvents)
	kept.Parts = p.Parts.Clone()
	return &kept
}

// accepts reports whether a worker gets an attempt that was sent there now. If it is lost, the attempt has failed; if it
// cannot be reached, the attempt waits.
func (f *faultRun) accepts(pool, i int, id engine.RequestID) bool {
	if f == nil {
		return true
	}
	c := f.sites[pool].cond(i)
	switch {
	case f.attempts[id].over:
		return false
	case c.dead:
		f.lose(breakage{id: id, tokens: int(f.attempts[id].base), cause: "it was sent to a worker that was not there any more", refused: true, migrates: f.nowMs < c.retryUntilMs, event: c.event})
		return false
	case c.cut > 0:
		f.attempts[id].worker = int32(i)
		c.inbox = append(c.inbox, id)
		return false
	}
	f.attempts[id].worker = int32(i)
	return true
}

// tell has a worker forget an attempt, as soon as it can hear of that.
func (f *faultRun) tell(s *site, i int, id engine.RequestID) {
	c, w := s.cond(i), s.station.at(i)
	switch {
	case c.dead || w.Engine == nil:
	case c.cut > 0 || w.Busy():
		c.cancels = append(c.cancels, id)
	default:
		s.station.cancel(i, id)
	}
}

// cancelDue has an idle worker forget the attempts that it should.
func (f *faultRun) cancelDue(pool, i int) {
	if f == nil {
		return
	}
	s := f.sites[pool]
	c := s.cond(i)
	if len(c.cancels) == 0 || c.cut > 0 || c.dead {
		return
	}
	cancels := c.cancels
	c.cancels = nil
	for _, id := range cancels {
		s.station.cancel(i, id)
	}
}

// on lists the attempts that end if a worker is lost.
func (f *faultRun) on(s *site, i int) (ids []engine.RequestID) {
	for turn := range f.journeys {
		for _, id := range f.journeys[turn].live {
			if !f.attempts[id].over && f.loop.struck(s, i, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// breakOff ends all attempts on a worker that is lost or cannot be reached any more. Clients have the tokens of passes whose
// end they saw.
func (f *faultRun) breakOff(s *site, i int, cause string) {
	c, w := s.cond(i), s.station.at(i)
	generated := map[engine.RequestID]int{}
	passes := c.unseen
	if w.Engine != nil {
		s.station.settleEnded(i)
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

// seen is how many tokens the client of an attempt has. generated is how many the attempt has got on its worker, passes are
// those whose end the client did not see.
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

// news tells the router of changes of a cache, now or later or never.
func (f *faultRun) news(pool, i int, events []kvcache.Event) {
	s := f.sites[pool]
	c := s.cond(i)
	switch {
	case len(events) == 0 || c.dead || c.deaf > 0:
		return
	case len(c.stale) == 0 && c.cut == 0 && len(c.heard) == 0:
		s.station.hear(i, events)
		return
	}
	delayMs := math.Inf(1)
	for n, d := range c.stale {
		if n == 0 || *d > delayMs {
			delayMs = *d
		}
	}
	c.heard = append(c.heard, lateEvents{f.nowMs + delayMs, cloneEvents(events)})
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
func (f *faultRun) catchUpNews(s *site, i int) {
	c := s.cond(i)
	for len(c.heard) > 0 && c.cut == 0 && !c.dead && (len(c.stale) == 0 || c.heard[0].atMs <= f.nowMs) {
		s.station.hear(i, c.heard[0].events)
		c.heard = c.heard[1:]
	}
}
