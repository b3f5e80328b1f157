package vllmv1

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/engine/calendar"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/paged"
)

type status uint8

const (
	waiting   status = iota // never ran
	running                 // holds blocks
	preempted               // ran before, waits again
)

func (s status) String() string { return [...]string{"waiting", "running", "preempted"}[s] }

// sequence is one request inside the engine: its tokens, only counted, and its blocks.
//
// The request holds the blocks of its computed tokens: registered ones first, which stand in held, then unregistered ones.
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

	prompt       kvcache.Prompt
	shareable    int             // leading blocks whose content other requests can have as well
	privateBase  kvcache.BlockID // id of block i from shareable on: privateBase + i
	held         []paged.Slot
	unregistered int // blocks held beyond held

	place        int // in running order
	lastEmitting int // the last emitting pass in which it emitted, or neverEmitted

	// servedIn is the last batch that counts in computed and scheduled, deliveredIn the last one that counts in generated
	// or will when it is delivered.
	servedIn, deliveredIn int
	share                 share
	due                   calendar.Entry[*sequence]
}

// share is what a request got of the batch in which it was served last: tokens from position start on.
type share struct{ start, tokens int }

// neverEmitted is not the pass before any emitting pass; they count from 0.
const neverEmitted = -2

// newSequence numbers a request and sets ids aside for its blocks.
func (s *Scheduler) newSequence(req engine.Request) *sequence {
	r := s.spareSequence()
	*r = sequence{
		id:           req.ID,
		order:        s.added,
		promptTokens: req.PromptTokens,
		maxOutput:    req.OutputTokens,
		prompt:       req.Prompt,
		held:         r.held[:0],
		lastEmitting: neverEmitted,
	}
	r.due.Request = r
	if s.args.PrefixCaching {
		r.shareable = max(req.PromptTokens>>s.blockShift, req.NamedBlocks)
	}
	r.privateBase = s.private - kvcache.BlockID(r.shareable)
	s.private = r.privateBase + kvcache.BlockID(max(r.shareable, s.ceilBlocks(req.PromptTokens+req.OutputTokens)))
	s.added++
	return r
}

func (s *Scheduler) spareSequence() *sequence {
	if n := len(s.spareSequences); n > 0 {
		r := s.spareSequences[n-1]
		s.spareSequences = s.spareSequences[:n-1]
		return r
	}
	return new(sequence)
}

// tokens is the length of the sequence as delivered.
func (r *sequence) tokens() int { return r.promptTokens + r.generated }

// inFlight is the number of tokens that passes in flight are going to deliver.
func (r *sequence) inFlight() int { return r.scheduled - r.generated }

// ending reports whether the last token is in flight: there is nothing left to schedule.
func (r *sequence) ending() bool { return r.scheduled == r.maxOutput }

// blocks is the number of blocks that the request holds.
func (r *sequence) blocks() int { return len(r.held) + r.unregistered }

// blockID is the identity of full block i.
func (r *sequence) blockID(i int) kvcache.BlockID {
	if i < r.shareable {
		return r.prompt.Block(i)
	}
	return r.privateBase + kvcache.BlockID(i)
}

// appendIDs appends the identities of full blocks from..to-1 to dst.
func (r *sequence) appendIDs(dst []kvcache.BlockID, from, to int) []kvcache.BlockID {
	if shared := min(to, r.shareable); from < shared {
		dst = r.prompt.AppendBlocks(dst, from, shared)
		from = shared
	}
	for i := from; i < to; i++ {
		dst = append(dst, r.privateBase+kvcache.BlockID(i))
	}
	return dst
}

// register registers the blocks that the first tokens tokens fill.
func (s *Scheduler) register(r *sequence, tokens int) {
	full := tokens >> s.blockShift
	if !s.args.PrefixCaching || full <= len(r.held) {
		return
	}
	if len(r.held) < r.shareable {
		s.headWaits = false // the head of the queue may find them
	}
	s.ids = r.appendIDs(s.ids[:0], len(r.held), full)
	r.unregistered -= len(s.ids)
	r.held = s.pool.Register(r.held, s.ids)
}

// take makes r hold the blocks of its first tokens tokens; false, and nothing has changed, if too few are free.
func (s *Scheduler) take(r *sequence, tokens int) bool {
	missing := s.ceilBlocks(tokens) - r.blocks()
	if missing <= 0 {
		return true
	}
	if !s.pool.Take(missing) {
		return false
	}
	r.unregistered += missing
	return true
}

// release gives back all blocks of r. Of a request that decodes, all blocks are registered by then but the one that its
// last token, which is not computed, would belong to.
func (s *Scheduler) release(r *sequence) {
	s.register(r, min(r.computed, r.tokens()-1))
	s.pool.Release(r.held, r.unregistered)
	r.held, r.unregistered = r.held[:0], 0
	s.headWaits = false
}

// ceilBlocks is tokens / block size, rounded up.
func (s *Scheduler) ceilBlocks(tokens int) int {
	return (tokens + s.blockSize - 1) >> s.blockShift
}
