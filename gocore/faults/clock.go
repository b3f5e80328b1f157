package faults

import "math/rand/v2"

// Clock draws when a fault happens, how long it lasts and which workers it hits. Each fault has one for each worker
// place that it hits by itself, so that faults of one worker do not depend on those of others.
type Clock struct{ rng *rand.Rand }

// NewClock returns the clock of a fault, by its number in the script. Place is below 0 for a fault that draws its
// workers.
func NewClock(seed uint64, fault int, p Pool, place int) *Clock {
	stream := uint64(fault+1)<<32 | uint64(uint32(place+1))<<2
	switch p {
	case Prefill:
		stream |= 1
	case Decode:
		stream |= 2
	}
	return &Clock{rand.New(rand.NewPCG(seed, stream))}
}

// AfterMs draws the time until a fault happens.
func (c *Clock) AfterMs(f *Fault) float64 { return c.rng.ExpFloat64() * f.MTBFMs }

// LastsMs returns how long a fault lasts.
func (c *Clock) LastsMs(f *Fault) float64 {
	if f.MTTRMs == 0 {
		return f.DurationMs
	}
	return c.rng.ExpFloat64() * f.MTTRMs
}

// Pick draws n of the workers, which keep their order.
func Pick[T any](c *Clock, n int, workers []T) []T {
	picked := make([]T, 0, min(n, len(workers)))
	for i, w := range workers {
		if left := len(workers) - i; c.rng.IntN(left) < n-len(picked) {
			picked = append(picked, w)
		}
	}
	return picked
}
