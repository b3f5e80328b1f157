// Package pace ties simulated time to the clock.
//
// Simulated time is milliseconds since a Clock was made. It never runs ahead of the clock: the goroutine that runs a
// pass sleeps until the end of the pass. It may be a little behind, as sleepers wake late and passes take time to
// compute. The next pass then starts where the last one has ended, so that small delays are made up for and do not add
// up.
//
// A [Clock] is for an engine with a goroutine of its own, a [Follower] for an event loop of many.
package pace

import (
	"math"
	"time"
)

// maxLagMs is how far simulated time may be behind the clock. Making up for more, after a process was stopped for a
// while, would be a flood of passes.
const maxLagMs = 100

// Clock is the simulated time of one engine.
type Clock struct {
	started time.Time
	timer   *time.Timer
	stop    <-chan struct{}
}

// New starts a clock. Sleepers wake when stop is closed.
func New(stop <-chan struct{}) *Clock {
	return &Clock{started: time.Now(), timer: time.NewTimer(math.MaxInt64), stop: stop}
}

// NowMs returns the time since New.
func (c *Clock) NowMs() float64 { return float64(time.Since(c.started)) / 1e6 }

// PassStartMs returns when the next pass starts. If busy, the engine has had something to do ever since its last pass,
// which ended at endMs. Requests that joined it since must be taken into account with max.
func (c *Clock) PassStartMs(busy bool, endMs float64) float64 {
	now := c.NowMs()
	if !busy {
		return now
	}
	return max(endMs, now-maxLagMs)
}

// SleepUntilOr waits for an instant, or until there is a wake-up. It reports whether that came, and false if the clock
// was stopped.
func (c *Clock) SleepUntilOr(ms float64, wake <-chan struct{}) (woken, going bool) {
	c.timer.Reset(max(0, time.Duration((ms-c.NowMs())*1e6)))
	select {
	case <-c.timer.C:
		return false, true
	case <-wake:
		return true, true
	case <-c.stop:
		return false, false
	}
}

// SleepUntil waits for an instant. It reports false if the clock was stopped.
func (c *Clock) SleepUntil(ms float64) bool {
	left := time.Duration((ms - c.NowMs()) * 1e6)
	if left <= 0 {
		select {
		case <-c.stop:
			return false
		default:
			return true
		}
	}
	c.timer.Reset(left)
	select {
	case <-c.timer.C:
		return true
	case <-c.stop:
		return false
	}
}

// Await waits for a wake-up. It reports false if the clock was stopped.
func (c *Clock) Await(wake <-chan struct{}) bool {
	select {
	case <-wake:
		return true
	case <-c.stop:
		return false
	}
}
