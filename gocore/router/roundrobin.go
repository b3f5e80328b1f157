package router

import "dynosim/gocore/kvcache"

// RoundRobin hands requests to workers in turn, at once, beginning with worker 0.
type RoundRobin struct {
	workers  int
	ids      []int // of the workers if these change; nil for 0 to workers-1
	next     int   // place in the turn
	admitted [1]Admission
}

// NewRoundRobin makes the router of a pool.
func NewRoundRobin(workers int) *RoundRobin { return &RoundRobin{workers: workers} }

var _ Router = (*RoundRobin)(nil)

// Traits implements [Router].
func (*RoundRobin) Traits() Traits { return Traits{InTurn: true} }

// Submit implements [Router].
func (r *RoundRobin) Submit(req Request, _ float64) ([]Admission, error) {
	worker := r.next % r.workers
	r.next = worker + 1 // the pool may have grown when the next request comes
	if r.ids != nil {
		worker = r.ids[worker]
	}
	r.admitted[0] = Admission{ID: req.ID, Worker: worker}
	return r.admitted[:], nil
}

// PrefillCompleted implements [Router].
func (*RoundRobin) PrefillCompleted(int32, float64) ([]Admission, error) { return nil, nil }

// Free implements [Router].
func (*RoundRobin) Free(int32, float64) ([]Admission, error) { return nil, nil }

// Cancel implements [Router].
func (*RoundRobin) Cancel(int32, float64) ([]Admission, error) { return nil, nil }

// Apply implements [Router].
func (*RoundRobin) Apply(int, []kvcache.Event) {}
