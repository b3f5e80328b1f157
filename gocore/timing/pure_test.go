package timing

import "testing"

// constant is a model of another package that does not say that it is pure.
type constant struct{}

func (constant) PrefillMs(PrefillShape) float64 { return 1 }
func (constant) DecodeMs(DecodeShape) float64   { return 1 }

type pureConstant struct{ constant }

func (pureConstant) Pure() bool { return true }

func TestPure(t *testing.T) {
	for _, m := range []Model{nil, Polynomial{}, new(Grid), pureConstant{}} {
		if !Pure(m) {
			t.Errorf("%T is pure", m)
		}
	}
	for _, m := range []Model{constant{}, new(Asked)} {
		if Pure(m) {
			t.Errorf("%T is not pure", m)
		}
	}
}
