package router

import (
	"math"

	"dynosim/gocore/kvcache"
)

// Replicas are several routers in front of the same workers, which get the requests in turn. Each knows its own
// requests only; all receive the same cache events.
type Replicas struct {
	of       []Elastic
	next     int             // the one that gets the next request
	at       map[int32]int32 // by request
	admitted []Admission
}

// NewReplicas puts routers with equal traits in front of the same workers, which are those that each of them has.
func NewReplicas(of ...Elastic) *Replicas { return &Replicas{of: of, at: map[int32]int32{}} }

// NewKV makes the KV-aware router that a configuration describes, with its replicas.
func NewKV(o Options) Elastic {
	if o.Config.Replicas <= 1 {
		return New(o)
	}
	var shared *polledLoads
	r := NewReplicas()
	for range o.Config.Replicas {
		k := New(o)
		if shared == nil {
			shared = k.polled
		} else {
			shared.of, k.polled = append(shared.of, k), shared
		}
		r.of = append(r.of, k)
	}
	return r
}

var (
	_ Elastic  = (*Replicas)(nil)
	_ Ticker   = (*Replicas)(nil)
	_ Finisher = (*Replicas)(nil)
)

// Traits implements [Router].
func (r *Replicas) Traits() Traits { return r.of[0].Traits() }

// Submit implements [Router].
func (r *Replicas) Submit(q Request, nowMs float64) ([]Admission, error) {
	n := r.next
	r.next = (n + 1) % len(r.of)
	r.at[q.ID] = int32(n)
	return r.of[n].Submit(q, nowMs)
}

// PrefillCompleted implements [Router].
func (r *Replicas) PrefillCompleted(id int32, nowMs float64) ([]Admission, error) {
	return r.of[r.at[id]].PrefillCompleted(id, nowMs)
}

// Free implements [Router].
func (r *Replicas) Free(id int32, nowMs float64) ([]Admission, error) {
	n, known := r.at[id]
	if !known {
		return nil, nil
	}
	delete(r.at, id)
	return r.of[n].Free(id, nowMs)
}

// Cancel implements [Router].
func (r *Replicas) Cancel(id int32, nowMs float64) ([]Admission, error) {
	n, known := r.at[id]
	if !known {
		return nil, nil
	}
	delete(r.at, id)
	return r.of[n].Cancel(id, nowMs)
}

// Apply implements [Router].
func (r *Replicas) Apply(worker int, events []kvcache.Event) {
	for _, one := range r.of {
		one.Apply(worker, events)
	}
}

// all gathers what each of the routers admits.
func (r *Replicas) all(ask func(Elastic) ([]Admission, error)) ([]Admission, error) {
	r.admitted = r.admitted[:0]
	for _, one := range r.of {
		admitted, err := ask(one)
		r.admitted = append(r.admitted, admitted...)
		if err != nil {
			return r.admitted, err
		}
	}
	return r.admitted, nil
}

// SetWorkers implements [Elastic].
func (r *Replicas) SetWorkers(active []int, nowMs float64) ([]Admission, error) {
	return r.all(func(one Elastic) ([]Admission, error) { return one.SetWorkers(active, nowMs) })
}

// Forget implements [Elastic].
func (r *Replicas) Forget(worker int) {
	for _, one := range r.of {
		one.Forget(worker)
	}
}

// Place implements [Placed].
func (r *Replicas) Place(worker, replaced int) {
	for _, one := range r.of {
		if placed, knows := one.(Placed); knows {
			placed.Place(worker, replaced)
		}
	}
}

// Waiting implements [Elastic].
func (r *Replicas) Waiting() (n int) {
	for _, one := range r.of {
		n += one.Waiting()
	}
	return n
}

// Queues implements [Elastic].
func (r *Replicas) Queues() bool { return r.of[0].Queues() }

// NextTickMs implements [Ticker].
func (r *Replicas) NextTickMs() float64 {
	next := math.Inf(1)
	for _, one := range r.of {
		if t, ticks := one.(Ticker); ticks {
			next = min(next, t.NextTickMs())
		}
	}
	return next
}

// Tick implements [Ticker].
func (r *Replicas) Tick(nowMs float64) ([]Admission, error) {
	return r.all(func(one Elastic) ([]Admission, error) {
		if t, ticks := one.(Ticker); ticks && t.NextTickMs() <= nowMs {
			return t.Tick(nowMs)
		}
		return nil, nil
	})
}

// Finish implements [Finisher].
func (r *Replicas) Finish(nowMs float64) error {
	for _, one := range r.of {
		if f, finishes := one.(Finisher); finishes {
			if err := f.Finish(nowMs); err != nil {
				return err
			}
		}
	}
	return nil
}
