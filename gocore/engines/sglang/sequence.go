package sglang

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/kvcache/radix"
)

type status uint8

const (
	waiting   status = iota // never ran
	running                 // was admitted
	retracted               // ran before, waits again
	kept                    // its prompt is computed, and its KV has not come to its decode worker yet
	over                    // has its last token, or was cancelled; a list may still name it
)

func (s status) String() string {
	return [...]string{"waiting", "running", "retracted", "kept", "over"}[s]
}

// sequence is one request inside the engine: its tokens, only counted, and its pages.
type sequence struct {
	id           engine.RequestID
	order        int // of arrival in this engine
	status       status
	promptTokens int
	maxOutput    int
	// Of a request that decodes, these three and the lease are as they were when it was last brought up to date
	// (roll.go).
	generated int // tokens delivered; they survive a retraction
	scheduled int // tokens that it will have when all batches composed so far have ended
	computed  int // tokens whose KV is computed when the batch composed last ends; 0 after a retraction
	entered   int // tokens that were computed when it began to decode
	lease     radix.Lease
	fetch     *fetch // nil unless the prompt is being fetched from storage
	place     place
	listed    bool // is in Scheduler.running or prefilled
	runs      bool // is in Scheduler.running
	ending    bool // runs, and its last token is in flight
	come      bool // on a prefill worker: there is room elsewhere; later, its KV has come there
	sent      int  // pages
}

// RequestID implements [dynosim/gocore/engines/internal/transit.Request].
func (r *sequence) RequestID() engine.RequestID { return r.id }

// newSequence numbers a request and sets ids aside for its pages.
func (s *Scheduler) newSequence(req engine.Request) *sequence {
	r := s.spareSequences.Take()
	shareable := max(req.PromptTokens/s.pageSize, req.NamedBlocks)
	*r = sequence{
		id:           req.ID,
		order:        s.added,
		promptTokens: req.PromptTokens,
		maxOutput:    s.args.Output(req.PromptTokens, req.OutputTokens),
		lease: radix.Lease{Key: s.namer.Key(req.Prompt, shareable,
			s.ceilPages(req.PromptTokens+req.OutputTokens))},
	}
	s.added++
	return r
}

// tokens returns the length of the sequence as delivered.
func (r *sequence) tokens() int { return r.promptTokens + r.generated }

// owed returns the number of tokens that the request is still going to get, clipped.
func (s *Scheduler) owed(r *sequence) int { return s.clipped(r.maxOutput - s.generated(r)) }

func (s *Scheduler) clipped(tokens int) int { return min(tokens, s.rules.ClipMaxNewTokens) }

func (s *Scheduler) ceilPages(tokens int) int { return (tokens + s.pageSize - 1) / s.pageSize }

func (s *Scheduler) ceil(tokens int) int { return s.ceilPages(tokens) * s.pageSize }

func (s *Scheduler) floor(tokens int) int { return tokens - tokens%s.pageSize }
