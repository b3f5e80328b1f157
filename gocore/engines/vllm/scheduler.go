package vllm

import (
	"math/bits"

	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/internal/calendar"
	"dynosim/gocore/engines/internal/roster"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/paged"
	"dynosim/gocore/timing"
)

// Scheduler is one vLLM engine that schedules by vLLM's own rules. One loop owns it; it is not safe for concurrent use.
type Scheduler struct {
	args       engineargs.Args
	rules      engineargs.VLLMArgs
	differs    release // rules that changed between releases of vLLM
	blockSize  int
	blockShift uint
	oddBlocks  bool   // the block size is no power of two
	prefills   bool   // on a prefill worker, where decoding takes no time
	handsOff   bool   // on a prefill or decode worker
	groups     groups // KV cache groups: layers that keep their KV alike
	clock      timing.Clock
	trace      func(engine.CacheTrace)
	shapes     func(engine.Shape)
	pool       *paged.LRUPool

	waiting    deque.Deque[*sequence]
	running    []*sequence    // in admission order
	added      int            // requests so far
	admissions int            // so far
	namer      *kvcache.Namer // shared by the data-parallel ranks of a Group
	// headWaits tells that the head of the waiting queue has no room, and will not have any until a request releases
	// blocks or registers one that others can find.
	headWaits bool
	headNeeds int // with several groups, the blocks without which the head has no room
	use       groupUse
	interval  interval

	steady steady
	pulls  pulls

	composing *batch // nil between compositions
	flying    *batch // composed, and its tokens are not delivered yet; nil if there is none
	spares    roster.Spares[batch]
	composed  int // number of the batch that was composed last
	delivered int // number of the batch whose tokens were delivered last

	emittingPasses int
	out            engine.Pass
	parts          *engine.Parts // nil unless passes are to be explained
	lost           []*sequence   // preempted since the last batch that was kept, if passes are to be explained
	observed       bool
	reporting      bool
	work           engine.Phases // of the last pass, if reporting

	offload    *offload // nil without a tier of host memory
	tierEvents bool     // changes of host memory are reported to routers
	tierNames  bool     // events say which blocks of host memory keep their names

	newStates      []kvcache.BlockID // blocks of linear attention that were registered during this composition
	ids            []kvcache.BlockID // scratch
	stay           []int             // scratch
	coastEnds      []float64         // scratch
	coastAtMs      float64           // when the last coast began
	spareSequences roster.Spares[sequence]
}

// New returns an idle engine.
func New(args engineargs.Args, setup engine.Setup) *Scheduler {
	s := &Scheduler{
		args:       args,
		rules:      args.VLLM,
		differs:    releases[args.VLLM.Release],
		interval:   interval{passes: args.VLLM.PrefillInterval, last: -args.VLLM.PrefillInterval},
		blockSize:  args.BlockSize,
		blockShift: uint(bits.TrailingZeros(uint(args.BlockSize))),
		oddBlocks:  bits.OnesCount(uint(args.BlockSize)) != 1,
		groups:     newGroups(args),
		clock:      args.Clock(setup.Model),
		trace:      setup.Trace,
		shapes:     setup.Shapes,
		parts:      engine.NewParts(setup.Explain),
		prefills:   setup.Role == engine.Prefill,
		handsOff:   setup.Role != engine.Aggregated,
		pool:       paged.NewLRU(args.NumGPUBlocks),
		namer:      &kvcache.Namer{},
		steady:     steady{off: setup.Stepwise, days: calendar.New(1<<bits.Len(uint(args.BlockSize-1)), byPlace)},
	}
	s.steady.s = s
	if setup.Role == engine.Decode {
		s.pulls.loads = map[engine.RequestID]*sequence{}
	}
	if args.HostCache.Blocks > 0 {
		s.offload = newOffload(s, setup.Commons, setup.Place)
		s.tierEvents, s.tierNames = setup.LowerTiers, setup.Names
	}
	if s.trace != nil {
		s.pool.Record()
	}
	return s
}

func byPlace(a, b *sequence) int { return a.place - b.place }

var _ engine.Coaster = (*Scheduler)(nil)

// Observe implements [engine.Engine]. Without prefix caching there is nothing that another request could find.
func (s *Scheduler) Observe() {
	s.observed = true
	if s.args.PrefixCaching {
		s.pool.Record()
	}
	if s.tierEvents || s.tierNames {
		s.offload.announce(s.tierEvents, s.tierNames)
	}
}

// Add implements [engine.Engine].
func (s *Scheduler) Add(req engine.Request) {
	s.pulls.awake = true
	r := s.newSequence(req)
	s.waiting.PushBack(r)
	if s.offload != nil {
		s.offload.come(r)
	}
}

// Requests implements [engine.Engine].
func (s *Scheduler) Requests() int {
	waiting := s.waiting.Len() + len(s.pulls.held)
	if s.offload != nil {
		waiting += len(s.offload.holding)
	}
	return waiting + len(s.running)
}

// RunPass implements [engine.Engine].
//
// Without asynchronous scheduling a pass is composed when it starts. With it, the pass that starts now was composed
// when the one before it started, and the next one is composed now, before the tokens of this one are known:
//
//	composed     1 2     3       4               a request that arrives during pass 1 joins pass 3 at the earliest
//	runs         |---1---|---2---|---3---|
func (s *Scheduler) RunPass(nowMs float64) (pass *engine.Pass, alive bool) {
	s.begin(nowMs)
	s.catchUp(nowMs)
	b := s.next()
	var ahead *batch
	if s.rules.Async && !(b.empty() && s.handsOff) {
		s.flying = b
		ahead = s.compose()
	}
	if s.offload != nil && !b.empty() {
		s.offload.notice(b.startMs)
	}
	s.deliver(b)
	s.land(b)
	if s.offload != nil {
		s.offload.tell(&s.out)
	}
	if ahead != nil && ahead.empty() {
		s.setAside(ahead)
		s.discard(ahead, s.out.EndMs)
		ahead = nil
	}
	s.spares.Put(b)
	s.flying = ahead
	if s.observed || s.trace != nil {
		s.takeEvents()
	}
	return &s.out, true
}

func (s *Scheduler) begin(nowMs float64) {
	s.out.Reset(nowMs, s.parts)
}

// catchUp brings the tiers below the pool up to the start of a pass.
func (s *Scheduler) catchUp(nowMs float64) {
	if s.offload != nil {
		s.offload.tellEarlier()
		s.offload.catchUp(nowMs)
		s.offload.advanceStorage(nowMs)
	}
}

// next returns the pass that starts now. One in which the only running request had to preempt itself, or that notices
// the end of a transfer while nothing can run, is empty and takes no time; the next one follows at the same instant.
func (s *Scheduler) next() *batch {
	if b := s.flying; b != nil {
		return b
	}
	for {
		b := s.compose()
		if b.empty() && s.offload != nil {
			if !s.offload.again(b) {
				return b
			}
			s.discard(b, s.out.StartMs)
			continue
		}
		trail, some := s.applyLate()
		if !b.empty() {
			return b
		}
		if s.pulls.awake = s.again(b, trail, some); !s.pulls.awake || len(s.out.Loads) > 0 {
			return b // other workers hear first of what it has asked for
		}
		s.discard(b, s.out.StartMs)
	}
}

// discard gives up an empty batch, which takes no time.
func (s *Scheduler) discard(b *batch, atMs float64) {
	if b.preempted > 0 && s.shapes != nil {
		s.shapes(engine.Shape{StartMs: atMs, EndMs: atMs, InUse: b.durations.inUse, PreemptedRequests: b.preempted})
	}
	s.spares.Put(b)
}

// takeEvents reports what happened to the pool; a block can be hit from the moment it is registered.
func (s *Scheduler) takeEvents() {
	s.out.KVEventsAtMs = s.out.StartMs
	if s.observed && s.offload != nil {
		s.out.KVEvents = append(s.out.KVEvents, s.offload.takeEvents()...)
	}
	for _, e := range s.pool.TakeEvents() {
		if s.trace != nil {
			s.trace(engine.CacheTrace{Kind: e.Kind, Free: e.Free, Active: e.Active, Inactive: e.Inactive})
		}
		if s.observed && s.args.PrefixCaching {
			s.out.KVEvents = append(s.out.KVEvents, e.Event)
		}
	}
}

// Unblock implements [engine.Engine]. A request that fits the empty pool never waits in vain.
func (s *Scheduler) Unblock() bool { return false }
