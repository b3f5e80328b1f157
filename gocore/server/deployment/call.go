package deployment

import (
	"sync/atomic"
	"time"

	"dynosim/gocore/server/cluster"
)

// Call is one request on its way through a deployment. The goroutine that answers it waits for Wake and reads how far
// it has come.
type Call struct {
	// SubmittedAt is when Submit was called.
	SubmittedAt time.Time
	// Label is for a recording; it is set before Submit.
	Label Label

	wake       chan<- struct{} // has room for one; several calls may share it
	request    cluster.Request
	deployment *Deployment

	released atomic.Int32            // tokens
	due      atomic.Int64            // when the last of them was due, in nanoseconds since the start of the deployment
	reused   atomic.Int32            // tokens of the prompt
	admitted atomic.Int64            // nanoseconds since the start of the deployment, 0 before
	routed   [2]atomic.Int32         // the worker of each pool, from 1
	overlap  atomic.Int32            // tokens of the prompt that the router of the first pool took to be cached
	failure  atomic.Pointer[Failure] // why the call has ended without all its tokens
	left     atomic.Bool             // not counted any more
	firstMs  float64                 // when the first token was due, for the goroutine of the deployment
}

// Refused is the reason of a request that a router has rejected.
const Refused = cluster.Refused

// Failure is the end of a call without all its tokens.
type Failure struct {
	Reason   string
	Shutdown bool // the fault of the server, not of the request
}

// NewCall makes a call that is not submitted yet. wake must have room for one note; it gets one whenever the call has
// come further.
func NewCall(r cluster.Request, wake chan<- struct{}) *Call {
	return &Call{request: r, wake: wake}
}

// Released returns the number of tokens that may be sent.
func (c *Call) Released() int { return int(c.released.Load()) }

// Reused returns the number of tokens of the prompt that were found in the cache.
func (c *Call) Reused() int { return int(c.reused.Load()) }

// Failure returns why the call has ended without all its tokens, nil if it has not. No tokens are released after it.
func (c *Call) Failure() *Failure { return c.failure.Load() }

// AdmittedAt returns when the prompt began to be computed; the zero time if it has not.
func (c *Call) AdmittedAt() time.Time {
	at := c.admitted.Load()
	if at == 0 {
		return time.Time{}
	}
	return c.deployment.started.Add(time.Duration(at))
}

// Begun reports whether the prompt has begun to be computed.
func (c *Call) Begun() bool { return c.admitted.Load() != 0 }

// DueAt returns when the last of the released tokens was due.
func (c *Call) DueAt() time.Time { return c.deployment.started.Add(time.Duration(c.due.Load())) }

// Cancel gives the call up, which frees its blocks. Nothing happens if it is over.
func (c *Call) Cancel() { c.deployment.send(command{call: c, cancel: true}) }

// Workers returns the workers of both pools that have been chosen; below 0 if there is none.
func (c *Call) Workers() (of [2]int) {
	for pool := range of {
		of[pool] = int(c.routed[pool].Load()) - 1
	}
	return of
}

// Overlap returns how many tokens of the prompt the router took to be cached at the worker that computes it.
func (c *Call) Overlap() int { return int(c.overlap.Load()) }

// Routed implements [cluster.Sink].
func (c *Call) Routed(pool, worker, overlapTokens int) {
	c.routed[pool].Store(int32(worker + 1))
	if pool == 0 {
		c.overlap.Store(int32(overlapTokens))
	}
}

// Admitted implements [cluster.Sink].
func (c *Call) Admitted(reusedTokens int, atMs float64) {
	c.reused.Store(int32(reusedTokens))
	c.admitted.Store(max(1, int64(c.deployment.onTheClock(atMs))))
	c.deployment.waiting.Add(-1)
}

// Emitted implements [cluster.Sink].
func (c *Call) Emitted(n int, atMs float64) {
	c.due.Store(int64(c.deployment.onTheClock(atMs)))
	if c.released.Add(int32(n)) == int32(n) {
		c.firstMs = atMs
	}
	c.notify()
}

// Ended implements [cluster.Sink].
func (c *Call) Ended(reason string, _ float64) {
	if reason != "" {
		c.fail(Failure{Reason: reason})
	}
	c.deployment.forget(c)
}

func (c *Call) fail(f Failure) {
	c.failure.Store(&f)
	c.notify()
}

func (c *Call) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// leave takes the call out of the numbers of those that wait and are open, once.
func (c *Call) leave() {
	if !c.left.CompareAndSwap(false, true) {
		return
	}
	c.deployment.open.Add(-1)
	if !c.Begun() {
		c.deployment.waiting.Add(-1)
	}
}
