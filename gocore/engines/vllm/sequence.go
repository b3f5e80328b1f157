package vllm

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/engines/internal/calendar"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/chunks"
	"dynosim/gocore/kvcache/paged"
)

type status uint8

const (
	waiting   status = iota // never ran
	running                 // holds blocks
	preempted               // ran before, waits again
	// waits with the blocks of its prompt, whose KV is on its way, from the host or a prefill worker, or has just come
	loading
	kept // over, holds its blocks until another worker has read them
)

func (s status) String() string {
	return [...]string{"waiting", "running", "preempted", "loading", "held"}[s]
}

// sequence is one request inside the engine: its tokens, only counted, and its blocks.
//
// The request holds the blocks of its computed tokens: registered ones first, which a look-up can find, then others.
// While it is steady its counters stand still, see steady.
type sequence struct {
	id           engine.RequestID
	order        int // of arrival in this engine
	status       status
	promptTokens int
	maxOutput    int
	generated    int // tokens delivered; they survive a preemption
	computed     int // tokens whose KV is computed when the last pass composed ends; 0 after a preemption
	// scheduled is the number of tokens that the request will have when all passes composed so far have ended.
	scheduled int
	fruitless int  // how often it preempted itself, alone in the pool, since it got further
	furthest  int  // tokens that were computed when it did so, the most so far
	hold      bool // keep the blocks after the last token
	pull      bool // the prompt has not been asked for yet, which another worker computes
	pulled    pulled
	midPrompt bool // tokens were left to compute after the last pass that served it

	key          kvcache.Key // nothing can be shared without prefix caching
	registered   []paged.Slot
	unlisted     int // registered blocks after these, which the pool learns of when they are given back
	unregistered int // blocks that it holds besides
	tables       tables
	hosted       *hosted // nil without a tier of host memory

	place        int // in running order
	lastEmitting int // the last emitting pass in which it emitted, or neverEmitted

	// servedIn is the last batch that counts in computed and scheduled, deliveredIn the last one that counts in
	// generated or will when it is delivered.
	servedIn, deliveredIn int
	share                 share
	due                   calendar.Entry[*sequence]
}

// share is what a request got of the batch in which it was served last: tokens from position start on.
type share struct{ start, tokens int }

// RequestID implements [dynosim/gocore/engines/internal/transit.Request].
func (r *sequence) RequestID() engine.RequestID { return r.id }

// neverEmitted is not the pass before any emitting pass; they count from 0.
const neverEmitted = -2

// newSequence numbers a request and sets ids aside for its blocks.
func (s *Scheduler) newSequence(req engine.Request) *sequence {
	r := s.spareSequences.Take()
	*r = sequence{
		id:           req.ID,
		order:        s.added,
		promptTokens: req.PromptTokens,
		maxOutput:    s.args.Output(req.PromptTokens, req.OutputTokens),
		registered:   r.registered[:0],
		tables:       r.tables,
		lastEmitting: neverEmitted,
		hold:         req.Hold,
		pull:         req.Pull,
	}
	r.due.Request = r
	r.tables.reset()
	shareable := 0
	if s.args.PrefixCaching {
		shareable = max(s.wholeBlocks(req.PromptTokens), req.NamedBlocks)
	}
	r.key = s.namer.Key(req.Prompt, shareable, s.ceilBlocks(req.PromptTokens+req.OutputTokens))
	if s.offload != nil {
		r.hosted = &hosted{key: r.key, Request: chunks.Request{Owner: s.offload.number}}
	}
	s.added++
	return r
}

// tokens returns the length of the sequence as delivered.
func (r *sequence) tokens() int { return r.promptTokens + r.generated }

// inFlight returns the number of tokens that passes in flight are going to deliver.
func (r *sequence) inFlight() int { return r.scheduled - r.generated }

// ending reports whether the last token is in flight: there is nothing left to schedule.
func (r *sequence) ending() bool { return r.scheduled == r.maxOutput }

// blocks returns the number of blocks that the request holds.
func (r *sequence) blocks() int { return r.listed() + r.unregistered }

// listed returns the number of blocks that are registered, or count as such.
func (r *sequence) listed() int { return len(r.registered) + r.unlisted }

// register registers the blocks that the first tokens tokens fill. Those that only this request can find need not be in
// the pool while it holds them: in a large fleet each look-up there is a cache miss of the processor.
func (s *Scheduler) register(r *sequence, tokens int) {
	full := s.wholeBlocks(tokens)
	from := r.listed()
	if !s.args.PrefixCaching || full <= from {
		return
	}
	r.unregistered -= full - from
	if from >= r.key.Shareable && s.secluded() {
		r.unlisted += full - from
		return
	}
	if from < r.key.Shareable {
		s.headWaits = false // the head of the queue may find them
	}
	s.list(r, full)
	if s.groups.Beside > 0 {
		s.registerBeside(r, from, full)
	}
}

// secluded reports whether nothing but the requests looks at the pool, and these only when they are admitted.
func (s *Scheduler) secluded() bool {
	return !s.observed && s.trace == nil && s.groups.Beside == 0 && s.offload == nil
}

// list registers the first full blocks of r in the pool.
func (s *Scheduler) list(r *sequence, full int) {
	s.ids = r.key.AppendBlocks(s.ids[:0], len(r.registered), full)
	r.registered = s.pool.Register(r.registered, s.ids)
	r.unlisted = 0
}

// take makes r hold the blocks of its first tokens tokens; false, and nothing has changed, if too few are free.
func (s *Scheduler) take(r *sequence, tokens int) bool {
	blocks := s.ceilBlocks(tokens)
	missing := blocks - r.blocks()
	if missing <= 0 {
		return true
	}
	if s.groups.Beside == 0 {
		if !s.pool.Take(missing) {
			return false
		}
	} else {
		if !s.pool.Take(missing + s.groups.Beside*s.grown(r.tables.entries, blocks)) {
			return false
		}
		s.grow(r, blocks)
	}
	r.unregistered += missing
	return true
}

// release gives back all blocks of r. Of a request that decodes, all blocks are registered by then but the one that its
// last token, which is not computed, would belong to.
func (s *Scheduler) release(r *sequence) {
	s.registerLast(r)
	s.pool.Release(r.registered, r.unregistered)
	if s.groups.Beside > 0 {
		s.releaseTables(r)
	}
	r.registered, r.unregistered = r.registered[:0], 0
	s.headWaits = false
}

// registerLast registers all blocks of r that its tokens fill, before they are given back.
func (s *Scheduler) registerLast(r *sequence) {
	s.register(r, min(r.computed, r.tokens()-1))
	s.list(r, r.listed())
}

// wholeBlocks returns tokens / block size, rounded down.
func (s *Scheduler) wholeBlocks(tokens int) int {
	if s.oddBlocks {
		return tokens / s.blockSize
	}
	return tokens >> s.blockShift
}

// ceilBlocks returns tokens / block size, rounded up.
func (s *Scheduler) ceilBlocks(tokens int) int {
	return s.wholeBlocks(tokens + s.blockSize - 1)
}
