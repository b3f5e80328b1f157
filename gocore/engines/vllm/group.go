package vllm

import (
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/internal/lockstep"
	"dynosim/gocore/kvcache"
)

// Group is a vLLM engine with data-parallel ranks (dp_size), each with a scheduler, a pool and a cache of its own. The
// expert layers of a mixture-of-experts model exchange tokens between all ranks, so all of them run every pass
// together, and it takes as long as the part of the slowest:
//
//	rank 0   |--prompt--------|-decode-..|-decode-|
//	rank 1   |-decode-........|-decode---|........|      dots: the rank waits
//	         0                1          2        3      common passes
//
// With a tier of host memory (host_cache) each rank has one of its own. A rank that has to wait for a copy begins its
// part later.
//
// A request that arrives during a pass waits outside of its rank for the next common start. When no rank has a request
// left at the end of a pass, a wave of passes ends; the next request starts another one.
type Group struct {
	args    engineargs.Args
	ranks   []rank
	balance *balancer // nil if requests go to the ranks in turn
	sent    int       // requests so far that went in turn

	number    passNumber // of the next pass, or of the one in flight
	inFlight  bool       // asynchronous: the next pass has been composed
	delivered bool       // the results of the last pass have been reported
	endMs     float64    // of the last pass

	lost engine.Lockstep

	out     engine.Pass
	parts   *engine.Parts
	holders lockstep.Holders // nil unless observed as one worker
	coasts  []coast          // scratch
	coasted lockstep.Rounds  // of the last Coast
	events  lockstep.Events
}

// rank is one rank and what has not reached its scheduler yet.
type rank struct {
	*Scheduler
	inbox    []engine.Request
	reported load    // as reported last; its blocks do not count
	finished int     // requests that end with the pass in flight
	atEnd    load    // when the pass in flight has ended
	batch    *batch  // of the pass in flight
	startMs  float64 // when its part of that pass starts
}

// load is what a rank has to do.
type load struct{ waiting, running, blocks int }

func (r *rank) load() load {
	waiting, running, blocks := r.Load()
	return load{waiting, running, blocks}
}

// NewGroup returns idle ranks.
func NewGroup(args engineargs.Args, setup engine.Setup) *Group {
	g := &Group{args: args, delivered: true, parts: engine.NewParts(setup.Explain), ranks: make([]rank, args.Ranks)}
	names := &kvcache.Namer{}
	for i := range g.ranks {
		s := New(args, setup.OfRank(i))
		s.namer = names
		s.interval.inWaves = true
		g.ranks[i] = rank{Scheduler: s}
	}
	if !args.VLLM.RoundRobin {
		g.balance = newBalancer(len(g.ranks))
	}
	return g
}

var (
	_ engine.CoastReporter = (*Group)(nil)
	_ engine.Ranked        = (*Group)(nil)
)

// Add implements [engine.Engine].
func (g *Group) Add(req engine.Request) {
	to := req.OnRank - 1
	if to < 0 {
		to = g.ChooseRank(req.SentMs)
	}
	g.deliver(req.SentMs)
	if g.balance != nil {
		g.balance.open[to]++
	}
	g.ranks[to].inbox = append(g.ranks[to].inbox, req)
}

// ChooseRank implements [engine.Ranked]. The rank is chosen by what the front end knew when the request reached the
// worker.
func (g *Group) ChooseRank(nowMs float64) int {
	g.deliver(nowMs)
	if g.balance != nil {
		return g.balance.choose(nowMs)
	}
	g.sent++
	return (g.sent - 1) % len(g.ranks)
}

// RunPass implements [engine.Engine].
func (g *Group) RunPass(nowMs float64) (pass *engine.Pass, alive bool) {
	g.passEnded(nowMs)
	g.begin(nowMs)
	if g.Requests() == 0 && !g.endsPending() {
		return &g.out, true
	}
	for i := range g.ranks {
		r := &g.ranks[i]
		for _, req := range r.inbox {
			r.Scheduler.Add(req)
		}
		r.inbox = r.inbox[:0]
	}
	served := g.next(nowMs)
	if served && g.args.VLLM.Async {
		g.composeAhead(nowMs)
	}
	if served {
		g.noticeCopies()
	}
	g.run()
	g.merge()
	g.delivered = false
	return &g.out, true
}

func (g *Group) begin(nowMs float64) {
	g.out.Reset(nowMs, g.parts)
	g.out.EndMs = nowMs
	for i := range g.ranks {
		g.ranks[i].begin(nowMs)
		g.ranks[i].catchUp(nowMs)
	}
}

// next sets the batch of each rank for the pass that starts now, and reports whether it serves any request. A pass in
// which requests are only preempted, or ends of transfers noticed, takes no time; the next one follows at the same
// instant.
func (g *Group) next(nowMs float64) (served bool) {
	if g.inFlight {
		for i := range g.ranks {
			g.ranks[i].batch = g.ranks[i].flying
		}
		return true
	}
	for {
		g.report(nowMs)
		for i := range g.ranks {
			r := &g.ranks[i]
			r.batch = r.composeIn(g.number.pass)
			served = served || !r.batch.empty()
		}
		trail, some := g.applyLate()
		if served {
			break
		}
		again := g.looksAgain(trail, some)
		if !again {
			g.sleep()
		}
		if !again || g.asks() { // other workers hear first of what it has asked for
			return false
		}
		for i := range g.ranks {
			g.ranks[i].discard(g.ranks[i].batch, nowMs)
		}
		g.report(nowMs)
		g.number.pass++
	}
	if g.args.VLLM.Async { // this step has no results to wait for
		g.report(nowMs)
		g.number.pass++
	}
	return true
}

// composeAhead composes the pass after the one that starts now.
func (g *Group) composeAhead(nowMs float64) {
	g.report(nowMs)
	g.inFlight = false
	for i := range g.ranks {
		r := &g.ranks[i]
		r.flying = r.batch
		ahead := r.composeIn(g.number.pass)
		r.flying = ahead
		g.inFlight = g.inFlight || !ahead.empty()
	}
}

// run carries out the batches of all ranks. Their tokens come when the slowest is done.
func (g *Group) run() {
	g.shareExperts()
	emits := slices.ContainsFunc(g.ranks, func(r rank) bool { return r.batch.tokens() > 0 })
	for i := range g.ranks {
		r := &g.ranks[i]
		ahead := r.flying
		r.flying = r.batch
		r.startMs = r.startOf(r.batch)
		r.deliver(r.batch)
		r.land(r.batch)
		if r.offload != nil {
			r.offload.tell(&r.out)
		}
		if emits && r.batch.tokens() == 0 {
			r.emittingPasses++ // requests that emit again later begin another run of tokens
		}
		r.spares.Put(r.batch)
		r.batch, r.flying = nil, nil
		if g.inFlight {
			r.flying = ahead
		} else if ahead != nil {
			r.setAside(ahead)
			r.discard(ahead, r.out.EndMs)
		}
		r.finished, r.atEnd = len(r.out.Finished), r.load()
		if r.observed {
			r.takeEvents()
		}
	}
}

// merge puts together what the ranks did.
func (g *Group) merge() {
	slowest := 0
	for i := range g.ranks {
		p := &g.ranks[i].out
		if endMs := g.ranks[i].busyUntil(); endMs > g.out.EndMs {
			g.out.EndMs, slowest = endMs, i
		}
		lockstep.Merge(&g.out, i, p)
		g.events.Add(g.holders, i, p.KVEvents)
	}
	g.out.KVEventsAtMs = g.out.StartMs
	g.out.KVEvents = g.events.Take(g.out.KVEvents)
	g.endMs = g.out.EndMs
	g.endCopies()
	if !g.out.Waits {
		g.lost.PassMs += float64(len(g.ranks)) * (g.out.EndMs - g.out.StartMs)
		for i := range g.ranks {
			g.lost.WaitMs += g.out.EndMs - g.ranks[i].busyUntil()
		}
	}
	if g.parts == nil {
		return
	}
	for i := range g.ranks {
		lockstep.MergeParts(g.parts, i, g.ranks[i].parts, i == slowest)
	}
}

// busyUntil returns when a rank is done with its part of the pass. That of one without requests takes no time.
func (r *rank) busyUntil() float64 {
	if r.out.Scheduled == 0 {
		return r.startMs
	}
	return r.out.EndMs
}

// Lockstep implements [engine.LockstepReporter].
func (g *Group) Lockstep() engine.Lockstep { return g.lost }

// passEnded delivers the results of the last pass, as another one follows. A shell may have ended it earlier than
// announced.
func (g *Group) passEnded(nowMs float64) {
	g.endMs = min(g.endMs, nowMs)
	g.deliver(nowMs)
}

// deliver passes the results of a pass that has ended by now to the front end.
func (g *Group) deliver(nowMs float64) {
	if g.delivered || nowMs < g.endMs {
		return
	}
	g.delivered = true
	if g.balance != nil {
		for i := range g.ranks {
			g.balance.open[i] -= g.ranks[i].finished
		}
	}
	for i := range g.ranks {
		g.tell(i, g.ranks[i].atEnd, g.endMs)
	}
	g.number.pass++
	if !g.inFlight && g.Requests() == 0 {
		g.number = passNumber{wave: g.number.wave + 1}
	}
}

// report makes the ranks report whose queues have changed.
func (g *Group) report(nowMs float64) {
	for i := range g.ranks {
		g.tell(i, g.ranks[i].load(), nowMs)
	}
}

// tell reports the load of a rank, if its queues have changed since the last report.
func (g *Group) tell(i int, now load, atMs float64) {
	r := &g.ranks[i]
	if g.balance == nil || now.waiting == r.reported.waiting && now.running == r.reported.running {
		return
	}
	r.reported = now
	capacity := r.pool.Capacity()
	usage := 1 - float64(capacity-now.blocks)/float64(capacity) // vLLM's sum: ties of scores depend on its rounding
	g.balance.report(i, rankCounts{now.waiting, now.running, usage}, g.number, atMs)
}

// Coast implements [engine.Coaster]. It takes ranks of which each has nothing to do or merely decodes, and whose parts
// of a pass do not depend on those of the others.
func (g *Group) Coast(nowMs, untilMs float64) []float64 {
	if g.args.VLLM.Async && !g.inFlight || g.ranks[0].clock.KnowsExperts() {
		return nil
	}
	g.coasts = g.coasts[:0]
	for i := range g.ranks {
		r := &g.ranks[i]
		if len(r.inbox) > 0 {
			return nil
		}
		if r.idles() {
			continue
		}
		if !r.merelyDecodes() || g.args.VLLM.PrefillInterval > 1 && r.waiting.Len() > 0 {
			return nil
		}
		g.coasts = append(g.coasts, r.newCoast())
	}
	if len(g.coasts) == 0 {
		return nil
	}
	g.passEnded(nowMs)
	g.coasted.Begin(nowMs)
	for atMs := nowMs; atMs < untilMs; {
		endMs, busyMs, hostMs := atMs, 0.0, 0.0
		for i := range g.coasts {
			c := &g.coasts[i]
			if !c.composeNext() {
				return g.coasted.EndsMs
			}
			if ms := atMs + c.passMs; ms > endMs {
				endMs, hostMs = ms, c.hostMs
			}
			busyMs += c.passMs
		}
		if endMs <= atMs || !g.coasted.Add(len(g.ranks), atMs, endMs, busyMs, hostMs) {
			break
		}
		atMs = endMs
	}
	return g.coasted.EndsMs
}

// Settle implements [engine.Coaster].
func (g *Group) Settle(passes int) {
	if passes == 0 {
		return
	}
	g.number.pass += passes
	g.coasted.Settle(passes, len(g.ranks), &g.lost)
	for i := range g.ranks {
		r := &g.ranks[i]
		if r.steady.size > 0 {
			r.Settle(passes)
		} else {
			r.emittingPasses += passes
		}
	}
}

// Cancel implements [engine.Engine].
func (g *Group) Cancel(id engine.RequestID) {
	for i := range g.ranks {
		r := &g.ranks[i]
		before := len(r.inbox) + r.Scheduler.Requests()
		r.inbox = slices.DeleteFunc(r.inbox, func(q engine.Request) bool { return q.ID == id })
		r.Scheduler.Cancel(id)
		if g.balance != nil && len(r.inbox)+r.Scheduler.Requests() < before {
			g.balance.open[i]--
		}
	}
}

// Unblock implements [engine.Engine].
func (g *Group) Unblock() bool { return false }

// Requests implements [engine.Engine].
func (g *Group) Requests() int {
	all := 0
	for i := range g.ranks {
		all += len(g.ranks[i].inbox) + g.ranks[i].Scheduler.Requests()
	}
	return all
}

// States implements [engine.Engine]: rank after rank.
func (g *Group) States() []engine.RequestState {
	var all []engine.RequestState
	for i := range g.ranks {
		r := &g.ranks[i]
		all = append(all, r.Scheduler.States()...)
		for _, q := range r.inbox {
			all = append(all, engine.RequestState{
				ID: q.ID, State: waiting.String(), PromptTokens: q.PromptTokens, OutputTokens: q.OutputTokens,
				BlocksNeeded: r.ceilBlocks(q.PromptTokens + q.OutputTokens),
			})
		}
	}
	return all
}

// Observe implements [engine.Engine].
func (g *Group) Observe() {
	g.holders = lockstep.NewHolders()
	g.ObserveRanks()
}

// ObserveRanks implements [engine.Ranked].
func (g *Group) ObserveRanks() {
	for i := range g.ranks {
		g.ranks[i].Observe()
	}
}

// ReportWork implements [engine.Reporter].
func (g *Group) ReportWork() {
	for i := range g.ranks {
		g.ranks[i].ReportWork()
	}
}

// Work implements [engine.Reporter]: the sum of all ranks.
func (g *Group) Work() engine.Work {
	var all engine.Work
	for i := range g.ranks {
		w := g.ranks[i].Work()
		all.Scheduled.Merge(w.Scheduled)
		all.Queued.Merge(w.Queued)
	}
	return all
}

// CoastWork implements [engine.CoastReporter].
func (g *Group) CoastWork() engine.Phases {
	var all engine.Phases
	for i := range g.ranks {
		all.Merge(g.ranks[i].CoastWork())
	}
	return all
}

// CoastHostMs implements [engine.CoastExplainer]: the host time of the slowest rank.
func (g *Group) CoastHostMs() float64 { return g.coasted.HostMs }

// Load implements [engine.Reporter]: the sum of all ranks.
func (g *Group) Load() (waiting, running, activeBlocks int) {
	for i := range g.ranks {
		w, r, b := g.RankLoad(i)
		waiting, running, activeBlocks = waiting+w, running+r, activeBlocks+b
	}
	return waiting, running, activeBlocks
}

// RankLoad implements [engine.Ranked].
func (g *Group) RankLoad(rank int) (waiting, running, activeBlocks int) {
	r := &g.ranks[rank]
	waiting, running, activeBlocks = r.Load()
	return waiting + len(r.inbox), running, activeBlocks
}

// RankWork implements [engine.Ranked].
func (g *Group) RankWork(rank int) engine.Work { return g.ranks[rank].Work() }

// RankPass implements [engine.Ranked].
func (g *Group) RankPass(rank int) *engine.Pass { return &g.ranks[rank].out }

// composeIn composes the pass of this number in its wave.
func (r *rank) composeIn(number int) *batch {
	r.interval.number = number
	return r.compose()
}
