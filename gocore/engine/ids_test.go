package engine

import (
	"math"
	"testing"
)

func TestNextID(t *testing.T) {
	id, taken := RequestID(math.MaxInt32-1), map[RequestID]bool{0: true, 2: true}
	for _, want := range []RequestID{math.MaxInt32, 1, 3} {
		if id = NextID(id, taken); id != want {
			t.Errorf("got %d, want %d", id, want)
		}
	}
}
