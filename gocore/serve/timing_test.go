package serve

import (
	"testing"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/timing"
)

// half takes half a millisecond for everything.
type half struct{}

func (half) PrefillMs(timing.PrefillShape) float64 { return 0.5 }
func (half) DecodeMs(timing.DecodeShape) float64   { return 0.5 }

// TestModelOfArguments: a timing model that engine arguments describe is that of live workers, too.
func TestModelOfArguments(t *testing.T) {
	in := inputs{args: engineargs.Args{Formula: half{}}}
	if err := in.loadProfile("engine arguments"); err != nil || in.timing != (half{}) {
		t.Errorf("got %v, %v", in.timing, err)
	}
}
