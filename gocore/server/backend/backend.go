// Package backend is what package openai wants of workers that make answers elsewhere: it hands them a [Call] for each
// answer, and they put tokens into it as they arrive. What the tokens say and where the answer ends is decided in
// front, by package answers.
//
//	openai: NewCall(request, wake) --> Backend.Submit --> a goroutine of the backend asks a worker
//	        Take, Failure <-- wake <-- Arrived, Finish, Fail, in that goroutine
//	        Cancel, once the answer is complete or the client has gone --> Context is done
package backend

import (
	"context"
	"slices"
	"sync"
	"time"

	"dynosim/gocore/server/deployment"
)

// Backend makes answers. It may be used from several goroutines.
type Backend interface {
	// Submit begins a call and does not wait for its answer. An error means that no worker takes it; the call is then
	// not used any more.
	Submit(*Call) error
	// Waiting is the number of calls that no worker has begun, for the limit on the queue.
	Waiting() int
}

// Watched is a backend that knows what its workers have to do.
type Watched interface {
	// Workers are those that there are now, in the order of their names.
	Workers() []Worker
}

// Worker is a worker elsewhere, as the backend sees it: by the requests that it has sent there.
type Worker struct {
	Name string
	// Waiting requests have no token yet, Running ones have.
	Waiting, Running int
	// LookedUp are the tokens of prompts whose computation has ended, Reused those of them that were in the cache, as
	// far as that is known.
	LookedUp, Reused int
}

// Request is what one answer is asked for.
type Request struct {
	ID      string // that the client knows, with the number of the choice if there are several
	Adapter string // "" for the model itself
	Prompt  []uint32
	// CacheSalt separates caches: requests with different ones find nothing of each other.
	CacheSalt string
	// Most is the number of tokens that the answer may have; Limited says whether the client has named it.
	Most       int
	Limited    bool
	Fewest     int // tokens before an end counts
	StopTokens []uint32
	IgnoreEnd  bool
	Priority   int64
	// Session and Tenant are for routers, "" for none. DeadlineMs is how long after its arrival the first token should
	// be there, 0 for none.
	Session, Tenant string
	DeadlineMs      float64
}

// Call is one answer on its way. The backend writes it from one goroutine, the goroutine of the client reads it.
type Call struct {
	Request Request

	wake   chan<- struct{} // has room for one; several calls may share it
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	tokens   []uint32 // that have not been taken
	finish   string   // why the answer has ended, "" before
	failure  *deployment.Failure
	arrived  time.Time
	admitted time.Time
	reused   int
	workers  []string // that it was sent to
	overlap  int      // tokens of the prompt that the router took to be cached at the first of them
}

// NewCall makes a call. wake must have room for one note; it gets one whenever the call has come further.
func NewCall(r Request, wake chan<- struct{}) *Call {
	ctx, cancel := context.WithCancel(context.Background())
	return &Call{Request: r, wake: wake, ctx: ctx, cancel: cancel}
}

// Context returns a context that is done when the answer is not wanted any more.
func (c *Call) Context() context.Context { return c.ctx }

// Admitted records that a worker computes the prompt, of which it has found a number of tokens in its cache.
func (c *Call) Admitted(reused int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reused = reused
	if c.admitted.IsZero() {
		c.admitted = time.Now()
	}
}

// Routed records that the router has chosen a worker, and how many tokens of the prompt it took to be cached there.
func (c *Call) Routed(worker string, overlapTokens int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.workers) == 0 {
		c.overlap = overlapTokens
	}
	c.workers = append(c.workers, worker)
}

// Route returns what Routed has recorded.
func (c *Call) Route() (workers []string, overlapTokens int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.workers), c.overlap
}

// Arrived adds tokens, and the end of the answer if finish is not "": "stop", "length" or another reason of OpenAI's
// API. What comes after the end is dropped.
func (c *Call) Arrived(tokens []uint32, finish string) {
	c.change(func() {
		c.tokens = append(c.tokens, tokens...)
		c.finish = finish
		c.arrived = time.Now()
	})
}

// Fail ends the call without the rest of its answer. Nothing happens if it has ended.
func (c *Call) Fail(f deployment.Failure) { c.change(func() { c.failure = &f }) }

// change changes a call that has not ended, and tells so.
func (c *Call) change(how func()) {
	c.mu.Lock()
	if c.finish == "" && c.failure == nil {
		how()
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Take appends the tokens that have arrived since the last time. finish is not "" with the last ones.
func (c *Call) Take(to []uint32) (tokens []uint32, finish string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to = append(to, c.tokens...)
	c.tokens = c.tokens[:0]
	return to, c.finish
}

// Failure returns why the call has ended without the rest of its answer, nil if it has not. No tokens arrive after it.
func (c *Call) Failure() *deployment.Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// DueAt returns when the last tokens arrived.
func (c *Call) DueAt() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.arrived
}

// AdmittedAt returns when a worker began with the prompt, the zero time if that is not known.
func (c *Call) AdmittedAt() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.admitted
}

// Reused returns the number of tokens of the prompt that were found in the cache, as far as that is known.
func (c *Call) Reused() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reused
}

// Begun reports whether a worker has begun with the call.
func (c *Call) Begun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.admitted.IsZero() || !c.arrived.IsZero()
}

// Cancel tells the backend that the answer is not wanted any more. Nothing happens if it is over.
func (c *Call) Cancel() { c.cancel() }
