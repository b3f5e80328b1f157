package sglang

import (
	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/internal/roster"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/radix"
	"dynosim/gocore/timing"
)

// Scheduler is one SGLang engine that schedules by SGLang's own rules. One loop owns it; it is not safe for concurrent
// use.
type Scheduler struct {
	args     engineargs.Args
	rules    engineargs.SGLangArgs
	pageSize int
	clock    timing.Clock
	shapes   func(engine.Shape)
	stepwise bool
	pool     *radix.LeasePool
	ratio    newTokenRatio

	// unread are requests for which the scheduler has not looked yet.
	unread   deque.Deque[*sequence]
	receiver receiver

	waiting deque.Deque[*sequence]
	running []*sequence // that decode, in batch order
	// prefilled are the requests whose prompt the last batch completes; the next round lets them run.
	prefilled []*sequence
	mixed     bool      // requests that run decode in the last batch, which is a prefill
	chunked   *sequence // of whose prompt a part is computed; nil if there is none
	rows      int       // requests that were admitted and have not ended or been retracted since
	over      int       // requests that have ended, of those in running and prefilled
	// full tells that nothing is admitted until a request leaves the running ones.
	full     bool
	attempts int // to admit requests from a queue in order of arrival
	lpm      lpm

	flying    *batch // composed, and its tokens are not delivered yet; nil if there is none
	spares    roster.Spares[batch]
	roll      roll
	composed  int     // the decodes so far; batches that decode are numbered from 1
	delivered int     // the number of the last one whose tokens were delivered
	going     int     // requests that got a token from it, and not their last one
	lastEndMs float64 // of the last pass

	// Of a rank of a Group: whether requests of any rank decode in the pass that is delivered, and whether they have
	// since a decode of this one was delivered. Its requests have left the emitting set then.
	emits, lapsed bool

	sends sends

	added    int            // requests so far
	namer    *kvcache.Namer // shared by the ranks of a Group
	rejected []engine.Rejection
	out      engine.Pass
	parts    *engine.Parts // nil unless passes are to be explained
	observed bool

	lacks engine.Lack     // of the round, with windows
	waits engine.GroupUse // only the times

	prefetches *prefetches   // nil without storage behind a host tier
	lowerTiers bool          // events are for routers that know tiers
	copied     radix.HostUse // as of the last pass
	missed     int           // pages of the host that requests of this pass compute
	found      int           // tokens that requests admitted first in this pass found on the host
	reporting  bool
	work       engine.Phases // of the last pass, if reporting

	coast          coast
	charges        []int // scratch of budget
	spareSequences roster.Spares[sequence]
}

// New returns an idle engine.
func New(args engineargs.Args, setup engine.Setup) *Scheduler {
	s := &Scheduler{
		args:     args,
		rules:    args.SGLang,
		pageSize: args.BlockSize,
		clock:    args.Clock(setup.Model),
		shapes:   setup.Shapes,
		stepwise: setup.Stepwise || args.SGLang.Window.Blocks > 0, // windows move with each token
		parts:    engine.NewParts(setup.Explain),
		pool:     newPool(args),
		receiver: receiver{interval: args.SGLang.RecvInterval},
		ratio:    newRatio(args.SGLang.Conservativeness),
		roll:     newRoll(args.BlockSize),
		namer:    &kvcache.Namer{},
		lpm:      lpm{seenBeginnings: make(map[kvcache.BlockID]struct{})},
		sends:    newSends(setup.Role, args.MaxNumSeqs),
	}
	s.pool.TellTiers(setup.LowerTiers, setup.Names)
	s.lowerTiers = setup.LowerTiers
	if args.HostCache.Storage.Blocks > 0 {
		s.addStorage(setup.Commons)
	}
	if s.pool.Tiered() && s.parts != nil {
		s.pool.TellCopies(func(back bool, startMs, endMs float64, pages int) {
			s.parts.Copy(engine.Copy{Back: back, StartMs: startMs, EndMs: endMs, Blocks: pages})
		})
	}
	return s
}

// newPool returns an empty cache, with the host tier below it if there is one.
func newPool(args engineargs.Args) *radix.LeasePool {
	pool := radix.NewLeases(args.NumGPUBlocks*args.BlockSize, args.BlockSize)
	if t := args.HostCache; t.Blocks > 0 {
		pool.AddHost(radix.HostTier{
			Pages: t.Blocks, Policy: radix.WritePolicy(t.WritePolicy), LoadFrom: t.LoadBackThreshold,
			StoreMs: t.StoreMsPerBlock, LoadMs: t.LoadMsPerBlock, LatencyMs: t.LatencyMs,
		})
	}
	if w := args.SGLang.Window; w.Blocks > 0 {
		pool.AddWindow(radix.Window{Pages: w.Blocks, Tokens: w.Tokens})
	}
	return pool
}

var (
	_ engine.Coaster   = (*Scheduler)(nil)
	_ engine.Abandoner = (*Scheduler)(nil)
)

// Observe implements [engine.Engine].
func (s *Scheduler) Observe() {
	s.observed = true
	s.pool.Record()
	if s.prefetches != nil && s.lowerTiers {
		s.prefetches.client.Record()
	}
}

// Add implements [engine.Engine].
func (s *Scheduler) Add(req engine.Request) {
	s.sends.awake = true
	if reason := s.cannotEverRun(req); reason != "" {
		s.rejected = append(s.rejected, engine.Rejection{ID: req.ID, Reason: reason})
		return
	}
	if s.receiver.interval > 1 {
		s.unread.PushBack(s.newSequence(req))
		return
	}
	if s.sends.on {
		s.sends.paired = append(s.sends.paired, s.newSequence(req))
		return
	}
	s.queue(s.newSequence(req))
}

// queue puts a request that has just come at the end of the waiting queue.
func (s *Scheduler) queue(r *sequence) {
	s.waiting.PushBack(r)
	if s.prefetches != nil {
		s.prefetches.unseen = append(s.prefetches.unseen, r)
	}
}

// Requests implements [engine.Engine].
func (s *Scheduler) Requests() int {
	return s.unread.Len() + len(s.sends.paired) + s.waiting.Len() + s.rows + len(s.rejected)
}

// RunPass implements [engine.Engine].
//
// Without overlap scheduling a batch is composed when it starts. With it, the batch that starts now was composed when
// the one before it started, and the next one is composed now, before the tokens of this one are known:
//
//	composed     1 2     3       4               a request that arrives during batch 1 joins batch 3 at the earliest
//	runs         |---1---|---2---|---3---|
func (s *Scheduler) RunPass(nowMs float64) (pass *engine.Pass, alive bool) {
	s.begin(nowMs)
	if s.pool.Tiered() {
		if s.rules.Overlap && s.pool.Clock() > nowMs {
			return s.stand(), true
		}
		s.pool.Tell(nowMs)
	}
	if s.prefetches != nil {
		s.prefetches.client.Advance(nowMs)
	}
	s.letGo()
	b := s.flying
	if b == nil {
		b = s.compose()
		if s.pool.Tiered() && s.rules.Overlap && !b.empty() && s.pool.Clock() > nowMs {
			s.flying = b
			return s.stand(), true
		}
	}
	var ahead *batch
	if s.rules.Overlap && !b.empty() {
		s.flying = b
		ahead = s.compose()
	}
	s.deliver(b)
	s.awaitCopy(b)
	if s.pool.Windowed() && b.empty() && s.flying == nil {
		s.giveUp(b)
	}
	s.spares.Put(b)
	if ahead != nil && ahead.empty() {
		s.spares.Put(ahead)
		ahead = nil
	}
	s.flying = ahead
	if s.observed {
		s.out.KVEvents, s.out.KVEventsAtMs = s.pool.TakeEvents(), s.out.EndMs
	}
	if s.pool.Tiered() {
		s.out.Copied = s.takeCopied()
	}
	if s.prefetches != nil {
		s.tellStorage()
	}
	s.lastEndMs = s.out.EndMs
	s.sends.awake = !b.empty() || s.flying != nil
	return &s.out, !s.out.Idle() || s.Requests() == 0
}

// stand ends a pass in which the scheduler only stands still for copies to the host.
func (s *Scheduler) stand() *engine.Pass {
	s.out.EndMs = s.pool.Clock()
	s.lastEndMs = s.out.EndMs
	s.explainWait()
	return &s.out
}

// awaitCopy makes a pass without a batch last until the next copy ends, if requests wait: what it locks may be the room
// they need.
func (s *Scheduler) awaitCopy(b *batch) {
	if !s.pool.Tiered() || !b.empty() || s.waiting.Len() == 0 && !b.stuck {
		return
	}
	end, ok := s.pool.NextEnd()
	if fetchedMs, any := s.nextFetched(); any && (!ok || fetchedMs < end) {
		end, ok = fetchedMs, true
	}
	if ok {
		s.out.Waits, s.out.WaitsFromMs, s.out.EndMs = true, s.pool.Clock(), end
		s.explainWait()
	}
}

// takeCopied returns what has been copied since the last call.
func (s *Scheduler) takeCopied() engine.Copied {
	now := s.pool.HostUse()
	was := s.copied
	copied := engine.Copied{
		Stored: now.Stored - was.Stored, Loaded: now.Loaded - was.Loaded, Evicted: now.Evicted - was.Evicted,
		StoreMs: now.StoreMs - was.StoreMs, LoadMs: now.LoadMs - was.LoadMs, HeldMs: now.HeldMs - was.HeldMs,
		Missed: s.missed, Found: s.found,
	}
	s.copied, s.missed, s.found = now, 0, 0
	if s.prefetches != nil {
		copied.Storage = s.prefetches.client.TakeUse()
	}
	return copied
}

// Abandon implements [engine.Abandoner]: the host is gone, and so is what was on its way to storage behind it.
func (s *Scheduler) Abandon(nowMs float64) engine.Copied {
	if !s.pool.Tiered() {
		return engine.Copied{}
	}
	if s.prefetches != nil {
		s.prefetches.client.Leave(nowMs)
	}
	copied := s.takeCopied()
	use := s.pool.HostUse()
	copied.Lost = use.Stored + use.Fetched - use.Evicted
	return copied
}

// begin starts a pass. If there was nothing to do for a while, the new-token ratio starts anew.
func (s *Scheduler) begin(nowMs float64) {
	if s.rows == 0 && nowMs > s.lastEndMs {
		s.ratio.value = s.ratio.initial
	}
	s.out.Reset(nowMs, s.parts)
	s.out.Rejected = append(s.out.Rejected, s.rejected...)
	s.rejected = s.rejected[:0]
}

// Unblock implements [engine.Engine]. A request that fits the empty pool never waits in vain.
func (s *Scheduler) Unblock() bool { return false }
