package pace

import "time"

// pollEvery is the interval at which a waiting caller polls.
const pollEvery = 20 * time.Millisecond

// Follower keeps simulated time back to the clock, for an event loop that would run ahead of it. What happens in
// simulated time does not depend on the clock: a loop that is late makes up for it, and if it is too late, simulated
// time stands still.
type Follower struct {
	started  time.Time
	pausedMs float64 // by which simulated time is behind the clock
}

// NewFollower starts at time 0.
func NewFollower() *Follower { return &Follower{started: time.Now()} }

// Await returns when the clock has come to atMs. It calls poll now and then while it waits; an error ends that.
func (f *Follower) Await(atMs float64, poll func() error) error {
	for {
		leftMs := atMs + f.pausedMs - float64(time.Since(f.started))/1e6
		if leftMs <= 0 {
			f.pausedMs += max(0, -leftMs-maxLagMs)
			return nil
		}
		if err := poll(); err != nil {
			return err
		}
		time.Sleep(min(pollEvery, time.Duration(leftMs*1e6)+1))
	}
}
