package cluster

import (
	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/eventheap"
	"dynosim/gocore/handoff"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/naming"
	"dynosim/gocore/router"
	"dynosim/gocore/worker"
)

// Pool describes workers that are alike.
type Pool struct {
	Args    engineargs.Args
	Workers int
	Router  router.Factory
	// Setup is what the engine of a worker gets besides its arguments.
	Setup func(worker int) engine.Setup
}

// Config describes a cluster: one pool of aggregated workers, or one of prefill and one of decode workers, whose engines have the
// same type and block size.
type Config struct {
	Pools    []Pool
	Transfer handoff.Transfer // between two pools
	// Loaded hears of the load of a worker whenever that may have changed. It may be nil.
	Loaded func(pool, worker int, l Load)
}

// Load is what one worker has to do and has done.
type Load struct {
	Waiting, Running, UsedBlocks int
	Counts
}

// Counts are numbers since the start of a worker.
type Counts struct {
	Preemptions int
	// LookedUp are the tokens of prompts that were looked up in the prefix cache, at their first admission; Reused are those of
	// them that were found.
	LookedUp, Reused int
	// Prompt are the tokens of prompts that have been computed or found, Generated those of answers.
	Prompt, Generated int
	// Drafts are the turns of requests to draft tokens, Accepted the drafts that were accepted, by position.
	Drafts   int
	Accepted engine.Accepted
}

// Sink hears what becomes of one request. Nothing comes after Ended, and nothing after the request was cancelled.
type Sink interface {
	// Admitted tells that the prompt began to be computed, and how much of it was found in the cache.
	Admitted(reusedTokens int, atMs float64)
	// Emitted tells that the request has n more tokens.
	Emitted(n int, atMs float64)
	// Ended tells that no more tokens come: all are there if the reason is "", else the request cannot be served.
	Ended(reason string, atMs float64)
}

// Request is one request from outside.
type Request struct {
	Keys                       []Key  // full blocks of the prompt and of the answer, which is known
	PromptTokens, OutputTokens int    // at least 1
	Priority                   int64  // for the router
	Session                    string // for the router, "" for none
	Sink                       Sink

	state    emission // on the worker that makes the answer
	blocks   []uint32
	workers  [2]int32 // by pool, or unassigned
	admitted bool
	handoff  handoff.Coordinator
	missing  int32 // tokens of the prompt that the decode worker had not cached when it reserved room
	status   status
}

// status is how far a request has come.
type status uint8

const (
	unknown   status = iota
	active           // the cluster serves it
	cancelled        // it leaves as soon as its workers are idle
	over
)

const unassigned = -1

// Cluster serves requests. It is not safe for concurrent use.
type Cluster struct {
	config   Config
	order    handoff.Order
	nowMs    float64
	pools    []pool
	requests map[engine.RequestID]*Request
	lastID   engine.RequestID
	names    *naming.Table[Key]

	arrivals []*Request // of this instant
	actions  deque.Deque[nextAction]
	events   eventheap.Heap[event]
	pushed   int64
	failure  error
}

// event is the end of a pass of a worker, or of a transfer.
type event struct {
	pool, worker int // the pool is -1 for the transfer of a request
	request      *Request
}

// New returns a cluster without requests, at time 0.
func New(c Config) *Cluster {
	made := &Cluster{config: c, requests: map[engine.RequestID]*Request{}, names: naming.New[Key]()}
	made.order = worker.Traits(c.Pools[0].Args).HandoffOrder
	for i := range c.Pools {
		made.pools = append(made.pools, newPool(&c.Pools[i]))
	}
	return made
}

// disaggregated reports whether there is a pool for prompts and one for answers.
func (c *Cluster) disaggregated() bool { return len(c.pools) == 2 }

// last is the pool that makes answers.
func (c *Cluster) last() int { return len(c.pools) - 1 }

// Requests is the number of requests that are being served.
func (c *Cluster) Requests() int { return len(c.requests) }

// Err is the reason why the cluster cannot go on, nil if it can: the durations of passes cannot be determined, or a router failed.
func (c *Cluster) Err() error { return c.failure }

// NextMs is when something happens next, if no request arrives.
func (c *Cluster) NextMs() (atMs float64, ok bool) {
	top, ok := c.events.Top()
	return top.AtMs, ok && c.failure == nil
}

// Step lets everything happen that is due before atMs, and what happens at this instant: passes and transfers end, requests
// arrive or are cancelled, workers start passes. Times must not go back.
func (c *Cluster) Step(atMs float64, arrivals, cancels []*Request) error {
	for c.failure == nil {
		next, ok := c.NextMs()
		if !ok || next >= atMs {
			break
		}
		c.nowMs = max(c.nowMs, next)
		c.instant()
	}
	c.nowMs = max(c.nowMs, atMs)
	c.arrivals = append(c.arrivals, arrivals...)
	for _, r := range cancels {
		c.cancel(r)
	}
	c.instant()
	return c.failure
}

// instant carries out everything that happens now, until nothing changes any more.
func (c *Cluster) instant() {
	for c.failure == nil {
		changed := c.endPasses()
		changed = c.endTransfers() || changed
		changed = c.takeArrivals() || changed
		changed = c.act() || changed
		for i := range c.pools {
			changed = c.startPasses(i) || changed
		}
		if !changed && !c.unblock() {
			return
		}
	}
}

// fail ends the cluster.
func (c *Cluster) fail(err error) {
	if err != nil && c.failure == nil {
		c.failure = err
	}
}

// endsNow is the first event, if it is due now.
func (c *Cluster) endsNow() (event, bool) {
	top, ok := c.events.Top()
	return top.Value, ok && top.AtMs <= c.nowMs
}

func (c *Cluster) endPasses() (changed bool) {
	for {
		e, ok := c.endsNow()
		if !ok || e.pool < 0 {
			return changed
		}
		c.events.Pop()
		c.endPass(e.pool, e.worker)
		changed = true
	}
}

func (c *Cluster) endTransfers() (changed bool) {
	for {
		e, ok := c.endsNow()
		if !ok || e.pool >= 0 {
			return changed
		}
		c.events.Pop()
		c.tell(e.request, handoff.Transferred)
		changed = true
	}
}

func (c *Cluster) push(atMs float64, e event) {
	c.events.Add(eventheap.Event[event]{AtMs: atMs, SinceMs: c.nowMs, Seq: c.pushed, Value: e})
	c.pushed++
}

// takeArrivals gives requests an id and sends them on their way.
func (c *Cluster) takeArrivals() (changed bool) {
	for _, r := range c.arrivals {
		if r.status != unknown { // cancelled before it arrived
			continue
		}
		changed = true
		c.lastID = engine.NextID(c.lastID, c.requests)
		r.state.ID, r.state.Outputs, r.status = c.lastID, r.OutputTokens, active
		r.workers = [2]int32{unassigned, unassigned}
		r.blocks = c.names.Hold(r.Keys)
		r.Keys = nil
		c.requests[r.state.ID] = r
		if c.disaggregated() {
			c.beginHandoff(r)
		} else {
			c.dispatch(c.pools[0].router.Submit(c.routed(r), c.nowMs))
		}
	}
	clear(c.arrivals)
	c.arrivals = c.arrivals[:0]
	return changed
}

// routed is what a router has to know of a request.
func (c *Cluster) routed(r *Request) router.Request {
	return router.Request{
		ID: int32(r.state.ID), Prompt: c.prompt(r), PromptTokens: r.PromptTokens, Priority: r.Priority,
		Session: r.Session,
	}
}

// prompt is the numbers of the full blocks of a prompt, without those of the answer.
func (c *Cluster) prompt(r *Request) kvcache.Prompt {
	full := min(r.PromptTokens/c.config.Pools[0].Args.BlockSize, len(r.blocks))
	return kvcache.Prompt{Segments: r.blocks[:full:full], PerSegment: 1}
}

// engineRequest is what the engine of a pool has to know of a request.
func (c *Cluster) engineRequest(r *Request, pool int) engine.Request {
	e := engine.Request{ID: r.state.ID, PromptTokens: r.PromptTokens, OutputTokens: r.OutputTokens, SentMs: c.nowMs}
	e.Prompt = kvcache.Prompt{Segments: r.blocks, PerSegment: 1}
	if pool < c.last() { // the token of a prefill worker is not part of any answer
		e.Prompt, e.OutputTokens, e.Hold = c.prompt(r), 1, true
	}
	e.NamedBlocks = len(e.Prompt.Segments)
	return e
}

// cancel withdraws a request, which its workers give up as soon as they are idle.
func (c *Cluster) cancel(r *Request) {
	switch {
	case r.status == unknown:
		r.status = over
	case r.status != active:
	case c.disaggregated() && !r.handoff.Done():
		r.status = cancelled
		c.tell(r, handoff.Canceled)
	default:
		r.status = cancelled
		c.withdraw(r)
	}
}

// withdraw takes a request that is cancelled from the worker that makes its answer, now or at the end of the pass.
func (c *Cluster) withdraw(r *Request) {
	p := &c.pools[c.last()]
	if i := r.workers[c.last()]; i != unassigned {
		w := &p.workers[i]
		if w.Busy() {
			w.leaving = append(w.leaving, r)
			return
		}
		if w.destination != nil {
			w.destination.CancelDestination(r.state.ID)
		} else {
			w.Engine.Cancel(r.state.ID)
		}
		w.emitting.Drop(r)
		c.forget(r, w)
		c.tryReserve(int(i))
		p.updateReady(int(i))
		c.loadChanged(c.last(), int(i))
	} else {
		c.forget(r, nil)
	}
	c.admit(c.last())(p.router.Cancel(int32(r.state.ID), c.nowMs))
}

// forget drops a request that no engine owns any more. Events of the next pass of a worker may still name its blocks.
func (c *Cluster) forget(r *Request, w *poolWorker) {
	r.status = over
	delete(c.requests, r.state.ID)
	if w == nil {
		c.names.Release(r.blocks)
	} else {
		w.named = append(w.named, r.blocks)
	}
	r.blocks = nil
}

// end tells a request that it is over, and its router.
func (c *Cluster) end(r *Request, pool int, w *poolWorker, reason string) {
	wanted := r.status == active
	w.emitting.Drop(r)
	c.forget(r, w)
	if wanted {
		r.Sink.Ended(reason, c.nowMs)
	}
	c.admit(pool)(c.pools[pool].router.Free(int32(r.state.ID), c.nowMs))
}

// admit returns the function that takes the admissions of the router of a pool.
func (c *Cluster) admit(pool int) func([]router.Admission, error) {
	if pool == 1 {
		return c.reserve
	}
	return c.dispatch
}

// dispatch hands requests to the workers that the router has chosen.
func (c *Cluster) dispatch(admitted []router.Admission, err error) {
	c.fail(err)
	for _, a := range admitted {
		r, p := c.requests[engine.RequestID(a.ID)], &c.pools[0]
		r.workers[0] = int32(a.Worker)
		p.workers[a.Worker].Engine.Add(c.engineRequest(r, 0))
		p.updateReady(a.Worker)
		c.loadChanged(0, a.Worker)
	}
}
