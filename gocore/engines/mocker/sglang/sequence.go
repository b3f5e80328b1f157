package sglang

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/kvcache/radix"
)

type status uint8

const (
	waiting   status = iota // never ran; may hold the slots of its first chunks
	running                 // gets a token in every pass that emits
	retracted               // ran before, waits again
	held                    // finished, keeps its slots for another worker
	pending                 // waits for room for a prompt from another worker
	reserved                // has that room
	prebuilt                // has all the KV of its prompt from another worker, never ran
)

func (s status) String() string {
	return [...]string{"waiting", "running", "retracted", "held for a decode worker", "waiting for room", "in transfer",
		"waiting with its prompt's KV"}[s]
}

// sequence is one request inside the engine: its tokens (only counted) and what it has in the pool.
//
// All running requests get a token in the same passes. So a running one is not touched at all by most of them:
// finishAt, the emitting pass that will be its last, says how far it is, and its holding is brought up to date when
// it is looked at (Scheduler.catchUp). Not so if others may look for the pages it generates: those have to be in the
// tree at once, and may be there already. With speculative decoding every running request is touched by every pass, and
// its holding when a page is full.
type sequence struct {
	id           engine.RequestID
	order        int // of arrival in this engine
	status       status
	hold         bool // keep the slots after the last token
	named        bool // others may have pages of its output
	promptTokens int
	maxOutput    int
	generated    int // tokens, while it waits; they survive retraction
	finishAt     int // while it runs: the emitting pass that is its last if it gets one token in each
	place        int // in running order
	pagesEnd     int // with speculative decoding, while it runs: the tokens for which the started pages have room
	holding      radix.Holding
}

// RequestID implements [dynosim/gocore/engines/internal/transit.Request].
func (r *sequence) RequestID() engine.RequestID { return r.id }

// tokens returns the length of the sequence.
func (s *Scheduler) tokens(r *sequence) int { return r.promptTokens + s.generated(r) }

// generated returns the number of output tokens so far.
func (s *Scheduler) generated(r *sequence) int {
	if r.status == running {
		return r.maxOutput - s.remaining(r)
	}
	return r.generated
}

// remaining returns the number of output tokens that a running request still owes.
func (s *Scheduler) remaining(r *sequence) int { return r.finishAt - s.emissions }

func ceilDiv(a, b int) int { return (a + b - 1) / b }
