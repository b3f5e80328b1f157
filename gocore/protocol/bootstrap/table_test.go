package bootstrap

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"dynosim/gocore/handoff"
)

// half returns one side of hand-off n.
func half(side Side, n byte, handle string) Half[string] {
	return Half[string]{Identity: Identity{HandoffID: uuid.UUID{n}, Room: uint64(n)}, Side: side, EngineType: "vllm",
		Handle: handle}
}

func TestTableMatches(t *testing.T) {
	for _, first := range []Side{SourceSide, DestinationSide} {
		table := NewTable[string](1, 1000)
		if _, err := table.Offer(half(first, 1, "first"), 0); !errors.Is(err, ErrWaiting) {
			t.Fatalf("%v: got %v", first, err)
		}
		if _, err := table.Offer(half(first, 1, "again"), 0); err == nil ||
			err.Error() != "duplicate "+first.String()+" participant" {
			t.Errorf("%v: got %v", first, err)
		}
		if other, err := table.Offer(half(1-first, 1, "second"), 0); err != nil || other != "first" {
			t.Errorf("%v: got %q, %v", first, other, err)
		}
		if table.Withdraw(uuid.UUID{1}, 0) {
			t.Errorf("%v: withdrawn after the match", first)
		}
		for _, side := range []Side{SourceSide, DestinationSide} {
			if _, err := table.Offer(half(side, 1, "third"), 0); err == nil || errors.Is(err, ErrWaiting) {
				t.Errorf("%v: a third half: %v", first, err)
			}
		}
		if _, err := table.Offer(half(SourceSide, 2, ""), 0); !errors.Is(err, ErrCapacity) {
			t.Errorf("%v: got %v", first, err)
		}
		table.Retire(uuid.UUID{1}, 10)
		if _, err := table.Offer(half(SourceSide, 1, ""), 1009); err == nil || errors.Is(err, ErrWaiting) {
			t.Errorf("%v: a retired id: %v", first, err)
		}
		if _, err := table.Offer(half(SourceSide, 1, ""), 1010); !errors.Is(err, ErrWaiting) {
			t.Errorf("%v: a forgotten id: %v", first, err)
		}
	}
}

func TestTableMismatch(t *testing.T) {
	for name, change := range map[string]func(*Half[string]){
		"identities": func(h *Half[string]) { h.Identity.Room++ },
		"engines":    func(h *Half[string]) { h.EngineType = "sglang" },
		"orders":     func(h *Half[string]) { h.Order = handoff.DestinationFirst },
	} {
		table := NewTable[string](4, 1000)
		_, _ = table.Offer(half(DestinationSide, 1, "destination"), 0)
		source := half(SourceSide, 1, "source")
		change(&source)
		var pair *PairError[string]
		if _, err := table.Offer(source, 0); !errors.As(err, &pair) || pair.Other != "destination" {
			t.Errorf("%s: got %v", name, err)
		}
		if table.Len() != 0 {
			t.Errorf("%s: %d are left", name, table.Len())
		}
	}
}

// Destinations without a waiting source keep out neither destinations with one nor sources.
func TestTableCapacity(t *testing.T) {
	table := NewTable[string](2, 1000)
	offer := func(side Side, n byte, want error) {
		t.Helper()
		if _, err := table.Offer(half(side, n, ""), 0); !errors.Is(err, want) {
			t.Errorf("%v %d: got %v, want %v", side, n, err, want)
		}
	}
	offer(DestinationSide, 1, ErrWaiting)
	offer(DestinationSide, 2, ErrWaiting)
	offer(DestinationSide, 3, ErrCapacity)
	offer(SourceSide, 4, ErrWaiting)
	offer(SourceSide, 5, ErrWaiting)
	offer(SourceSide, 6, ErrCapacity)
	offer(DestinationSide, 4, nil)
	offer(SourceSide, 1, ErrCapacity) // its destination is refused, too
	offer(DestinationSide, 7, ErrWaiting)
	if !table.Withdraw(uuid.UUID{5}, 0) || table.Withdraw(uuid.UUID{5}, 0) || table.Withdraw(uuid.UUID{99}, 0) {
		t.Error("a half that waits can be withdrawn once")
	}
	offer(SourceSide, 8, ErrWaiting)
}

// Ids that were in use are remembered for a while, but not more than there may be hand-offs.
func TestTableForgets(t *testing.T) {
	table := NewTable[string](3, 1e9)
	for n := range 200 {
		if _, err := table.Offer(half(SourceSide, byte(n), ""), 0); !errors.Is(err, ErrWaiting) {
			t.Fatalf("%d: %v", n, err)
		}
		table.Withdraw(uuid.UUID{byte(n)}, 0)
	}
	if len(table.entries) != 3 {
		t.Errorf("%d ids are remembered", len(table.entries))
	}
}
