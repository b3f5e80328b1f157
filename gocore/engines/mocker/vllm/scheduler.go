package vllm

import (
	"math/bits"
	"slices"

	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/internal/calendar"
	"dynosim/gocore/engines/internal/roster"
	"dynosim/gocore/engines/internal/transit"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/paged"
	"dynosim/gocore/speculation"
	"dynosim/gocore/timing"
)

// Scheduler is one simulated vLLM engine. One loop owns it; it is not safe for concurrent use.
type Scheduler struct {
	args       engineargs.Args
	role       engine.Role
	blockSize  int
	blockShift uint
	keptFree   int // blocks that requests which have not run yet must leave available
	clock      timing.Clock
	drafts     *speculation.Drafts // nil: one token for each request and pass
	trace      func(engine.CacheTrace)
	pool       *paged.Pool

	waiting    deque.Deque[*sequence]
	running    []*sequence // in admission order
	added      int         // requests so far
	admissions int         // so far
	namer      kvcache.Namer
	// headLacksBlocks tells that the request to be admitted next does not fit the pool, and will not until blocks
	// are released (see admitWaiting).
	headLacksBlocks bool
	choice          choice

	sources      transit.Sources[*sequence]
	destinations destinations

	// The pass being run.
	passes       int
	budget       int // tokens left
	preempted    bool
	prefillCount int // requests that process prompt tokens, and what they sum up to
	prefillISL   int
	prefillStart int
	leaving      []*sequence // those that finished or were preempted during emission
	out          engine.Pass
	parts        *engine.Parts // nil unless passes are to be explained
	observed     bool

	reporting     bool
	scheduledWork engine.Phases // of the last pass, if reporting

	emittingPasses int
	stall          stall
	steady         steady // the fast path

	ready        []*sequence       // scratch
	readyContext int               // tokens of all sequences in ready
	coastEnds    []float64         // scratch
	ids          []kvcache.BlockID // scratch
	drawn        []int32           // scratch
	bursts       burstCoast
	spares       roster.Spares[sequence]
}

// New returns an idle engine.
func New(args engineargs.Args, setup engine.Setup) *Scheduler {
	s := &Scheduler{
		args:       args,
		role:       setup.Role,
		blockSize:  args.BlockSize,
		blockShift: uint(bits.TrailingZeros(uint(args.BlockSize))),
		keptFree:   int(args.Watermark * float64(args.NumGPUBlocks)),
		clock:      args.Clock(setup.Model),
		drafts:     setup.Drafts,
		trace:      setup.Trace,
		parts:      engine.NewParts(setup.Explain),
		pool:       paged.New(args.NumGPUBlocks, evictionPolicies[args.Eviction], args.PrefixCaching),
		steady:     steady{off: setup.Stepwise, days: calendar.New(args.BlockSize, byPlace)},
	}
	s.steady.s, s.choice.policy = s, setup.Policy
	if s.trace != nil {
		s.pool.Record()
	}
	return s
}

var evictionPolicies = map[engineargs.EvictionBackend]paged.Policy{
	engineargs.Lineage:  paged.Lineage,
	engineargs.LRU:      paged.LRU,
	engineargs.MultiLRU: paged.MultiLRU,
}

var (
	_ engine.Coaster     = (*Scheduler)(nil)
	_ engine.Source      = (*Scheduler)(nil)
	_ engine.Destination = (*Scheduler)(nil)
)

// Observe implements [engine.Engine]. Without prefix caching there is nothing that another request could find.
func (s *Scheduler) Observe() {
	s.observed = true
	if s.args.PrefixCaching {
		s.pool.Record()
	}
}

// Add implements [engine.Engine].
func (s *Scheduler) Add(req engine.Request) {
	s.waiting.PushBack(s.newSequence(req))
	if s.choice.policy != nil { // it may rather have the new one
		s.headLacksBlocks = false
	}
}

// newSequence numbers a request and lists the blocks of its prompt.
func (s *Scheduler) newSequence(req engine.Request) *sequence {
	r := s.spares.Take()
	*r = sequence{
		id:            req.ID,
		order:         s.added,
		promptTokens:  req.PromptTokens,
		maxOutput:     s.args.Output(req.PromptTokens, req.OutputTokens),
		hold:          req.Hold,
		listed:        s.ceilBlocks(req.PromptTokens),
		full:          req.PromptTokens >> s.blockShift,
		slots:         r.slots[:0],
		share:         share{pass: -1},
		lastTokenPass: neverEmitted,
	}
	r.due.Request = r
	shareable := 0
	if s.args.PrefixCaching {
		shareable = max(r.full, req.NamedBlocks)
	}
	r.key = s.namer.Key(req.Prompt, shareable, s.ceilBlocks(req.PromptTokens+req.OutputTokens))
	s.added++
	return r
}

// Requests implements [engine.Engine].
func (s *Scheduler) Requests() int { return s.waiting.Len() + len(s.running) }

// RunPass implements [engine.Engine].
func (s *Scheduler) RunPass(nowMs float64) (pass *engine.Pass, alive bool) {
	s.bursts.drawn.Abandon(s.drafts)
	s.begin(nowMs)
	if s.stall.stuck {
		s.out.EndMs = nowMs
		s.scheduledWork = engine.Phases{}
		return &s.out, false
	}
	s.serveRunning()
	s.admitWaiting()
	if s.reporting {
		s.countScheduled()
	}
	promptMs, hostMs := s.prefillMs(), s.clock.HostMs(s.out.Scheduled)
	if s.parts != nil {
		s.parts.PromptMs, s.parts.HostMs = promptMs, hostMs
	}
	s.emit(nowMs + (promptMs + hostMs))
	if s.observed || s.trace != nil {
		s.takeEvents()
	}
	return &s.out, s.watchForStall()
}

func (s *Scheduler) begin(nowMs float64) {
	s.passes++
	s.budget = s.args.MaxNumBatchedTokens
	s.preempted, s.leaving = false, s.leaving[:0]
	s.prefillCount, s.prefillISL, s.prefillStart = 0, 0, 0
	s.out.Reset(nowMs, s.parts)
}

// prefillMs returns the prefill part of this pass. A decode worker gets its prompts from elsewhere, and computes them
// again after a preemption at no charge.
func (s *Scheduler) prefillMs() float64 {
	if s.role == engine.Decode {
		return 0
	}
	return float64(s.clock.PrefillSeconds(s.prefillCount, s.prefillISL, s.prefillStart) * 1000)
}

// takeEvents reports what happened to the pool; a block can be hit from the moment it is allocated.
func (s *Scheduler) takeEvents() {
	s.out.KVEventsAtMs = s.out.StartMs
	for _, e := range s.pool.TakeEvents() {
		if s.trace != nil {
			s.trace(engine.CacheTrace{Kind: e.Kind, Free: e.Free, Active: e.Active, Inactive: e.Inactive})
		}
		if s.observed && s.args.PrefixCaching {
			s.out.KVEvents = append(s.out.KVEvents, e.Event)
		}
	}
}

// States implements [engine.Engine].
func (s *Scheduler) States() []engine.RequestState {
	return roster.States(append(s.owned(), s.inHandoff()...), byOrder, s.state)
}

// state returns where a request stands.
func (s *Scheduler) state(r *sequence) engine.RequestState {
	state := engine.RequestState{
		ID:           r.id,
		State:        r.status.String(),
		PromptTokens: r.promptTokens,
		OutputTokens: r.maxOutput,
		Generated:    r.generated,
		BlocksNeeded: s.ceilBlocks(r.promptTokens + r.maxOutput),
	}
	if r.status != running {
		state.BlocksHeld = len(r.slots) + r.reservation.Blocks()
	}
	return state
}

// owned lists all waiting and running requests in order of arrival.
func (s *Scheduler) owned() []*sequence {
	s.steady.clear(false)
	all := roster.Append(slices.Clone(s.running), &s.waiting)
	slices.SortFunc(all, byOrder)
	return all
}

func byOrder(a, b *sequence) int { return a.order - b.order }

func byPlace(a, b *sequence) int { return a.place - b.place }
