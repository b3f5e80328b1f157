// Package deployment runs a cluster on the clock: one goroutine owns it, takes requests from others, and sleeps until
// something happens next.
//
// Simulated time is milliseconds since Start. A request arrives at the time at which Submit was called, and events
// happen at their own times, in one order, however late the goroutine wakes. So the times of tokens are those that a
// replay of the same arrivals has, and a token is released between its simulated time and the next time the goroutine
// runs.
//
// The goroutine never waits for a client: for a Call it raises a number and leaves a note in a channel that has room
// for one.
package deployment

import (
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dynosim/gocore/guard"
	"dynosim/gocore/server/cluster"
)

// maxLagMs is how far simulated time may be behind the clock. Making up for more, after the process was stopped for a
// while, would be a flood of tokens: simulated time stands still instead.
const maxLagMs = 100

// Deployment is a running cluster.
type Deployment struct {
	cluster *cluster.Cluster
	record  *Recorder // nil for none
	log     *slog.Logger
	failed  func(error) // is called at the end of a cluster that cannot go on
	started time.Time
	wake    chan struct{}
	stop    chan struct{}
	done    chan struct{}

	waiting atomic.Int64 // calls whose prompts have not begun to be computed
	open    atomic.Int64 // calls that are not over

	mu     sync.Mutex
	inbox  []command
	closed string // why no call is taken any more, "" if they are

	// What follows belongs to the goroutine.
	pausedMs float64 // by which simulated time is behind the clock
	calls    map[*Call]struct{}
}

// command is a call that begins, or one that is given up, or something else to do.
type command struct {
	call   *Call
	cancel bool
	do     func()
	at     time.Duration
}

// Start runs a cluster. failed is called once, from the goroutine, if the cluster cannot go on. record is a recording
// of what comes in, which Close ends; nil for none.
func Start(c *cluster.Cluster, record *Recorder, log *slog.Logger, failed func(error)) *Deployment {
	d := &Deployment{
		cluster: c, record: record, log: log, failed: failed, started: time.Now(), wake: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}), calls: map[*Call]struct{}{},
	}
	go guard.Func(d.run)()
	return d
}

// Close ends the deployment. Calls that are left fail.
func (d *Deployment) Close() {
	close(d.stop)
	<-d.done
	d.record.Close()
}

// Waiting returns the number of calls whose prompts have not begun to be computed.
func (d *Deployment) Waiting() int { return int(d.waiting.Load()) }

// Open returns the number of calls that are not over.
func (d *Deployment) Open() int { return int(d.open.Load()) }

// Submit begins a call, which must be new. It reports false if the deployment has ended.
func (d *Deployment) Submit(c *Call) bool {
	c.deployment = d
	c.request.Sink = c
	d.waiting.Add(1)
	d.open.Add(1)
	if !d.send(command{call: c}) {
		c.leave()
		return false
	}
	return true
}

// EmptyCaches empties the caches of all workers that have nothing to do, and returns how many have. It reports false if
// the deployment has ended.
func (d *Deployment) EmptyCaches() (busy int, ok bool) {
	return busy, d.do(func() { busy = d.cluster.Empty() })
}

// Abort fails all calls that are not over.
func (d *Deployment) Abort(reason string) {
	d.do(func() {
		for c := range d.calls {
			c.fail(Failure{Reason: reason, Shutdown: true}) // the caller gives it up
		}
	})
}

// do runs something on the goroutine, and waits for it. It reports false if the deployment has ended.
func (d *Deployment) do(f func()) bool {
	done := make(chan struct{})
	if !d.send(command{do: func() { f(); close(done) }}) {
		return false
	}
	select {
	case <-done:
		return true
	case <-d.done:
		return false
	}
}

func (d *Deployment) send(c command) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed != "" {
		return false
	}
	c.at = time.Since(d.started)
	if c.call != nil && !c.cancel {
		c.call.SubmittedAt = d.started.Add(c.at)
	}
	d.inbox = append(d.inbox, c)
	select {
	case d.wake <- struct{}{}:
	default:
	}
	return true
}

// take empties the inbox, and says what time it is: all that follows comes later.
func (d *Deployment) take() ([]command, time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	commands := d.inbox
	d.inbox = nil
	return commands, time.Since(d.started)
}

func (d *Deployment) run() {
	defer close(d.done)
	defer func() {
		if cause := recover(); cause != nil {
			d.end(fmt.Errorf("internal: %v\n%s", cause, debug.Stack()))
		}
	}()
	timer := time.NewTimer(math.MaxInt64)
	for {
		if err := d.catchUp(); err != nil {
			d.end(err)
			return
		}
		timer.Reset(d.untilNext())
		select {
		case <-timer.C:
		case <-d.wake:
		case <-d.stop:
			d.abandon("the server is shutting down")
			return
		}
	}
}

// untilNext returns how long nothing happens.
func (d *Deployment) untilNext() time.Duration {
	next, ok := d.cluster.NextMs()
	if !ok {
		return math.MaxInt64
	}
	// Less than a nanosecond may be left, which a clock cannot say: the next one is due then.
	return max(1, d.onTheClock(next)-time.Since(d.started))
}

// catchUp lets everything happen that is due, in the order of time.
func (d *Deployment) catchUp() error {
	commands, now := d.take()
	d.pause(ms(now))
	for _, c := range commands {
		var err error
		switch {
		case c.do != nil:
			if err = d.cluster.Step(d.simulated(c.at), nil, nil); err == nil {
				c.do()
			}
		case c.cancel:
			err = d.cluster.Step(d.simulated(c.at), nil, []*cluster.Request{&c.call.request})
			d.forget(c.call)
		default:
			d.calls[c.call] = struct{}{}
			d.record.arrived(c.call, d.simulated(c.at))
			err = d.cluster.Step(d.simulated(c.at), []*cluster.Request{&c.call.request}, nil)
		}
		if err != nil {
			return err
		}
	}
	return d.cluster.Step(d.simulated(now), nil, nil)
}

// pause lets simulated time stand still if it is too far behind the clock.
func (d *Deployment) pause(nowMs float64) {
	if next, ok := d.cluster.NextMs(); ok {
		if lag := nowMs - d.pausedMs - next; lag > maxLagMs {
			d.pausedMs += lag - maxLagMs
		}
	}
}

func (d *Deployment) simulated(at time.Duration) float64 { return ms(at) - d.pausedMs }

// ms returns a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// onTheClock returns a simulated time as a duration since the start. It is rounded, so that ms and back gives the same
// nanosecond.
func (d *Deployment) onTheClock(atMs float64) time.Duration {
	return time.Duration(math.Round((atMs + d.pausedMs) * 1e6))
}

// forget drops a call that is over.
func (d *Deployment) forget(c *Call) {
	if _, known := d.calls[c]; known {
		delete(d.calls, c)
		d.record.ended(c)
		c.leave()
	}
}

// end ends the deployment after an error.
func (d *Deployment) end(err error) {
	d.log.Error("a model cannot be served any more", "cause", err)
	line, _, _ := strings.Cut(err.Error(), "\n")
	d.abandon("the engine failed: " + line)
	d.failed(err)
}

// abandon fails all calls that are left, and those that come later.
func (d *Deployment) abandon(reason string) {
	d.mu.Lock()
	d.closed = reason
	commands := d.inbox
	d.inbox = nil
	d.mu.Unlock()
	for _, c := range commands {
		if c.call != nil && !c.cancel {
			d.calls[c.call] = struct{}{}
		}
	}
	for c := range d.calls {
		c.fail(Failure{Reason: reason, Shutdown: true})
		d.forget(c)
	}
}
