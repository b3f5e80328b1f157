package sglang

import (
	"slices"

	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/internal/roster"
	"dynosim/gocore/engines/internal/transit"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/radix"
	"dynosim/gocore/speculation"
	"dynosim/gocore/timing"
)

// Scheduler is one simulated SGLang engine. One loop owns it; it is not safe for concurrent use.
type Scheduler struct {
	args     engineargs.Args
	role     engine.Role
	pageSize int
	clock    timing.Clock
	drafts   *speculation.Drafts // nil: one token for each request and pass
	stepwise bool                // bring every request up to date after each pass
	pool     *radix.Pool
	ratio    newTokenRatio

	waiting    deque.Deque[*sequence]
	running    []*sequence // in admission order
	load       load        // of running
	named      int         // of running, those with named output pages
	joined     int         // the first of running that have emitted since they were admitted
	nextFinish int         // no running request finishes in an earlier emitting pass
	emissions  int         // passes that emitted tokens, so far
	added      int         // requests so far
	admissions int         // so far
	uses       uint64      // of the pool since the last emitting pass, see now
	namer      kvcache.Namer
	lpm        lpm
	rescue     rescue

	sources      transit.Sources[*sequence]
	destinations destinations

	// The pass being run.
	prefillCount, prefillEnds, prefillStarts int
	retracted                                []*sequence
	reporting                                bool
	scheduledWork                            engine.Phases // if reporting
	out                                      engine.Pass
	parts                                    *engine.Parts // nil unless passes are to be explained
	observed                                 bool

	coastEnds []float64 // scratch
	bursts    burstCoast
	drawn     []int32 // scratch
	spares    roster.Spares[sequence]
}

// New returns an idle engine.
func New(args engineargs.Args, setup engine.Setup) *Scheduler {
	return &Scheduler{
		args:     args,
		role:     setup.Role,
		pageSize: args.BlockSize,
		clock:    args.Clock(setup.Model),
		drafts:   setup.Drafts,
		stepwise: setup.Stepwise,
		parts:    engine.NewParts(setup.Explain),
		pool:     radix.New(args.NumGPUBlocks*args.BlockSize, args.BlockSize, args.SGLang.ReferenceQuirks),
		ratio:    newRatio(args.SGLang.Conservativeness),
		load:     newLoad(args.BlockSize, setup.Drafts != nil),
		lpm:      lpm{demoters: make(map[kvcache.BlockID]struct{})},
	}
}

var (
	_ engine.Source      = (*Scheduler)(nil)
	_ engine.Destination = (*Scheduler)(nil)
)

// Observe implements [engine.Engine]. It must be called before the first request.
func (s *Scheduler) Observe() {
	s.observed = true
	s.pool.Record()
}

// Add implements [engine.Engine].
func (s *Scheduler) Add(req engine.Request) {
	s.waiting.PushBack(s.newSequence(req))
	s.lpm.sorted = false
}

// newSequence numbers a request and names the pages that only it will have.
func (s *Scheduler) newSequence(req engine.Request) *sequence {
	r := s.spares.Take()
	shareable := max(req.PromptTokens/s.pageSize, req.NamedBlocks)
	*r = sequence{
		id:           req.ID,
		order:        s.added,
		promptTokens: req.PromptTokens,
		maxOutput:    s.args.Output(req.PromptTokens, req.OutputTokens),
		hold:         req.Hold,
		named:        shareable > req.PromptTokens/s.pageSize,
		holding: radix.Holding{Key: s.namer.Key(req.Prompt, shareable,
			ceilDiv(req.PromptTokens+req.OutputTokens, s.pageSize))},
	}
	s.added++
	return r
}

// Requests implements [engine.Engine].
func (s *Scheduler) Requests() int {
	return s.waiting.Len() + s.destinations.prebuilt.Len() + len(s.running)
}

// Load returns how many requests wait and run, and how many blocks are in use: those of the cache count, even if no
// request needs them, and so do the unused slots of the running requests' last blocks. Requests of a decode worker wait
// from the moment room is asked for.
func (s *Scheduler) Load() (waiting, running, activeBlocks int) {
	d := &s.destinations
	waiting = s.waiting.Len() + d.prebuilt.Len() + d.Pending() + d.Reserved()
	used := s.pool.Total() - s.pool.Free() + s.load.overhead() + d.overhead(s.pageSize)
	return waiting, len(s.running), ceilDiv(used, s.pageSize)
}

// RunPass implements [engine.Engine]. If one pass has no effect, the next one will have none either: while the ratio
// alone can still help, passes without effect are repeated here.
func (s *Scheduler) RunPass(nowMs float64) (pass *engine.Pass, alive bool) {
	s.bursts.drawn.Abandon(s.drafts)
	s.pass(nowMs)
	for s.out.Idle() && s.ratioMayHelp() {
		s.pass(nowMs)
	}
	return &s.out, !s.out.Idle()
}

// ratioMayHelp reports whether a request may be admitted when the ratio has fallen: next to a request that has no room
// for the largest burst, there can be some for another.
func (s *Scheduler) ratioMayHelp() bool {
	return s.drafts != nil && !s.rescue.active && len(s.running) > 0 && s.waiting.Len() > 0 &&
		s.ratio.value > s.ratio.lowest
}

func (s *Scheduler) pass(nowMs float64) {
	s.begin(nowMs)
	s.promote()
	s.orderQueue()
	s.admitWaiting()
	if s.reporting {
		s.countRunning()
	}
	promptMs := s.prefillMs()
	s.out.EndMs = nowMs + promptMs
	s.decode()
	hostMs := s.clock.HostMs(s.out.Scheduled)
	s.out.EndMs += hostMs
	if s.parts != nil {
		s.parts.PromptMs, s.parts.HostMs = promptMs, hostMs
	}
	s.requeueRetracted()
	if s.stepwise {
		s.catchUpAll()
	}
	if s.observed {
		s.out.KVEvents, s.out.KVEventsAtMs = s.pool.TakeEvents(), s.out.EndMs
	}
}

func (s *Scheduler) begin(nowMs float64) {
	s.prefillCount, s.prefillEnds, s.prefillStarts = 0, 0, 0
	s.scheduledWork = engine.Phases{}
	s.out.Reset(nowMs, s.parts)
}

// prefillMs returns the prefill part of this pass. A decode worker gets its prompts from elsewhere, and computes them
// again after a retraction at no charge.
func (s *Scheduler) prefillMs() float64 {
	if s.role == engine.Decode {
		return 0
	}
	return float64(s.clock.PrefillSeconds(s.prefillCount, s.prefillEnds, s.prefillStarts) * 1000)
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
		Generated:    s.generated(r),
		BlocksNeeded: ceilDiv(r.promptTokens+r.maxOutput, s.pageSize),
	}
	if r.status != running {
		state.BlocksHeld = ceilDiv(r.holding.Tokens(), s.pageSize)
	}
	return state
}

// owned lists all requests that wait for a pass or run, in order of arrival.
func (s *Scheduler) owned() []*sequence {
	all := roster.Append(slices.Clone(s.running), &s.waiting)
	all = roster.Append(all, &s.destinations.prebuilt)
	slices.SortFunc(all, byOrder)
	return all
}

func byOrder(a, b *sequence) int { return a.order - b.order }

// Uses of the pool are ordered by the emitting pass they belong to; within it come the tokens, by place in the running
// order, then everything until the tokens of the next. So the time at which a request got some earlier token can be
// told without having looked at it then.
const (
	placeBits = 31
	afterward = 1 << placeBits
)

// now returns the time of a use of the pool at this moment, other than for a token.
func (s *Scheduler) now() radix.Time {
	s.uses++
	return radix.Time(uint64(s.emissions)<<(placeBits+1) | afterward | s.uses)
}

// tokenTime returns the time of the token that r got in an emitting pass.
func (r *sequence) tokenTime(emission int) radix.Time {
	return radix.Time(uint64(emission)<<(placeBits+1) | uint64(r.place))
}
