package eventheap

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOrder mixes pushes and pops and compares with a sorted list.
func TestOrder(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var h Heap[int]
		var want []Event[int]
		for i := range 300 {
			if len(want) > 0 && rng.IntN(3) == 0 {
				slices.SortFunc(want, compare)
				top := *h.Top()
				if got := h.Pop(); top != want[0] || got != want[0].Value {
					t.Fatalf("got %d (%v), want %v", got, top, want[0])
				}
				want = want[1:]
			} else {
				e := Event[int]{AtMs: float64(rng.IntN(10)), Seq: int64(i), Value: i}
				if rng.IntN(2) == 0 {
					e.Seq = -e.Seq
				}
				h.Push(e.AtMs, e.Seq, e.Value)
				want = append(want, e)
			}
			if h.Len() != len(want) {
				t.Fatalf("got %d events, want %d", h.Len(), len(want))
			}
		}
	}
}

func compare(a, b Event[int]) int {
	if a.Before(&b) {
		return -1
	}
	return 1
}

func TestEmpty(t *testing.T) {
	var h Heap[string]
	if top := h.Top(); top != nil || h.Len() != 0 {
		t.Errorf("got %v", top)
	}
	h.Push(1, 0, "x")
	h.Pop()
	if top := h.Top(); top != nil || h.Len() != 0 {
		t.Errorf("got %v", top)
	}
}
