package fleet

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/eventheap"
	"dynosim/gocore/handoff"
	"dynosim/gocore/planner"
	"dynosim/gocore/router"
)

// Config describes a fleet.
type Config struct {
	// Pools are one pool of aggregated workers, or one of prefill workers and one of decode workers. Those have engines
	// of one type and equal block sizes.
	Pools    []PoolConfig
	Transfer handoff.Transfer // of KV from prefill to decode workers
	// Imports lets requests to one pool bring prompts along that were computed outside the fleet (engine.Request.Pull).
	// Its engines have to be Destinations.
	Imports bool
	// LimitMs is when the run ends at the latest: no pass starts later. +Inf for no limit.
	LimitMs float64
	// Enough reports at each instant whether the run ends with it; nil for never.
	Enough   func() bool
	World    World
	Recorder Recorder
	// Watcher sees what every pass brings as it ends, so that no worker coasts; nil if nothing watches.
	Watcher  Watcher
	Requests int // that are known beforehand, with ids from 0
	// Await returns when the clock has come to an instant of simulated time; nil for virtual time, in which nothing
	// waits. An error ends the run.
	Await func(atMs float64) error
	// Planner changes how many workers there are; nil leaves them alone. Every router has to be a [router.Elastic]
	// then, and every engine an [engine.Reporter].
	Planner planner.Planner
	// Sampler is a planner that only records figures at ticks of its own and never changes the number of workers; nil
	// for none.
	Sampler planner.Planner
	// Seed is that of start-up times which are drawn.
	Seed uint64
	// KVEventLagMs is how long after a change of a cache the routers learn of it; 0 for at once.
	KVEventLagMs float64
	// StopWhenStalled ends the run with [ErrStalled] at the first pass without effect, so that a caller that ran
	// workers one by one can run all of them in one loop instead.
	StopWhenStalled bool
}

// World is where requests come from and go to.
type World interface {
	// NextMs returns when the next request arrives, and whether one does.
	NextMs() (atMs float64, ok bool)
	// Next takes a request that has arrived by nowMs, and records its arrival.
	Next(nowMs float64) (id engine.RequestID, ok bool)
	// Unreleased returns the number of requests that have not arrived.
	Unreleased() int

	// Request returns a request as engines get it, Prompt as much of it as prefill workers have to know, ForRouter what
	// a router needs to know of it, and Name what messages call it.
	Request(id engine.RequestID) engine.Request
	Prompt(id engine.RequestID) engine.Request
	ForRouter(r engine.Request) router.Request
	Name(id engine.RequestID) string
	// Explain returns an error of a router with its request named as users know it.
	Explain(err error) error

	// BeforePass is called before each pass and each coast. An error ends the run.
	BeforePass(nowMs float64) error
	// Completing counts a request whose last token was seen, for a planner.
	Completing(id engine.RequestID, t *planner.Traffic, wantsTTFT bool)
	// Over is called when a request has left the fleet. The reason is that of a rejection.
	Over(id engine.RequestID, how Ending, reason string)
}

// Ending is how a request ends.
type Ending uint8

// The endings of requests.
const (
	Completed Ending = iota
	Rejected         // its worker can never run it
	Canceled         // its hand-off failed
)

// Fleet is pools of workers behind routers, and the event loop that runs them.
type Fleet struct {
	Config
	pools  []*Pool
	flow   flow
	scaler *scaler
	faults Faults // nil if nothing goes wrong
	// withdrawn requests are those that the world has taken back and that are not gone yet.
	withdrawn map[engine.RequestID]struct{}
	// keepers are the pools whose routers may keep requests.
	keepers   []*Pool
	idleTicks int // timers of routers in a row without any progress
	// inOrder is set by pulls.go and pushes.go: at each instant all passes and transfers that end are handled before
	// passes start, and prefill workers start theirs before decode workers.
	inOrder bool

	nowMs  float64
	events eventheap.Heap[event] // ends of passes and transfers, some of them out of date; see topEvent
	pushed int64                 // the sequence number of the last event

	// What coasting needs; see coast.go.
	stepwise   bool // no worker may coast
	tracksEnds bool // ends within coasts are tracked
	innerEnds  innerEnds
	nothing    engine.Pass // an empty pass
}

// event is the end of a pass, a coast or a transfer.
type event struct {
	pool  int32 // transferEnd for a transfer
	index int32 // of the worker or the request
	seq   int64
}

const transferEnd = -1

// none is the sequence number of no event.
const none = 0

// New makes a fleet whose first workers are active, at time 0.
func New(c Config) (*Fleet, error) {
	f := &Fleet{Config: c, tracksEnds: len(c.Pools) > 1, withdrawn: map[engine.RequestID]struct{}{}}
	for range c.Pools {
		f.pools = append(f.pools, &Pool{})
	}
	f.flow = newFlow(f)
	for k, p := range f.pools {
		if p.open(f, k); p.router.Traits().Keeps {
			f.keepers = append(f.keepers, p)
		}
	}
	return f, f.scale()
}

// Pools returns the pools of the fleet, in the order of the configuration.
func (f *Fleet) Pools() []*Pool { return f.pools }

// NowMs returns the simulated time.
func (f *Fleet) NowMs() float64 { return f.nowMs }

// emitting returns the pool whose workers emit tokens.
func (f *Fleet) emitting() *Pool { return f.pools[len(f.pools)-1] }

// Run runs the fleet until all requests are over, or until the limit.
func (f *Fleet) Run() error {
	if err := f.scaler.begin(); err != nil {
		return err
	}
	for {
		if err := f.instant(); err != nil {
			return err
		}
		if f.done() {
			f.finish(false)
			return f.ended()
		}
		if f.Enough != nil && f.Enough() {
			return f.endHere()
		}
		next, pending := f.nextEventMs()
		planned, due := f.sooner(next, pending)
		switch {
		case !pending && !(f.tracksEnds && due && f.holds()) && f.flow.unblock():
		case !due && f.faults != nil && f.faults.GiveUp():
		case !due && f.holds():
			return f.scaler.deadEnd(f.nowMs)
		case !due && f.Kept() > 0:
			return f.keptForEver()
		case !due:
			return f.DeadEnd()
		case planned > f.LimitMs:
			f.finish(true)
			return f.tellKeepers()
		default:
			if f.Await != nil {
				if err := f.Await(planned); err != nil {
					return err
				}
			}
			f.advance(planned)
		}
	}
}

// endHere ends the run at this instant. Passes that have started keep their tokens.
func (f *Fleet) endHere() error {
	f.haltAll()
	f.LimitMs = f.nowMs
	f.finish(true)
	return f.tellKeepers()
}

// ended shows routers and the planner the end of the run, if they want to see that.
func (f *Fleet) ended() error {
	if err := f.tellKeepers(); err != nil {
		return err
	}
	return f.scaler.end(f.nowMs)
}

// instant handles everything that happens at this instant.
func (f *Fleet) instant() error {
	for {
		changed, err := f.round()
		if err != nil {
			return err
		}
		if changed {
			f.scaler.idleTicks = 0
			continue
		}
		if again, err := f.scaler.afterwards(f.nowMs, f.done); err != nil || !again {
			return err
		}
	}
}

// round takes each step of an instant once, in the order that doc.go gives. It reports whether anything happened.
func (f *Fleet) round() (changed bool, err error) {
	ended, err := f.endNow(false)
	if err != nil {
		return false, err
	}
	ready, err := f.scaler.becomeReady(f.nowMs)
	if err != nil {
		return false, err
	}
	transferred, err := f.endNow(true)
	if err != nil {
		return false, err
	}
	_, more := f.endsNow()
	for transfers := false; f.inOrder && more; transfers = !transfers {
		if _, err := f.endNow(transfers); err != nil {
			return false, err
		}
		_, more = f.endsNow()
		transferred = true
	}
	faulted := false
	if f.faults != nil && !more {
		if faulted, err = f.faults.Happen(); err != nil {
			return false, err
		}
	}
	ticked, err := f.tick()
	if err != nil {
		return false, err
	}
	arrived, err := f.takeArrivals()
	if err != nil {
		return false, err
	}
	acted, err := f.flow.act()
	if err != nil {
		return false, err
	}
	started, err := f.startPasses()
	if err != nil {
		return false, err
	}
	changed = ended || transferred || arrived || acted || started
	if changed && f.faults != nil {
		f.faults.Progressed()
	}
	if changed {
		f.idleTicks = 0
	}
	return changed || ready || faulted || ticked, nil
}

// done reports whether all requests are over.
func (f *Fleet) done() bool {
	if f.faults != nil {
		return f.faults.Done()
	}
	if f.World.Unreleased() > 0 || !f.flow.done() || f.Kept() > 0 {
		return false
	}
	return f.topEvent() == nil
}

// nextEventMs returns when a pass or a transfer ends next, or a request arrives.
func (f *Fleet) nextEventMs() (float64, bool) {
	arrival, arrives := f.World.NextMs()
	end := f.topEvent()
	if end != nil && (!arrives || end.AtMs < arrival) {
		return end.AtMs, true
	}
	return arrival, arrives
}

// sooner returns the next instant, if next is that without planner and faults.
func (f *Fleet) sooner(next float64, pending bool) (float64, bool) {
	if f.Planner == nil && f.faults == nil && f.keepers == nil {
		return next, pending
	}
	if !pending {
		next = math.Inf(1)
	}
	if pending || f.mayTick() {
		next = min(next, f.nextTickMs())
	}
	next = min(next, f.scaler.nextMs())
	if f.faults != nil {
		next = min(next, f.faults.DueMs())
	}
	next = f.scaler.sampled(next)
	return next, !math.IsInf(next, 1)
}

// advance moves the clock to the next instant.
func (f *Fleet) advance(toMs float64) {
	if f.tracksEnds {
		f.passInnerEnds(toMs)
	}
	f.elapse(toMs)
	for _, p := range f.pools {
		p.swept = 0
		if p.late.Pending() {
			p.late.CatchUp(p.router, toMs)
		}
	}
	if f.tracksEnds {
		f.cutInnerEnds()
	}
}

// elapse moves the clock through a time in which nothing happens.
func (f *Fleet) elapse(toMs float64) {
	if ms := toMs - f.nowMs; ms > 0 {
		for _, p := range f.pools {
			p.seconds += float64(float64(p.total())*ms) / 1000
		}
	}
	f.nowMs = toMs
}

func (f *Fleet) push(atMs float64, e event) {
	f.pushed++
	e.seq = f.pushed
	f.events.Add(eventheap.Event[event]{AtMs: atMs, SinceMs: f.nowMs, Seq: e.seq, Value: e})
}

// topEvent returns the first event, nil if there is none. It skips ends that are out of date.
func (f *Fleet) topEvent() *eventheap.Event[event] {
	top := f.events.Top()
	for top != nil && !f.valid(top.Value) {
		f.events.Pop()
		top = f.events.Top()
	}
	return top
}

// valid reports whether an event is still the end of something.
func (f *Fleet) valid(e event) bool {
	if e.pool == transferEnd {
		return f.flow.transfers(engine.RequestID(e.index), e.seq)
	}
	return f.pools[e.pool].workers[e.index].due == e.seq
}

// endsNow returns the first event, if it is due now. An event of another kind is not looked past, even if events behind
// it are due at the same time.
func (f *Fleet) endsNow() (event, bool) {
	if f.events.NextMs() > f.nowMs { // usually so; what is out of date stays until it is due
		return event{}, false
	}
	if top := f.topEvent(); top != nil && top.AtMs == f.nowMs {
		return top.Value, true
	}
	return event{}, false
}

// endNow ends the passes, or the transfers, that end now, in the order in which they began, until something else comes
// first.
func (f *Fleet) endNow(transfers bool) (changed bool, err error) {
	for {
		e, ok := f.endsNow()
		if !ok || (e.pool == transferEnd) != transfers {
			return changed, nil
		}
		f.events.Pop()
		changed = true
		if transfers {
			f.flow.transferred(engine.RequestID(e.index))
		} else if err := f.endPass(f.pools[e.pool], int(e.index)); err != nil {
			return changed, err
		}
	}
}

// endPass ends the pass or the coast of a worker.
func (f *Fleet) endPass(p *Pool, i int) error {
	w := &p.workers[i]
	pass := w.Pass
	if pass == nil { // nothing is left to be made visible
		f.settle(p, i, len(w.Coast))
		f.nothing = engine.Pass{}
		pass = &f.nothing
	} else {
		p.passEnded(i)
	}
	w.Pass = nil
	p.updateReady(i)
	if p.reachable(i) {
		f.flow.idle(w)
	}
	if h := p.hooks; h != nil {
		return h.PassEnded(i, pass)
	}
	if f.Watcher != nil {
		f.Watcher.PassEnded(p, i, pass)
	}
	if err := f.show(p, i, pass); err != nil {
		return err
	}
	f.forgetWithdrawn(p, i)
	return nil
}

func (f *Fleet) takeArrivals() (changed bool, err error) {
	for {
		id, ok := f.World.Next(f.nowMs)
		if !ok {
			return changed, nil
		}
		changed = true
		f.scaler.each(func(t *planner.Traffic) { t.Arrived++ })
		if err := f.flow.send(id, true); err != nil {
			return changed, err
		}
	}
}

// startPasses starts passes on the workers of all pools. While a worker has requests and cannot go on, it is asked
// again at every instant, so that none may coast beyond one.
func (f *Fleet) startPasses() (changed bool, err error) {
	stalled := false
	for k := 0; k < len(f.pools); k++ {
		started, err := f.startPool(f.pools[k])
		if err != nil {
			return changed, err
		}
		changed = changed || started
		if f.comesFirst(k) {
			k = -1
		}
	}
	for _, p := range f.pools {
		p.swept = len(p.workers)
		stalled = stalled || !p.ready.empty()
	}
	f.stepwise = stalled
	if stalled {
		f.haltAll()
	}
	return changed, nil
}

// startPool starts a pass on the first worker that is ready, and begins again with the first one, because the pass may
// have made another worker ready, until no worker can start a pass. A pass without duration is applied at once. If it
// had no effect either, or the engine reports that it makes no progress, the worker is tried again only after something
// else has happened.
func (f *Fleet) startPool(p *Pool) (changed bool, err error) {
	for i, ok := p.ready.next(0); ok; {
		p.swept = max(p.swept, i)
		if err := f.World.BeforePass(f.nowMs); err != nil {
			return changed, err
		}
		if f.tryCoast(p, i) {
			changed = true
			i, ok = p.ready.next(0)
			continue
		}
		progress, err := f.startPass(p, i)
		if err != nil {
			return changed, err
		}
		if !progress {
			i, ok = p.ready.next(i + 1)
			continue
		}
		changed = true
		if f.comesFirst(p.index) {
			return changed, nil
		}
		i, ok = p.ready.next(0)
	}
	return changed, nil
}

// comesFirst reports whether a worker of the first pool has something to do that comes before those of pool k.
func (f *Fleet) comesFirst(k int) bool { return f.inOrder && k > 0 && !f.pools[0].ready.empty() }

// startPass starts a pass of an idle worker. It reports whether that had any effect.
func (f *Fleet) startPass(p *Pool, i int) (progress bool, err error) {
	w := &p.workers[i]
	pass, alive := w.Engine.RunPass(f.nowMs)
	if h := p.hooks; h != nil {
		h.PassStarted(i, pass)
	}
	f.Recorder.PassStarted(p, i, pass)
	if (p.observes || f.Watcher != nil) && pass.KVEventsAtMs <= pass.StartMs {
		p.cacheChanged(i, pass.KVEvents)
	}
	if err := f.flow.started(p, i, pass); err != nil {
		return false, err
	}
	if !alive || pass.Idle() {
		if f.StopWhenStalled {
			return false, ErrStalled
		}
		if h := p.hooks; h != nil {
			h.PassStalled(i, pass)
		}
		p.updateReady(i)
		return false, nil
	}
	p.began(i, w.Engine, pass)
	w.Pass = pass
	if pass.EndMs > f.nowMs {
		p.ready.remove(i)
		f.pushEnd(p, i, pass.EndMs)
		return true, nil
	}
	return true, f.endPass(p, i)
}

// pushEnd puts the end of the pass of a worker on the clock.
func (f *Fleet) pushEnd(p *Pool, i int, atMs float64) {
	f.push(atMs, event{pool: int32(p.index), index: int32(i)})
	p.workers[i].due = f.pushed
}

// interrupt ends the pass of a worker that only waits for a copy between the tiers of its cache: there is a request to
// look at.
func (f *Fleet) interrupt(p *Pool, i int) {
	w := &p.workers[i]
	if w.Pass == nil || !w.Pass.Waits || w.due == none || w.Pass.EndMs <= f.nowMs {
		return
	}
	w.Pass.Cut(f.nowMs)
	f.pushEnd(p, i, w.Pass.EndMs)
}

// leave takes a request that is over out of the pool that emitted its tokens.
func (f *Fleet) leave(p *Pool, id engine.RequestID, how Ending, reason string) error {
	admitted, err := p.router.Free(int32(id), f.nowMs)
	if how == Completed {
		f.scaler.completing(id)
	}
	f.World.Over(id, how, reason)
	f.flow.left(id)
	if err := f.admitted(p, admitted, err); err != nil {
		return err
	}
	if f.faults != nil {
		return f.faults.Ended(id)
	}
	return nil
}

// States calls tell with the state of each request on the workers of the pools, those first that emit tokens: they know
// the tokens of a request that both pools have. Coasts end where they have been planned to.
func (f *Fleet) States(tell func(engine.RequestState)) {
	for p, i := range f.present() {
		if planned := len(p.workers[i].Coast); planned > 0 {
			f.settle(p, i, planned)
		}
	}
	for p, i := range f.present() {
		for _, s := range p.workers[i].Engine.States() {
			tell(s)
		}
	}
}

// present walks the workers that have started and are not gone, those first that emit tokens.
func (f *Fleet) present() iter.Seq2[*Pool, int] {
	return func(yield func(*Pool, int) bool) {
		for _, p := range slices.Backward(f.pools) {
			for i := range p.workers {
				if p.workers[i].Engine != nil && !yield(p, i) {
					return
				}
			}
		}
	}
}

// DeadEnd returns the error of a run that cannot go on although requests are left.
func (f *Fleet) DeadEnd() error {
	last := f.emitting()
	e := &engine.DeadEnd{AtMs: f.nowMs, BlockSize: last.Args.BlockSize, Capacity: last.Args.NumGPUBlocks}
	two := len(f.pools) > 1
	if two {
		e.PrefillCapacity = f.pools[0].Args.NumGPUBlocks
	}
	listed := map[engine.RequestID]bool{}
	for p, i := range f.present() {
		for _, r := range p.workers[i].Engine.States() {
			if listed[r.ID] { // held by its source, too
				continue
			}
			listed[r.ID] = true
			if p.Role == engine.Prefill { // the token of a prefill worker does not count
				r.Generated, r.OutputTokens = 0, f.World.Request(r.ID).OutputTokens
			}
			if two {
				r.Worker = fmt.Sprintf("%s worker %d", p.Role, i)
			}
			r.Name = f.World.Name(r.ID)
			e.Requests = append(e.Requests, r)
		}
	}
	return e
}
