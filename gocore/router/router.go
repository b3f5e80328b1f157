package router

import "dynosim/gocore/kvcache"

// Router chooses the worker of each request, for one pool of workers. It is not safe for concurrent use.
//
// The loop that owns a router tells it what happens, in the order of time. Submit, PrefillCompleted, Free and Cancel
// may send requests to workers: they return these as admissions, in the order in which they are to be handed to the
// engines. Usually Submit returns the request it was given; a router that keeps requests back returns none then and
// several later. The slice is valid until the next call. An error ends the run.
type Router interface {
	// Traits returns what the loop has to know of the router. They never change.
	Traits() Traits

	// Submit routes a request: of prefill workers when its prompt is to be computed, of decode workers when room is
	// needed for it.
	Submit(r Request, nowMs float64) ([]Admission, error)

	// PrefillCompleted reports that the prompt of a request has been computed, and that more of its tokens are to come.
	// Routers of decode workers are not told, nor are those that do not observe.
	PrefillCompleted(id int32, nowMs float64) ([]Admission, error)

	// Free reports that a request has left its worker, or was rejected by it. Prefill workers keep a request until its
	// hand-off is complete.
	Free(id int32, nowMs float64) ([]Admission, error)

	// Cancel reports that a request will not be run, whether it was admitted or still waits in the router. It may come
	// twice, or for a request that was never submitted.
	Cancel(id int32, nowMs float64) ([]Admission, error)

	// Apply reports what a worker has stored in its cache and removed from it. Routers of decode workers are not told,
	// nor are those that do not observe.
	Apply(worker int, events []kvcache.Event)
}

// Traits are what a loop has to know of a router besides its answers.
type Traits struct {
	// Observes says that the router wants to learn of cache events and completed prompts. Engines report these only
	// then.
	Observes bool
	// InTurn says that request number n, from 0, always goes to worker n modulo the number of workers, at once. Workers
	// may then be simulated one after the other.
	InTurn bool
	// Keeps says that the router may keep requests although workers are idle, or refuse them.
	Keeps bool
}

// Ticker is a router that wants to be told the time.
type Ticker interface {
	Router

	// NextTickMs returns when, +Inf for never.
	NextTickMs() float64
	// Tick reports that it is that time.
	Tick(nowMs float64) ([]Admission, error)
}

// Finisher is a router that wants to be told the end of a run.
type Finisher interface {
	// Finish reports that it has ended.
	Finish(nowMs float64) error
}

// Request is what the router knows of a request.
type Request struct {
	ID             int32 // unique among the requests that wait or are active
	Prompt         kvcache.Prompt
	PromptTokens   int     // at least 1
	Priority       int64   // see QueuePolicy; below 0 is as 0
	StrictPriority uint64  // higher goes first, whatever the policy
	Tenant         string  // who has sent it, "" if that is not known
	DeadlineMs     float64 // the time by which its first token should be there, 0 for none
	Session        string  // the conversation that it belongs to, "" for none; routers with keys take it as the key
}

// Admission sends a request to a worker.
type Admission struct {
	ID            int32
	Worker        int     // or Refused
	OverlapBlocks int     // leading blocks of the prompt that the worker had cached when the request arrived
	PromptBlocks  int     // of the whole prompt, a partial one included
	WaitMs        float64 // in the queue
}

// Factory makes the router of a pool of workers, anew for each run. The nil Factory makes round robins.
type Factory func(workers int) Router

// Make makes a router.
func (f Factory) Make(workers int) Router {
	if f == nil {
		return NewRoundRobin(workers)
	}
	return f(workers)
}
