// Package engine is the vocabulary that every simulated inference engine shares with the shells that drive it.
//
// An engine works in passes (vLLM calls one a step). A shell adds requests, asks for a pass at some instant, and gets
// back everything that pass does and when it ends; nothing else happens in between. Offline replay jumps a virtual
// clock to EndMs, a live worker sleeps until then.
//
//	shell --Add--> waiting --admit--> running --one token a pass--> finished
//	                  ^                  |
//	                  +---- preempt -----+        rejected: can never run
//
// Packages engines/mocker/vllm and engines/mocker/sglang are the engines; package worker makes them from their
// arguments. handoff.go has what engines can do besides if prompts and outputs are computed by different workers.
package engine

import (
	"fmt"
	"strconv"
	"strings"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/speculation"
	"dynosim/gocore/timing"
)

// RequestID identifies a request within one run: the index of its turn in the workload.
type RequestID int32

// Request is what an engine needs to know about a request.
type Request struct {
	ID           RequestID
	Prompt       kvcache.Prompt
	PromptTokens int // >= 1
	OutputTokens int // >= 1
	// NamedBlocks is the number of leading full blocks, of prompt and output together, whose ids are in Prompt, when
	// those are more than the full blocks of the prompt: then others may find blocks of generated tokens too.
	NamedBlocks int
	Hold        bool // keep the KV after the last token (Source, Puller, Pusher)
	Pull        bool // the prompt is computed by another engine, which keeps its KV (Puller, Pusher)
	// OnRank is the data-parallel rank that the shell has chosen, from 1; 0 leaves it to the engine (Ranked).
	OnRank int
	// SentMs is when the request reached the worker. It matters only if it takes a while from there to the scheduler.
	SentMs float64
}

// Setup is what an engine gets besides its arguments. The zero value is good for all arguments that ask for nothing
// else.
type Setup struct {
	Role Role
	// Model says how long passes take; nil stands for the polynomial. Engines of one loop may share it.
	Model timing.Model
	// Drafts draws the bursts of an engine that decodes speculatively; nil if it does not. Every engine has its own.
	Drafts *speculation.Drafts
	// Trace receives each batch of blocks that enters or leaves the cache of a vLLM engine; nil to report none. It must
	// not call the engine.
	Trace func(CacheTrace)
	// Shapes receives each pass of an engine that follows its own engine's scheduler, in order; nil if nothing listens.
	// It must not call the engine.
	Shapes func(Shape)
	// Policy chooses which waiting request is admitted next and which running one is preempted; nil for the rule of the
	// engine.
	Policy Policy
	// Explain makes passes say where their time goes (Pass.Parts).
	Explain bool
	// LowerTiers makes events tell of tiers below the device, too, as far as the engine can tell of them.
	LowerTiers bool
	// Names makes them tell of which blocks these tiers need the names ([kvcache.Held]), for engines whose blocks are
	// named while it runs.
	Names bool
	// Commons is what the engines of one pool share. Nil stands for something that an engine has for itself. Place is
	// the number of the worker among them, or of the lost one that it replaces: its node follows from it.
	Commons *Commons
	Place   int
	// Stepwise turns the shortcuts of an engine off: it looks at every request in every pass, as an engine without
	// shortcuts does in any case. The results are the same to the last bit, much later: tests compare them.
	Stepwise bool
}

// OfRank returns the setup of one data-parallel rank of an engine: what its cache traces says which.
func (s Setup) OfRank(rank int) Setup {
	if trace := s.Trace; trace != nil {
		s.Trace = func(c CacheTrace) {
			c.Rank = rank
			trace(c)
		}
	}
	return s
}

// Commons is what engines of one pool share. The first one that needs something of it makes it.
type Commons struct{ HostStore, Storage any }

// Abandoner is an engine that has memory below the device, of its own or shared with others.
type Abandoner interface {
	// Abandon ends the engine, whose worker is lost at nowMs: its own memory is gone, and what it is copying to or from
	// what it shares with others is dropped. It returns what has been copied since its last pass, and what is lost.
	Abandon(nowMs float64) Copied
}

// Shape is what the duration of a pass follows from, and what the pass did besides.
type Shape struct {
	StartMs, EndMs                     float64
	PrefillRequests, ISLSum, PrefixSum int // requests that compute prompt tokens; see timing.Clock
	// requests that get a token, and the lengths of their sequences before it
	DecodeRequests, ContextSum               int
	InUse, ComputedTokens, PreemptedRequests int // blocks that requests hold; tokens computed; requests preempted
}

// CacheTrace is a change of a cache, and how full it was then.
type CacheTrace struct {
	Kind                   kvcache.EventKind
	Free, Active, Inactive int // blocks
	Rank                   int // the data-parallel rank, from 0
}

// Engine is one simulated inference engine. One loop owns it; it is not safe for concurrent use.
type Engine interface {
	// Add puts a request at the back of the waiting queue; the next pass sees it first. Its id must differ from those
	// of all requests the engine still owns.
	Add(Request)

	// RunPass schedules and carries out everything that starts at nowMs. It reports false if the engine owns requests
	// but no further pass will change anything until Add or Unblock is called.
	RunPass(nowMs float64) (pass *Pass, alive bool)

	// Cancel forgets a request wherever it is, waiting or running, and gives back all it holds; one that the engine
	// does not know is fine. It may be called between passes only; what it does to the cache is reported by the next
	// pass.
	Cancel(RequestID)

	// Unblock is for an engine that is not alive and that nothing is going to help: it gives up some of what its
	// requests have got so that others can go on, and reports whether there was anything to give up.
	Unblock() bool

	// Requests is the number of requests the engine owns, waiting or running.
	Requests() int

	// States lists what the engine owns, oldest first.
	States() []RequestState

	// Observe makes every pass from now on report KVEvents and Signals.
	Observe()
}

// Coaster is an engine that can run ahead. Most passes do nothing but give one more token to the same requests as the
// pass before; how such passes go on is known beforehand, and they cost next to nothing when they are run together.
type Coaster interface {
	Engine

	// Coast returns the ends of passes that may follow each other from nowMs on: each starts where the one before ends
	// and before untilMs, takes some time, and has no effect that a shell could see except that all requests of the
	// emitting set (see Pass) emit a token at its end. TryReserve would find nothing to do at any of these ends. The
	// next pass may be of any kind. There are none if the next pass is not of this kind or the engine cannot tell.
	// Nothing has happened yet: see Settle. The slice is valid until the next call.
	Coast(nowMs, untilMs float64) (endsMs []float64)

	// Settle carries out the first passes passes of the last Coast. Nothing may have been called in between but Add,
	// Requests and Reserve.
	Settle(passes int)
}

// Pass is everything one pass did. Its slices are valid until the next pass of the same engine.
type Pass struct {
	StartMs, EndMs float64

	// Admitted requests left the waiting queue; visible at StartMs.
	Admitted []Admission

	// Tokens is the number of tokens emitted; all carry EndMs. Listing them would cost more than producing them, so a
	// pass says only how the set of emitting requests changes from one emitting pass of the engine to the next: Started
	// joined it, Finished emitted their last token, and a request that is preempted or gets no budget leaves it
	// silently and shows up in Started again later. Each of the set emitted one token, unless Bursts has it: that
	// lists, in any order, those with two or more, and is empty without speculative decoding.
	Tokens   int
	Started  []TokenRun
	Bursts   []Burst
	Finished []RequestID

	// Singles are requests that each emit one token by themselves, in a pass in which no request of the set emits any.
	// Such a pass is not an emitting pass as far as the set is concerned, which stays as it is; Started and Bursts are
	// empty then. Those of Singles that go on join the set with a later pass, in its Started. None of them is rejected
	// later.
	Singles []TokenRun

	// Held requests are those of Finished that keep their KV, in the same order; visible at EndMs after Signals.
	Held []RequestID

	// Loads are the prompts that a decode worker has asked for, and Released and ReleasedAtStart the requests that
	// another worker has read from this prefill worker, which no longer keeps them; visible at EndMs and, two of them,
	// at StartMs (Puller).
	Loads                     []Load
	Released, ReleasedAtStart []RequestID

	// Allocated are the requests for whose prompts a decode worker has taken room, visible at StartMs, and Sent the
	// parts of prompts that a prefill worker sends, visible at EndMs (Pusher).
	Allocated []RequestID
	Sent      []Chunk

	// Rejected requests can never run and have left the engine; visible at EndMs.
	Rejected []Rejection

	// KVEvents and Signals are what a router needs to know, and empty unless Observe was called. The events are visible
	// at KVEventsAtMs, the signals at EndMs.
	KVEvents     []kvcache.Event
	KVEventsAtMs float64
	Signals      []Signal

	// Transfers move blocks between the tiers of the cache and began with the pass. Cache events announce the result. A
	// pass in which requests only wait for transfers ends with the first of these.
	Transfers []Transfer

	// Waits tells that nothing runs until EndMs, when a copy between the tiers ends. A shell that has a request for the
	// engine before that may end the pass then, but not before WaitsFromMs.
	Waits       bool
	WaitsFromMs float64

	// Copied is what the pass has submitted to be copied between device and host, and what it has dropped from there.
	Copied Copied

	// Scheduled is the number of requests that got a share of the pass.
	Scheduled int

	// Preempted is how often a vLLM engine took the blocks of a running request away.
	Preempted int

	// Parts says where the time of the pass went; nil unless Setup.Explain asked for it.
	Parts *Parts
}

// Reset makes p an empty pass that starts at startMs, and keeps the room of its slices. parts are those of the engine,
// nil if latencies are not divided among them. It does so field by field: every pass begins here, and a new value that
// is copied over the old one costs several times as much.
func (p *Pass) Reset(startMs float64, parts *Parts) {
	p.StartMs, p.EndMs = startMs, 0
	p.Admitted = p.Admitted[:0]
	p.Tokens, p.Started, p.Bursts, p.Singles = 0, p.Started[:0], p.Bursts[:0], p.Singles[:0]
	p.Finished, p.Held, p.Rejected = p.Finished[:0], p.Held[:0], p.Rejected[:0]
	p.Loads, p.Released, p.ReleasedAtStart = p.Loads[:0], p.Released[:0], p.ReleasedAtStart[:0]
	p.Allocated, p.Sent = p.Allocated[:0], p.Sent[:0]
	p.KVEvents, p.KVEventsAtMs, p.Signals = p.KVEvents[:0], 0, p.Signals[:0]
	p.Transfers, p.Waits, p.WaitsFromMs = p.Transfers[:0], false, 0
	p.Copied = Copied{}
	p.Scheduled, p.Preempted = 0, 0
	p.Parts = parts
	parts.Reset()
}

// Admission is a request that starts, or after a preemption restarts, to run.
type Admission struct {
	ID           RequestID
	ReusedTokens int // tokens found in the cache; what SGLang counts as such is said there
	Rank         int // the data-parallel rank, from 0
}

// TokenRun begins an unbroken run of tokens, at least one in each emitting pass of the engine.
type TokenRun struct {
	ID    RequestID
	Index int // of the run's first token in the request's output, from 0
}

// Burst is a request that emitted several tokens in one pass.
type Burst struct {
	ID     RequestID
	Tokens int // >= 2
}

// Signal is a request that emitted its first token or, Final, its last one. A pass lists them in running order; one
// whose first token is its last is listed once.
type Signal struct {
	ID    RequestID
	Final bool
}

// Copied counts blocks that move between the device and a tier of host memory.
type Copied struct {
	Stored, Loaded, Evicted int     // copied to the host; copied back; gone from there
	Lost                    int     // gone from there, or on their way, with a worker that was lost
	Missed                  int     // computed although the host had them
	Found                   int     // tokens of prompts that were on the host at the first admission of their requests
	StoreMs, LoadMs         float64 // how long these copies take, one after the other
	HeldMs                  float64 // how long the scheduler stood still for copies

	Storage Stored // behind the host
}

// Stored counts blocks that move between a host and storage behind it.
type Stored struct {
	Stored, Loaded, Evicted int     // written to the storage; read from it; gone from there
	Lost                    int     // on their way there when their worker was lost
	StoreMs, LoadMs         float64 // how long these transfers took
}

// Add adds up.
func (s *Stored) Add(more Stored) {
	s.Stored += more.Stored
	s.Loaded += more.Loaded
	s.Evicted += more.Evicted
	s.Lost += more.Lost
	s.StoreMs += more.StoreMs
	s.LoadMs += more.LoadMs
}

// Add adds up.
func (c *Copied) Add(more Copied) {
	c.Stored += more.Stored
	c.Loaded += more.Loaded
	c.Evicted += more.Evicted
	c.Lost += more.Lost
	c.Missed += more.Missed
	c.Found += more.Found
	c.StoreMs += more.StoreMs
	c.LoadMs += more.LoadMs
	c.HeldMs += more.HeldMs
	c.Storage.Add(more.Storage)
}

// Cut ends a pass that waits at nowMs, or as soon after that as it may end.
func (p *Pass) Cut(nowMs float64) {
	p.EndMs = min(p.EndMs, max(nowMs, p.WaitsFromMs))
	if p.Parts != nil {
		p.Parts.HostMs = p.EndMs - p.StartMs
	}
}

// Transfer is blocks on their way from one tier of the cache to another, for a request or, to make room, for none.
type Transfer struct {
	From, To kvcache.Tier
	Blocks   int
	EndMs    float64
}

// Rejection is a request that can never run, and why.
type Rejection struct {
	ID     RequestID
	Reason string
}

// Idle reports whether the pass had no effect at all: no time, no work, nothing that changes what a later pass sees.
func (p *Pass) Idle() bool {
	return p.EndMs == p.StartMs && p.Scheduled == 0 && len(p.Admitted) == 0 && p.Tokens == 0 && len(p.Rejected) == 0 &&
		len(p.KVEvents) == 0 && len(p.Transfers) == 0 && len(p.Loads) == 0 && len(p.ReleasedAtStart) == 0 &&
		len(p.Allocated) == 0
}

// RequestState is where a request of an engine stands.
type RequestState struct {
	ID           RequestID
	Name         string // as messages call the request
	Worker       string // as messages call it, "" if there is only one kind
	State        string // "waiting", "running", "preempted" (vLLM) or "retracted" (SGLang), or the place in a hand-off
	PromptTokens int
	OutputTokens int
	Generated    int
	BlocksNeeded int // for its whole output
	BlocksHeld   int // by a request that is not running
}

// Preempted reports whether the request ran before and waits to run again.
func (s *RequestState) Preempted() bool { return s.State == "preempted" || s.State == "retracted" }

// DeadEnd is the error of a run in which time cannot advance although work is left.
type DeadEnd struct {
	AtMs      float64
	Requests  []RequestState
	BlockSize int
	Capacity  int // blocks in the pool, of decode workers if there are two kinds
	// PrefillCapacity is the blocks in the pool of prefill workers, 0 if there are none.
	PrefillCapacity int
}

func (e *DeadEnd) Error() string {
	const shown = 5
	var b strings.Builder
	blocks := strconv.Itoa(e.Capacity)
	if e.PrefillCapacity > 0 {
		blocks = fmt.Sprintf("%d on prefill workers and %d on decode workers,", e.PrefillCapacity, e.Capacity)
	}
	fmt.Fprintf(&b, "dead end at %v ms of simulated time, requests left: %d; num_gpu_blocks is %s of %d tokens, a "+
		"larger pool may help",
		e.AtMs, len(e.Requests), blocks, e.BlockSize)
	for i := range e.Requests {
		r := &e.Requests[i]
		if i == shown {
			fmt.Fprintf(&b, "; and %d more", len(e.Requests)-shown)
			break
		}
		fmt.Fprintf(&b, "; %s is %s (prompt %d + output %d tokens, %d emitted, needs %d blocks%s)",
			r.Name, r.place(), r.PromptTokens, r.OutputTokens, r.Generated, r.BlocksNeeded, r.holds())
	}
	return b.String()
}

func (r *RequestState) place() string {
	if r.Worker == "" {
		return r.State
	}
	return r.State + " on " + r.Worker
}

func (r *RequestState) holds() string {
	if r.BlocksHeld == 0 {
		return ""
	}
	return fmt.Sprintf(", holds %d", r.BlocksHeld)
}
