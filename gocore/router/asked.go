package router

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"dynosim/gocore/kvcache"
)

// Decider is a rule that is not part of the program.
type Decider interface {
	// Begin is called once, before the first decision.
	Begin(Pool) (Wishes, error)
	// Decide answers a question. What it is given is valid during the call only. With an error, ID of the verdict is
	// the request at which the rule has failed, negative for none.
	Decide(*Question) (Verdict, error)
}

// Pool is what a [Decider] learns of the workers before it begins.
type Pool struct {
	Stage     string // as in Options
	Workers   int
	BlockSize int
	Blocks    int // that each worker has room for
}

// Wishes are what a [Decider] wants to be asked.
type Wishes struct {
	TickMs float64 // between two ticks, 0 for none
	// With MetricsMs above 0, questions contain the loads of the last poll, at 0, 1, 2, ... times MetricsMs.
	MetricsMs float64
	Replicas  int // routers that get the requests in turn, see askedReplicas; 0 is 1
}

// Question asks for the next decision. Requests that were kept before are known by their ids.
type Question struct {
	Stage   string
	Replica int // which of the replicas of a router asks, from 0
	AtMs    float64
	Why     Occasion
	New     *Request // the one that arrives now; nil for other occasions
	// Cached is how many leading blocks of the prompt of New workers have cached, by place; those without any are left
	// out.
	Cached []Cached
	// Left is what has left its worker since the question before, Withdrawn the kept requests that are not to be
	// decided any more.
	Left      []Left
	Withdrawn []int32

	// Workers lists those that get requests, if that has changed; nil if not. Then come their loads, by place.
	Workers       []int
	Requests      []int64 // in flight
	Queued        []int64 // of these, those whose prompts are not computed yet; none on decode workers
	PrefillTokens []int64 // of prompts, not cached and not computed yet
	ActiveBlocks  []int64 // distinct full blocks of the prompts in flight
}

// Occasion is why a [Decider] is asked.
type Occasion uint8

// Arrived is about the new request. Freed and Ticked are about all that are kept, and More about those that come after
// the one that the verdict before was about.
const (
	Arrived Occasion = iota
	Freed
	Ticked
	More
	// Ended tells what has left since the last question; nothing is to be decided.
	Ended
)

// Cached says how many leading blocks of a prompt a worker has.
type Cached struct{ Place, Blocks int }

// Left is a request that has left its worker.
type Left struct {
	ID     int32
	Worker int
	AtMs   float64
}

// Verdict is a decision about one request, or that all that were asked for are kept.
type Verdict struct {
	Decided bool
	ID      int32
	Place   int // of the worker, Refused to reject the request
	More    bool
}

// Refused is the worker of an [Admission] that rejects the request. Routers of decode workers must not refuse any.
const Refused = -1

// DecisionError says that the rule of a router outside of the program has failed at a request, or at a tick.
type DecisionError struct {
	AtMs float64
	ID   int32  // negative for a tick
	Name string // as messages call the request, if not by its number
	Err  error
}

func (e *DecisionError) Error() string {
	if e.ID < 0 {
		return fmt.Sprintf("router: at %v ms: %v", e.AtMs, e.Err)
	}
	return fmt.Sprintf("router: at %v ms, %s: %v", e.AtMs, cmp.Or(e.Name, fmt.Sprintf("request %d", e.ID)), e.Err)
}

// Unwrap returns what the rule has failed with.
func (e *DecisionError) Unwrap() error { return e.Err }

// Asked is a router whose decisions a [Decider] makes. It books requests as [KV] does, so that what it knows of workers
// is what a KV-aware router knows. What it books is not visible outside between two questions, so that events cost
// nothing.
type Asked struct {
	kv       *KV // its books; it never decides
	decider  Decider
	pool     Pool
	begun    bool
	tickMs   float64
	ticked   float64 // how many ticks there were
	requests []int64 // in flight, by worker
	queued   []int64 // of these, those whose prompts are not computed
	places   map[int32]place
	kept     []held
	workers  []int // that get requests, by place
	changed  bool  // the question has to name them
	left     []Left
	gone     []int32
	question Question
	gathered [3][]int64
	cached   []Cached
	admitted []Admission
	reports  *reported // nil for a router that counts its own requests
	number   int       // among replicas
}

// place is where a request is, and whether its prompt is not computed yet.
type place struct {
	worker int32
	queued bool
}

// held is a request that waits, and what was cached of its prompt when it arrived.
type held struct {
	request  Request
	overlaps []match
	sinceMs  float64
}

// NewAsked makes a router that asks Options.Decider.
func NewAsked(o Options) *Asked {
	o.Config = DefaultConfig().books(o.Stage)
	a := &Asked{
		kv: New(o), decider: o.Decider, places: map[int32]place{}, changed: true,
		pool: Pool{Stage: o.Stage, Workers: o.Workers, BlockSize: o.BlockSize, Blocks: o.Blocks},
	}
	a.kv.tracker.ranking = nil
	for id := range o.Workers {
		a.workers = append(a.workers, id)
	}
	a.requests, a.queued = make([]int64, o.Workers), make([]int64, o.Workers)
	return a
}

// books returns the configuration that books requests of a stage, and keeps none back.
func (c Config) books(stage string) Config {
	if stage == "decode" {
		c = c.DecodeStage()
	}
	c.Queueing, c.EstimatePrefill = false, false
	return c
}

var _ Elastic = (*Asked)(nil)

// Traits implements [Router].
func (*Asked) Traits() Traits { return Traits{Observes: true, Keeps: true} }

// Submit implements [Router].
func (a *Asked) Submit(r Request, nowMs float64) ([]Admission, error) {
	a.reports.poll(nowMs)
	a.admitted = a.admitted[:0]
	k := a.kv
	k.stretches = appendStretches(k.stretches[:0], r.Prompt, r.PromptTokens/k.blockSize)
	overlaps := slices.Clone(k.overlaps())
	a.kept = append(a.kept, held{r, overlaps, nowMs})
	a.question.New = &a.kept[len(a.kept)-1].request
	a.cached = a.cached[:0]
	for _, m := range overlaps {
		if place, there := slices.BinarySearch(a.workers, int(m.worker)); there {
			a.cached = append(a.cached, Cached{place, int(m.blocks)})
		}
	}
	return a.decide(Arrived, nowMs)
}

// begin lets the rule begin, once, and does what it wishes but for replicas.
func (a *Asked) begin(nowMs float64) (Wishes, error) {
	if a.begun {
		return Wishes{}, nil
	}
	wishes, err := a.decider.Begin(a.pool)
	if err != nil {
		return Wishes{}, err
	}
	a.start(wishes, nowMs)
	if wishes.MetricsMs > 0 {
		shareReports([]*Asked{a}, wishes.MetricsMs)
		a.reports.poll(nowMs)
	}
	return wishes, nil
}

// start notes that the rule has begun, and when it is asked next.
func (a *Asked) start(wishes Wishes, nowMs float64) {
	a.begun, a.tickMs = true, wishes.TickMs
	if a.tickMs > 0 {
		a.ticked = math.Floor(nowMs / a.tickMs)
	}
}

// replica returns another router, number n, that asks the same rule and knows the same workers and caches.
func (a *Asked) replica(o Options, n int) *Asked {
	r := NewAsked(o)
	r.number, r.begun, r.tickMs, r.ticked = n, a.begun, a.tickMs, a.ticked
	r.setWorkers(a.workers)
	r.kv.copyCaches(a.kv)
	return r
}

// decide asks until everything is decided that can be.
func (a *Asked) decide(why Occasion, nowMs float64) ([]Admission, error) {
	fail := func(id int32, err error) ([]Admission, error) {
		return a.admitted, &DecisionError{AtMs: nowMs, ID: id, Err: err}
	}
	if _, err := a.begin(nowMs); err != nil {
		return fail(-1, err)
	}
	for {
		q := a.ask(why, nowMs)
		v, err := a.decider.Decide(q)
		a.left, a.gone, a.changed, q.New, q.Cached = a.left[:0], a.gone[:0], false, nil, nil
		if err != nil {
			return fail(v.ID, err)
		}
		if !v.Decided {
			return a.admitted, nil
		}
		if err := a.carryOut(v, nowMs); err != nil {
			return fail(v.ID, err)
		}
		if !v.More {
			return a.admitted, nil
		}
		why = More
	}
}

// ask completes the question with what is known now.
func (a *Asked) ask(why Occasion, nowMs float64) *Question {
	q := &a.question
	q.Stage, q.Replica, q.AtMs, q.Why, q.Left, q.Withdrawn, q.Workers = a.pool.Stage, a.number, nowMs, why, a.left,
		a.gone, nil
	if q.New != nil {
		q.Cached = a.cached
	}
	if a.changed {
		q.Workers = a.workers
	}
	seen := a.seen()
	q.Requests = q.Requests[:0]
	a.gathered[0], a.gathered[1], a.gathered[2] = a.gathered[0][:0], a.gathered[1][:0], a.gathered[2][:0]
	for _, w := range a.workers {
		q.Requests = append(q.Requests, seen.requests[w])
		a.gathered[0] = append(a.gathered[0], seen.tokens[w])
		a.gathered[1] = append(a.gathered[1], seen.blocks[w])
		a.gathered[2] = append(a.gathered[2], seen.queued[w])
	}
	q.PrefillTokens, q.ActiveBlocks, q.Queued = a.gathered[0], a.gathered[1], a.gathered[2]
	return q
}

// carryOut books a request on the worker that was chosen for it.
func (a *Asked) carryOut(v Verdict, nowMs float64) error {
	i := slices.IndexFunc(a.kept, func(h held) bool { return h.request.ID == v.ID })
	if i < 0 || v.Place >= len(a.workers) || v.Place < Refused || v.Place == Refused && a.pool.Stage == "decode" {
		return fmt.Errorf("got worker %d of %d for request %d", v.Place, len(a.workers), v.ID)
	}
	h := a.kept[i]
	a.kept = slices.Delete(a.kept, i, i+1)
	if v.Place == Refused {
		a.admitted = append(a.admitted, Admission{ID: v.ID, Worker: Refused})
		return nil
	}
	worker, overlap := a.workers[v.Place], 0
	for _, m := range h.overlaps {
		if int(m.worker) == worker {
			overlap = int(m.blocks)
		}
	}
	k, r := a.kv, h.request
	blocks := r.PromptTokens / k.blockSize
	a.admitted = append(a.admitted, Admission{
		ID: r.ID, Worker: worker, OverlapBlocks: overlap, PromptBlocks: ceilDiv(r.PromptTokens, k.blockSize),
		WaitMs: nowMs - h.sinceMs,
	})
	a.requests[worker]++
	at := place{worker: int32(worker), queued: a.pool.Stage != "decode"}
	if at.queued {
		a.queued[worker]++
	}
	a.places[r.ID] = at
	k.stretches = appendStretches(k.stretches[:0], r.Prompt, blocks)
	return k.tracker.add(booking{
		id: r.ID, worker: int32(worker), prompt: r.Prompt, tokens: r.PromptTokens,
		uncached:  r.PromptTokens - overlap*k.blockSize,
		stretches: k.stretches, blocks: blocks,
	}, nowMs)
}

// again asks about the requests that are kept, if there are any.
func (a *Asked) again(why Occasion, nowMs float64) ([]Admission, error) {
	a.admitted = a.admitted[:0]
	if len(a.workers) == 0 || why != Ticked && len(a.kept) == 0 {
		return nil, nil
	}
	return a.decide(why, nowMs)
}

// PrefillCompleted implements [Router].
func (a *Asked) PrefillCompleted(id int32, nowMs float64) ([]Admission, error) {
	a.reports.poll(nowMs)
	if err := a.kv.tracker.prefillCompleted(id, nowMs); err != nil {
		return nil, err
	}
	if at := a.places[id]; at.queued {
		a.queued[at.worker]--
		a.places[id] = place{worker: at.worker}
	}
	return a.again(Freed, nowMs)
}

// Free implements [Router].
func (a *Asked) Free(id int32, nowMs float64) ([]Admission, error) {
	a.reports.poll(nowMs)
	at, active := a.places[id]
	if !active {
		return nil, nil
	}
	delete(a.places, id)
	a.requests[at.worker]--
	if at.queued {
		a.queued[at.worker]--
	}
	a.kv.stretches, _ = a.kv.tracker.free(id, nowMs, a.kv.stretches)
	a.left = append(a.left, Left{ID: id, Worker: int(at.worker), AtMs: nowMs})
	return a.again(Freed, nowMs)
}

// Cancel implements [Router].
func (a *Asked) Cancel(id int32, nowMs float64) ([]Admission, error) {
	if i := slices.IndexFunc(a.kept, func(h held) bool { return h.request.ID == id }); i >= 0 {
		a.kept = slices.Delete(a.kept, i, i+1)
		a.gone = append(a.gone, id)
		return nil, nil
	}
	return a.Free(id, nowMs)
}

// Apply implements [Router].
func (a *Asked) Apply(worker int, events []kvcache.Event) { a.kv.Apply(worker, events) }

// SetWorkers implements [Elastic].
func (a *Asked) SetWorkers(active []int, nowMs float64) ([]Admission, error) {
	a.reports.poll(nowMs)
	a.setWorkers(active)
	return a.again(Freed, nowMs)
}

func (a *Asked) setWorkers(active []int) {
	a.workers, a.changed = append(a.workers[:0], active...), true
	if n := len(active); n > 0 {
		a.kv.tracker.growTo(active[n-1] + 1)
		for len(a.requests) <= active[n-1] {
			a.requests, a.queued = append(a.requests, 0), append(a.queued, 0)
		}
	}
}

// Forget implements [Elastic].
func (a *Asked) Forget(worker int) { a.kv.Forget(worker) }

// Place implements [Placed].
func (a *Asked) Place(worker, replaced int) { a.kv.Place(worker, replaced) }

// Waiting implements [Elastic].
func (a *Asked) Waiting() int { return len(a.kept) }

// Queues implements [Elastic]. Requests that come while there is no worker wait elsewhere: a question needs a worker.
func (*Asked) Queues() bool { return false }

// NextTickMs implements [Ticker].
func (a *Asked) NextTickMs() float64 {
	if a.tickMs == 0 {
		return math.Inf(1)
	}
	return float64((a.ticked + 1) * a.tickMs)
}

// Tick implements [Ticker].
func (a *Asked) Tick(nowMs float64) ([]Admission, error) {
	a.reports.poll(nowMs)
	a.ticked++
	return a.again(Ticked, nowMs)
}

// Finish implements [Finisher]: the rule learns of what has left since it was asked the last time.
func (a *Asked) Finish(nowMs float64) error {
	if len(a.left) == 0 || !a.begun {
		return nil
	}
	if v, err := a.decider.Decide(a.ask(Ended, nowMs)); err != nil {
		return &DecisionError{AtMs: nowMs, ID: v.ID, Err: err}
	}
	a.left = a.left[:0]
	return nil
}
