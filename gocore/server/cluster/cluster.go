package cluster

import (
	"fmt"
	"math"

	"dynosim/gocore/engine"
	"dynosim/gocore/fleet"
	"dynosim/gocore/handoff"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/naming"
	"dynosim/gocore/live/blocks"
	"dynosim/gocore/planner"
	"dynosim/gocore/router"
)

// Pool describes workers that are alike.
type Pool = fleet.PoolConfig

// Config describes a cluster: one pool of aggregated workers, or one of prefill and one of decode workers, whose
// engines have the same type and block size.
type Config struct {
	Pools    []Pool
	Transfer handoff.Transfer // between two pools, or from elsewhere
	// KVEventLagMs is how long after a change of a cache the routers learn of it; 0 for at once.
	KVEventLagMs float64
	// Loaded is called with the load of a worker when that may have changed. It may be nil.
	Loaded func(pool, worker int, l Load)
	// CacheChanged is called with what a worker has stored and removed, the tokens of stored blocks included, for which
	// requests need Tokens. It may be nil.
	CacheChanged func(pool, worker int, changes []blocks.Change)
	// Policies decide about the requests of each engine; nil for the engines' own rules.
	Policies Policies
}

// Policies make the policies of engines.
type Policies interface {
	// Of makes that of a worker. about tells what is known of a request, and when it arrived.
	Of(role engine.Role, worker int, about func(engine.RequestID) (router.Request, float64)) engine.Policy
	// Forget notes that a request has ended, after which another one may have its id.
	Forget(engine.RequestID)
	// Err returns the error of a policy, nil for none.
	Err() error
}

// Load is what one worker has to do and has done.
type Load struct {
	Waiting, Running, UsedBlocks int
	Counts
}

// Counts are numbers since the start of a worker.
type Counts struct {
	Preemptions int
	// LookedUp are the tokens of prompts that were looked up in the prefix cache, at their first admission; Reused are
	// those of them that were found.
	LookedUp, Reused int
	// Prompt are the tokens of prompts that have been computed or found, Generated those of answers.
	Prompt, Generated int
	// Drafts are the turns of requests to draft tokens, Accepted the drafts that were accepted, by position.
	Drafts   int
	Accepted engine.Accepted
}

// Refused is the reason of requests that a router has refused.
const Refused = "request rejected: " + fleet.Refused

// Sink receives what becomes of one request. Nothing comes after Ended, and nothing after the request was cancelled.
type Sink interface {
	// Routed tells which worker of a pool the router has chosen, and how much of the prompt it took to be cached there.
	Routed(pool, worker, overlapTokens int)
	// Admitted tells that the prompt began to be computed, and how much of it was found in the cache.
	Admitted(reusedTokens int, atMs float64)
	// Emitted tells that the request has n more tokens.
	Emitted(n int, atMs float64)
	// Ended tells that no more tokens come: all are there if the reason is "", else the request cannot be served.
	Ended(reason string, atMs float64)
}

// Request is one request from outside.
type Request struct {
	Keys                       []Key    // full blocks of the prompt and of the answer, which is known
	Tokens                     []uint32 // of the prompt and of the answer, if changes of caches are reported
	PromptTokens, OutputTokens int      // at least 1
	Priority                   int64    // for the router
	Session, Tenant            string   // for the router, "" for none
	// DeadlineMs is how long after its arrival the first token should be there, for the router; 0 for no deadline.
	DeadlineMs float64
	Sink       Sink
	// Imported says that the KV of the prompt comes from elsewhere, and takes Config.Transfer; see Imports.
	Imported bool

	state    emission // on the worker that makes the answer
	arrived  int64    // how many came before
	sinceMs  float64  // when it came
	blocks   []uint32
	workers  [2]int32 // by pool, or unassigned
	admitted bool
	status   status
}

// status is how far a request has come.
type status uint8

const (
	unknown status = iota
	active
	over // its sink gets nothing any more, though workers may still have it
)

const unassigned = -1

// Cluster serves requests. It is not safe for concurrent use.
type Cluster struct {
	config    Config
	fleet     *fleet.Fleet
	workers   [2][]watched // by pool
	requests  []*Request   // by id, those that the fleet knows; nil for an id that is not used
	unused    []engine.RequestID
	names     *naming.Table[Key]
	published *publishedBlocks // nil unless changes of caches are reported

	arrivals []*Request // of this instant
	came     int64      // requests that have come
	failure  error
}

// inside is the cluster as its fleet sees it.
type inside struct{ *Cluster }

var (
	_ fleet.World    = inside{}
	_ fleet.Recorder = inside{}
	_ fleet.Watcher  = inside{}
)

// New returns a cluster without requests, at time 0.
func New(config Config) *Cluster {
	c := &Cluster{config: config, names: naming.New[Key]()}
	if config.CacheChanged != nil {
		c.published = &publishedBlocks{blockSize: config.Pools[0].Args.BlockSize, known: map[uint32]*publishedBlock{}}
	}
	f := fleet.Config{
		Transfer: config.Transfer, LimitMs: math.Inf(1), World: inside{c}, Recorder: inside{c}, Watcher: inside{c},
		KVEventLagMs: config.KVEventLagMs, Imports: config.Imports(),
	}
	for k, p := range config.Pools {
		c.workers[k] = make([]watched, p.Workers)
		p.Role, p.Setup = p.Args.Role, func(i int) engine.Setup { return c.setup(k, i) }
		f.Pools = append(f.Pools, p)
	}
	var err error
	if c.fleet, err = fleet.New(f); err != nil {
		panic("cluster: " + err.Error()) // only a planner asks for something that a router may lack
	}
	return c
}

// Imports reports whether requests may be Imported: there is one pool, and its engines take prompts over on demand.
func (c *Config) Imports() bool {
	return len(c.Pools) == 1 && fleet.Imports(c.Pools[0].Args)
}

// last returns the pool that makes answers.
func (c *Cluster) last() int { return len(c.config.Pools) - 1 }

// Requests returns the number of requests that the workers and routers have.
func (c *Cluster) Requests() int { return len(c.requests) - len(c.unused) }

// Err returns the reason why the cluster cannot go on, nil if it can: the durations of passes cannot be determined, or
// a router failed.
func (c *Cluster) Err() error { return c.failure }

// NextMs returns when something happens next, if no request arrives.
func (c *Cluster) NextMs() (atMs float64, ok bool) {
	atMs, ok = c.fleet.NextMs()
	return atMs, ok && c.failure == nil
}

// Step lets everything happen that is due before atMs, and what happens at this instant: passes and transfers end,
// requests arrive or are cancelled, workers start passes. Times must not go back.
func (c *Cluster) Step(atMs float64, arrivals, cancels []*Request) error {
	if c.failure != nil {
		return c.failure
	}
	c.fail(c.fleet.Until(atMs))
	c.arrivals = append(c.arrivals, arrivals...)
	for _, r := range cancels {
		c.cancel(r)
	}
	if c.failure == nil {
		c.fail(c.fleet.Happen())
	}
	c.reportLoads()
	return c.failure
}

// fail ends the cluster if there is an error.
func (c *Cluster) fail(err error) {
	if err != nil && c.failure == nil {
		c.failure = err
	}
}

// cancel withdraws a request, which its workers give up as soon as they are idle.
func (c *Cluster) cancel(r *Request) {
	if r.status == active && c.failure == nil {
		c.fail(c.fleet.Withdraw(r.state.ID))
	}
	r.status = over
}

// listens reports whether the sink of a request still receives what becomes of it.
func (c *Cluster) listens(r *Request) bool { return r.status == active && c.failure == nil }

// end tells a request that it is over, if it does not know.
func (c *Cluster) end(r *Request, reason string) {
	if c.listens(r) {
		r.Sink.Ended(reason, c.fleet.NowMs())
	}
	r.status = over
}

// NextMs implements [fleet.World]: no arrival is known beforehand.
func (inside) NextMs() (float64, bool) { return 0, false }

// Unreleased implements [fleet.World].
func (inside) Unreleased() int { return 0 }

// Next implements [fleet.World]. It gives requests the lowest ids that are not used.
func (c inside) Next(float64) (engine.RequestID, bool) {
	for len(c.arrivals) > 0 {
		r := c.arrivals[0]
		c.arrivals[0] = nil
		c.arrivals = c.arrivals[1:]
		if r.status != unknown { // cancelled before it arrived
			continue
		}
		c.take(r)
		return r.state.ID, true
	}
	return 0, false
}

// take gives a request an id.
func (c *Cluster) take(r *Request) {
	id := engine.RequestID(len(c.requests))
	if last := len(c.unused) - 1; last >= 0 {
		id, c.unused = c.unused[last], c.unused[:last]
		c.requests[id] = r
	} else {
		c.requests = append(c.requests, r)
	}
	r.state.ID, r.state.Outputs, r.status, r.arrived, r.sinceMs = id, r.OutputTokens, active, c.came, c.fleet.NowMs()
	r.workers = [2]int32{unassigned, unassigned}
	r.blocks = c.names.Hold(r.Keys)
	c.published.hold(r.blocks, r)
	r.Keys = nil
	c.came++
}

// prompt returns the numbers of the full blocks of a prompt, without those of the answer.
func (c *Cluster) prompt(r *Request) kvcache.Prompt {
	full := min(r.PromptTokens/c.config.Pools[0].Args.BlockSize, len(r.blocks))
	return kvcache.Prompt{Segments: r.blocks[:full:full], PerSegment: 1}
}

// Request implements [fleet.World].
func (c inside) Request(id engine.RequestID) engine.Request {
	r := c.requests[id]
	return engine.Request{
		ID: id, PromptTokens: r.PromptTokens, OutputTokens: r.OutputTokens,
		Prompt: kvcache.Prompt{Segments: r.blocks, PerSegment: 1}, NamedBlocks: len(r.blocks),
		Pull: r.Imported,
	}
}

// Prompt implements [fleet.World]. The token of a prefill worker is not part of any answer.
func (c inside) Prompt(id engine.RequestID) engine.Request {
	r := c.Request(id)
	r.Prompt = c.prompt(c.requests[id])
	r.NamedBlocks = len(r.Prompt.Segments)
	return r
}

// Routed implements [fleet.World].
func (c inside) ForRouter(asked engine.Request) router.Request {
	r := c.requests[asked.ID]
	routed := router.Request{
		ID: int32(asked.ID), Prompt: c.prompt(r), PromptTokens: r.PromptTokens, Priority: r.Priority,
		Session: r.Session, Tenant: r.Tenant,
	}
	if r.DeadlineMs > 0 {
		routed.DeadlineMs = r.sinceMs + r.DeadlineMs
	}
	return routed
}

// Name implements [fleet.World].
func (inside) Name(id engine.RequestID) string { return fmt.Sprintf("request %d", id) }

// Explain implements [fleet.World].
func (inside) Explain(err error) error { return err }

// BeforePass implements [fleet.World].
func (c inside) BeforePass(float64) error { return c.failure }

// Completing implements [fleet.World]: there is no planner.
func (inside) Completing(engine.RequestID, *planner.Traffic, bool) {}

// Over implements [fleet.World].
func (c inside) Over(id engine.RequestID, how fleet.Ending, reason string) {
	r := c.requests[id]
	if i := r.workers[c.last()]; i != unassigned {
		c.workers[c.last()][i].emitting.Drop(r)
	}
	if how == fleet.Rejected {
		reason = rejection(reason)
	}
	c.end(r, reason)
}
