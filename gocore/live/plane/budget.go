package plane

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	countedFrom = 64 << 10 // bytes from which a request counts as large
	perRequest  = 1 << 10  // bytes that a request takes besides its body
	smallBudget = 512 << 20
	largeBudget = 128 << 20 // at least
	decodedOnce = 2         // large requests that are decoded at the same time
)

// budget bounds the memory of requests that have arrived and are not decoded yet. Small ones have one of their own, so
// that they get through while large ones wait for each other.
type budget struct{ small, large, decoding *semaphore.Weighted }

func newBudget(maxMessageSize int) budget {
	return budget{
		small:    semaphore.NewWeighted(smallBudget),
		large:    semaphore.NewWeighted(max(largeBudget, 4*int64(maxMessageSize))),
		decoding: semaphore.NewWeighted(decodedOnce),
	}
}

// hold waits, until the deadline at most, for room in the budget and counts a request against it. release undoes that;
// it may be called any number of times.
func (p *Plane) hold(size int, deadline time.Time) (release func(), err error) {
	of, weight := p.budget.small, int64(size)+perRequest
	if size >= countedFrom {
		of = p.budget.large
	}
	if !of.TryAcquire(weight) {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		if err := of.Acquire(ctx, weight); err != nil {
			return func() {}, err
		}
	}
	return sync.OnceFunc(func() { of.Release(weight) }), nil
}
