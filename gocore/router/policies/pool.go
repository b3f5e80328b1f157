package policies

import (
	"dynosim/gocore/kvcache"
	"dynosim/gocore/router"
)

// chance draws numbers from 0 to n-1.
type chance interface{ IntN(n int) int }

// rule chooses workers. It learns of every request that it sent, in order.
type rule interface {
	// choose returns the worker of a request, one of v.workers. It changes nothing that later decisions depend on.
	choose(v *view, r *router.Request, draw chance) int
	// sent notes that the request went to a worker.
	sent(v *view, r *router.Request, worker int)
	// ended notes that a request has left its worker.
	ended(key string, worker int)
	// forget notes that a worker is gone.
	forget(worker int)
}

// memoryless is the part of a rule that remembers nothing.
type memoryless struct{}

func (memoryless) sent(*view, *router.Request, int) {}
func (memoryless) ended(string, int)                {}
func (memoryless) forget(int)                       {}

// view is what a decision sees of the workers.
type view struct {
	workers []int // that get requests, by ascending id; never empty in a decision
	active  []bool
	loads
	nowMs float64
}

// has reports whether a worker gets requests.
func (v *view) has(worker int) bool { return worker < len(v.active) && v.active[worker] }

// loads are requests in flight and the tokens of their prompts, by id of the worker.
type loads struct {
	requests []int
	tokens   []int64
}

func (l *loads) growTo(workers int) {
	for len(l.requests) < workers {
		l.requests = append(l.requests, 0)
		l.tokens = append(l.tokens, 0)
	}
}

func (l *loads) add(worker, requests int, tokens int64) {
	l.requests[worker] += requests
	l.tokens[worker] += tokens
}

// reports are the loads of workers as all routers of a pool can poll them.
type reports struct {
	clock  router.PollClock
	now    loads
	polled loads
}

// poll brings what was polled up to date. It must be called before the loads of this instant change: nothing has
// changed since the last call, so that the polls in between all saw the same.
func (r *reports) poll(nowMs float64) {
	if !r.clock.Due(nowMs) {
		return
	}
	r.polled.requests = append(r.polled.requests[:0], r.now.requests...)
	r.polled.tokens = append(r.polled.tokens[:0], r.now.tokens...)
}

// pool is the router of one pool of workers that follows a rule. It implements [router.Elastic].
type pool struct {
	replicas []replica
	next     int // the replica that gets the next request
	workers  []int
	active   []bool
	draw     chance
	reports  *reports // nil if routers count their own requests
	placed   map[int32]placement
	request  router.Request // the one that is being submitted
	polled   view           // what it sees if loads are polled
	admitted [1]router.Admission
}

// replica is one of the routers in front of the pool, with what it knows.
type replica struct {
	rule rule
	view view
}

// placement is where a request is.
type placement struct {
	worker, replica int32
	tokens          int64
	key             string
}

var _ router.Elastic = (*pool)(nil)

func newPool(make func(router.Options) rule, o router.Options) *pool {
	p := &pool{draw: o.Rand, placed: map[int32]placement{}}
	for range o.Settings.Int("router_replicas") {
		p.replicas = append(p.replicas, replica{rule: make(o)})
	}
	if o.Settings.Given("metrics_interval_ms") {
		p.reports = &reports{clock: router.PollClock{EveryMs: o.Settings.Float("metrics_interval_ms")}}
	}
	workers := []int{}
	for id := range o.Workers {
		workers = append(workers, id)
	}
	p.setWorkers(workers)
	return p
}

// Traits implements [router.Router].
func (*pool) Traits() router.Traits { return router.Traits{} }

// Submit implements [router.Router].
func (p *pool) Submit(r router.Request, nowMs float64) ([]router.Admission, error) {
	n := p.next
	p.next = (n + 1) % len(p.replicas)
	a := &p.replicas[n]
	v := &a.view
	v.nowMs, v.workers, v.active = nowMs, p.workers, p.active
	seen := v
	if p.reports != nil {
		p.reports.poll(nowMs)
		p.polled = *v
		p.polled.loads = p.reports.polled
		seen = &p.polled
	}
	p.request = r
	worker := a.rule.choose(seen, &p.request, p.draw)
	a.rule.sent(seen, &p.request, worker)
	v.add(worker, 1, int64(r.PromptTokens))
	if p.reports != nil {
		p.reports.now.add(worker, 1, int64(r.PromptTokens))
	}
	p.placed[r.ID] = placement{worker: int32(worker), replica: int32(n), tokens: int64(r.PromptTokens), key: r.Session}
	p.admitted[0] = router.Admission{ID: r.ID, Worker: worker}
	return p.admitted[:], nil
}

// PrefillCompleted implements [router.Router].
func (*pool) PrefillCompleted(int32, float64) ([]router.Admission, error) { return nil, nil }

// Free implements [router.Router].
func (p *pool) Free(id int32, nowMs float64) ([]router.Admission, error) {
	at, known := p.placed[id]
	if !known {
		return nil, nil
	}
	delete(p.placed, id)
	if p.reports != nil {
		p.reports.poll(nowMs)
		p.reports.now.add(int(at.worker), -1, -at.tokens)
	}
	a := &p.replicas[at.replica]
	a.view.add(int(at.worker), -1, -at.tokens)
	a.rule.ended(at.key, int(at.worker))
	return nil, nil
}

// Cancel implements [router.Router].
func (p *pool) Cancel(id int32, nowMs float64) ([]router.Admission, error) { return p.Free(id, nowMs) }

// Apply implements [router.Router].
func (*pool) Apply(int, []kvcache.Event) {}

// SetWorkers implements [router.Elastic].
func (p *pool) SetWorkers(active []int, _ float64) ([]router.Admission, error) {
	p.setWorkers(active)
	return nil, nil
}

func (p *pool) setWorkers(ids []int) {
	p.workers = append(p.workers[:0], ids...)
	clear(p.active)
	for _, id := range ids {
		if id >= len(p.active) {
			p.active = append(p.active, make([]bool, id+1-len(p.active))...)
		}
		p.active[id] = true
	}
	for i := range p.replicas {
		p.replicas[i].view.growTo(len(p.active))
	}
	if p.reports != nil {
		p.reports.now.growTo(len(p.active))
		p.reports.polled.growTo(len(p.active)) // a worker is not polled before it is there
	}
}

// Forget implements [router.Elastic].
func (p *pool) Forget(worker int) {
	for i := range p.replicas {
		p.replicas[i].rule.forget(worker)
	}
}

// Waiting implements [router.Elastic].
func (*pool) Waiting() int { return 0 }

// Queues implements [router.Elastic].
func (*pool) Queues() bool { return false }

// least returns the first of some workers with the smallest load.
func least[N int | int64](workers []int, load []N) int {
	best := workers[0]
	for _, w := range workers[1:] {
		if load[w] < load[best] {
			best = w
		}
	}
	return best
}

// drawLeast draws one of the workers with the smallest load.
func drawLeast[N int | int64](workers []int, load []N, draw chance) int {
	smallest, ties := load[least(workers, load)], 0
	for _, w := range workers {
		if load[w] == smallest {
			ties++
		}
	}
	skip := 0
	if ties > 1 {
		skip = draw.IntN(ties)
	}
	for _, w := range workers {
		if load[w] == smallest {
			if skip == 0 {
				return w
			}
			skip--
		}
	}
	panic("policies: no worker has the smallest load")
}

// mean returns the mean number of requests in flight of the workers.
func (v *view) mean() float64 {
	total := 0
	for _, w := range v.workers {
		total += v.requests[w]
	}
	return float64(total) / float64(len(v.workers))
}
