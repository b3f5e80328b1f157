package router

import (
	"slices"
	"testing"
)

func TestRoundRobin(t *testing.T) {
	var r RoundRobin
	var got []int
	// The number of workers changes: the counter goes on from the last choice and wraps at the new number.
	for _, workers := range []int{3, 3, 3, 3, 3, 1, 3, 3, 2, 2} {
		got = append(got, r.Pick(workers))
	}
	if want := []int{0, 1, 2, 0, 1, 0, 1, 2, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
