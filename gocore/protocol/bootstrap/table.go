package bootstrap

import (
	"errors"
	"fmt"

	"github.com/gammazero/deque"
	"github.com/google/uuid"

	"dynosim/gocore/handoff"
)

// Table is where the two halves of hand-offs find each other, whichever comes first. H is what the owner keeps for each
// half.
//
//	Offer --no other half--> waiting --Offer of the other half--> matched --Retire--> retired, refused for a while
//	                            \--Withdraw--> retired
type Table[H any] struct {
	limit     int
	retiredMs float64
	entries   map[uuid.UUID]*entry[H]
	sources   int // entries with a source
	retired   deque.Deque[retirement]
}

// Half is one side of a hand-off.
type Half[H any] struct {
	Identity   Identity
	Side       Side
	Order      handoff.Order
	EngineType string
	Handle     H
}

// Side is one of two.
type Side uint8

// The sides.
const (
	SourceSide Side = iota
	DestinationSide
)

var sideNames = [...]string{"source", "destination"}

func (s Side) String() string { return sideNames[s] }

// entry is a hand-off that waits for a half, has both, or is retired.
type entry[H any] struct {
	state     entryState
	half      Half[H] // the one that waits
	hasSource bool
}

type entryState uint8

const (
	waiting entryState = iota
	matched
	retired
)

type retirement struct {
	id      uuid.UUID
	untilMs float64
}

// Errors of Offer.
var (
	ErrWaiting  = errors.New("the other half is not there yet")
	ErrCapacity = errors.New("too many hand-offs")
)

// PairError is the reason why two halves with one id do not belong together. Both lose their hand-off.
type PairError[H any] struct {
	Other H
	Cause error
}

func (e *PairError[H]) Error() string { return e.Cause.Error() }
func (e *PairError[H]) Unwrap() error { return e.Cause }

// NewTable returns an empty table. It has room for limit hand-offs with a source, and for as many destinations that
// wait for their source. It refuses the last limit ids that were retired, each for retiredMs.
func NewTable[H any](limit int, retiredMs float64) *Table[H] {
	return &Table[H]{limit: limit, retiredMs: retiredMs, entries: map[uuid.UUID]*entry[H]{}}
}

// Offer adds a half, and returns the handle of the other half if that waits already. Otherwise the error is ErrWaiting,
// after which this half waits; a *PairError; ErrCapacity; or an error about the id.
func (t *Table[H]) Offer(h Half[H], nowMs float64) (other H, err error) {
	t.forget(nowMs)
	id := h.Identity.HandoffID
	e, known := t.entries[id]
	switch {
	case !known:
		return other, t.wait(h)
	case e.state != waiting || e.half.Side == h.Side:
		return other, fmt.Errorf("duplicate %s participant", h.Side)
	}
	other = e.half.Handle
	err = mismatch(&e.half, &h)
	if err == nil && !e.hasSource && t.sources >= t.limit {
		err = ErrCapacity
	}
	if err != nil {
		t.Retire(id, nowMs)
		return other, &PairError[H]{other, err}
	}
	if !e.hasSource {
		e.hasSource = true
		t.sources++
	}
	e.state, e.half = matched, Half[H]{}
	return other, nil
}

// Withdraw removes a half that waits. It reports false if the other half has come.
func (t *Table[H]) Withdraw(id uuid.UUID, nowMs float64) bool {
	e, known := t.entries[id]
	if !known || e.state != waiting {
		return false
	}
	t.Retire(id, nowMs)
	return true
}

// Retire ends a hand-off.
func (t *Table[H]) Retire(id uuid.UUID, nowMs float64) {
	e, known := t.entries[id]
	if !known || e.state == retired {
		return
	}
	if e.hasSource {
		t.sources--
	}
	*e = entry[H]{state: retired}
	t.retired.PushBack(retirement{id, nowMs + t.retiredMs})
	t.forget(nowMs)
}

// Len returns the number of hand-offs that are not retired.
func (t *Table[H]) Len() int { return len(t.entries) - t.retired.Len() }

func (t *Table[H]) wait(h Half[H]) error {
	source := h.Side == SourceSide
	if source && t.sources >= t.limit || !source && t.Len()-t.sources >= t.limit {
		return ErrCapacity
	}
	t.entries[h.Identity.HandoffID] = &entry[H]{half: h, hasSource: source}
	if source {
		t.sources++
	}
	return ErrWaiting
}

// forget drops retired ids that are old enough, and the oldest ones if there are too many.
func (t *Table[H]) forget(nowMs float64) {
	for t.retired.Len() > 0 && (t.retired.Len() > t.limit || t.retired.Front().untilMs <= nowMs) {
		delete(t.entries, t.retired.PopFront().id)
	}
}

func mismatch[H any](a, b *Half[H]) error {
	switch {
	case a.Identity != b.Identity:
		return errors.New("the sides of the hand-off have different identities")
	case a.EngineType != b.EngineType:
		return fmt.Errorf("the sides of the hand-off have different engines: %s and %s", a.EngineType, b.EngineType)
	case a.Order != b.Order:
		return fmt.Errorf("the sides of the hand-off have different orders: %s and %s", orderNames[a.Order],
			orderNames[b.Order])
	default:
		return nil
	}
}
