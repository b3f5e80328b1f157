package vllm

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/engines/internal/calendar"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/paged"
)

type status uint8

const (
	waiting   status = iota // never ran
	activated               // has all the KV of its prompt from another worker, never ran
	running                 // holds blocks
	preempted               // ran before, waits again
	held                    // finished, keeps its blocks for another worker
	pending                 // waits for room for a prompt from another worker
	reserved                // has that room
	gone                    // finished or rejected
)

func (s status) String() string {
	return [...]string{"waiting", "waiting with its prompt's KV", "running", "preempted", "held for a decode worker",
		"waiting for room", "in transfer", "gone"}[s]
}

// sequence is one request inside the engine: its tokens (only counted) and its block list.
//
// The block list has an entry for every block that the tokens have opened. The first full entries are full blocks, an
// entry after them is the one partial block. A block that its last token fills stays partial until the next token
// arrives, and a block that became full stays so even if that token had to be taken back.
type sequence struct {
	id           engine.RequestID
	order        int // of arrival in this engine
	status       status
	promptTokens int
	maxOutput    int
	generated    int // survives preemption
	computed     int // tokens; 0 after preemption
	allocated    int // tokens whose blocks are held; 0 after preemption
	hold         bool

	key         kvcache.Key  // nothing can be shared without prefix caching
	listed      int          // blocks opened
	full        int          // of those, full blocks
	slots       []paged.Slot // the first blocks of the list, covering the allocated tokens
	reservation paged.Reservation

	share         share
	lastTokenPass int // the last emitting pass in which it emitted, or neverEmitted
	place         int // in running order
	due           calendar.Entry[*sequence]
}

// RequestID implements [dynosim/gocore/engines/internal/transit.Request].
func (r *sequence) RequestID() engine.RequestID { return r.id }

// neverEmitted is not the pass before any emitting pass; they count from 0.
const neverEmitted = -2

// share is what a sequence got of the pass with number pass.
type share struct {
	pass         int
	tokens       int
	promptTokens int
	promptBefore int
}

// tokens returns the length of the sequence.
func (r *sequence) tokens() int { return r.promptTokens + r.generated }

// ready reports whether the next pass emission owes it a token.
func (r *sequence) ready() bool {
	return r.computed >= r.tokens() && r.generated < r.maxOutput
}

// appendBlocks appends the identities of listed blocks from..to-1 to dst.
func (r *sequence) appendBlocks(dst []kvcache.BlockID, from, to int) []kvcache.BlockID {
	if full := min(to, r.full); from < full {
		dst = r.key.AppendBlocks(dst, from, full)
		from = full
	}
	for ; from < to; from++ {
		dst = append(dst, paged.Partial)
	}
	return dst
}

// blocksFor returns the number of listed blocks that hold the first tokens tokens.
func (s *Scheduler) blocksFor(r *sequence, tokens int) int {
	return min(s.ceilBlocks(tokens), r.listed)
}

// ceilBlocks returns tokens / block size, rounded up.
func (s *Scheduler) ceilBlocks(tokens int) int {
	return (tokens + s.blockSize - 1) >> s.blockShift
}
