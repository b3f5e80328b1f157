package router

import "math"

// PollClock says when loads of workers are polled: at 0, 1, 2, ... times an interval.
type PollClock struct {
	EveryMs float64
	nextMs  float64
}

// Due reports whether there was a poll since the last call. All polls in between have seen the same if it is called
// before anything changes.
func (c *PollClock) Due(nowMs float64) bool {
	if nowMs < c.nextMs {
		return false
	}
	c.nextMs = (math.Floor(nowMs/c.EveryMs) + 1) * c.EveryMs
	return true
}
