package router

import (
	"math/rand/v2"

	"dynosim/gocore/kvcache"
)

// Random hands each request to a worker that is drawn, all being equally probable, at once.
type Random struct {
	workers  int
	rng      *rand.Rand
	admitted [1]Admission
}

// NewRandom makes the router of a pool, which draws from rng.
func NewRandom(workers int, rng *rand.Rand) *Random { return &Random{workers: workers, rng: rng} }

var _ Router = (*Random)(nil)

// Traits implements [Router].
func (*Random) Traits() Traits { return Traits{} }

// Submit implements [Router].
func (r *Random) Submit(req Request, _ float64) ([]Admission, error) {
	r.admitted[0] = Admission{ID: req.ID, Worker: r.rng.IntN(r.workers)}
	return r.admitted[:], nil
}

// PrefillCompleted implements [Router].
func (*Random) PrefillCompleted(int32, float64) ([]Admission, error) { return nil, nil }

// Free implements [Router].
func (*Random) Free(int32, float64) ([]Admission, error) { return nil, nil }

// Cancel implements [Router].
func (*Random) Cancel(int32, float64) ([]Admission, error) { return nil, nil }

// Apply implements [Router].
func (*Random) Apply(int, []kvcache.Event) {}
