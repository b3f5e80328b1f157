package frontend

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"dynosim/gocore/frontend/routing"
	"dynosim/gocore/guard"
	"dynosim/gocore/protocol/card"
	"dynosim/gocore/protocol/discovery"
	"dynosim/gocore/router"
	"dynosim/gocore/server/backend"
	"dynosim/gocore/server/deployment"
)

// pool is workers of one kind, with a lock around their router.
type pool struct {
	frontend *Frontend

	mu      sync.Mutex
	routing *routing.Pool
	workers map[uint64]*worker
	waiting map[int32]chan routing.Choice // requests that the router keeps back
	armed   bool                          // there is a timer for the next tick of the router
}

func newPool(f *Frontend, c routing.Config) *pool {
	return &pool{frontend: f, routing: routing.New(c), workers: map[uint64]*worker{},
		waiting: map[int32]chan routing.Choice{}}
}

func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.workers)
}

func (p *pool) add(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.workers[w.key.id] = w
	r := &w.card.RuntimeConfig
	p.note(p.routing.Add(w.key.id, r.DataParallelStartRank, r.DataParallelSize, p.frontend.nowMs()))
}

// remove takes a worker out. If it was the last one, requests that wait fail.
func (p *pool) remove(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.workers, w.key.id)
	p.note(p.routing.Remove(w.key.id, p.frontend.nowMs()))
	if len(p.workers) == 0 {
		for id, ch := range p.waiting {
			close(ch)
			delete(p.waiting, id)
		}
	}
}

// note tells requests that waited which workers they go to. p is locked.
func (p *pool) note(chosen []routing.Choice, err error) {
	p.report(err)
	for _, c := range chosen {
		if ch, waits := p.waiting[c.Request]; waits {
			delete(p.waiting, c.Request)
			ch <- c
		}
	}
}

// report logs an error of the router: a slip of the bookkeeping, or the end of a router outside of the program.
func (p *pool) report(err error) {
	if err == nil {
		return
	}
	p.frontend.config.Log.Error("the router", "cause", err)
	if decision := new(router.DecisionError); errors.As(err, &decision) && p.frontend.config.Failed != nil {
		p.frontend.config.Failed(err)
	}
}

// arm sets the timer of the router's next tick. p is locked.
func (p *pool) arm() {
	next := p.routing.NextTickMs()
	if p.armed || math.IsInf(next, 1) || p.frontend.life.Err() != nil {
		return
	}
	p.armed = true
	time.AfterFunc(time.Duration((next-p.frontend.nowMs())*1e6), guard.Func(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.armed = false
		if p.frontend.life.Err() == nil {
			p.note(p.routing.Tick(p.frontend.nowMs()))
			p.arm()
		}
	}))
}

var (
	// errRefused is the error of a request that the router has rejected.
	errRefused = errors.New(deployment.Refused)
	// errNoWorkers is the error of a request for which there is no worker.
	errNoWorkers = errors.New("there is no worker")
	// errGone is the error of a request whose worker has gone before it was sent.
	errGone = errors.New("the worker has gone")
)

// booking is a request that has a worker.
type booking struct {
	pool   *pool
	id     int32
	worker *worker
	choice routing.Choice
	begun  bool
}

// pick waits for the worker of a request.
func (p *pool) pick(ctx context.Context, r routing.Request) (*booking, error) {
	ch := make(chan routing.Choice, 1)
	p.mu.Lock()
	if len(p.workers) == 0 {
		p.mu.Unlock()
		return nil, errNoWorkers
	}
	id, chosen, err := p.routing.Submit(r, p.frontend.nowMs())
	p.arm()
	p.waiting[id] = ch
	p.note(chosen, err)
	if _, waits := p.waiting[id]; waits && err != nil {
		delete(p.waiting, id)
		close(ch)
	}
	p.mu.Unlock()
	var c routing.Choice
	known := false
	select {
	case c, known = <-ch:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, id)
	w := p.workers[c.Worker]
	if known && w != nil && !c.Refused {
		w.load.open.Add(1)
		return &booking{pool: p, id: id, worker: w, choice: c}, nil
	}
	p.note(p.routing.Free(id, p.frontend.nowMs()))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case c.Refused:
		return nil, errRefused
	case len(p.workers) > 0: // the worker has gone since it was chosen
		return nil, errGone
	default:
		return nil, errNoWorkers
	}
}

// overlap returns how many tokens of the prompt the router took to be cached.
func (b *booking) overlap() int { return b.choice.CachedBlocks * b.worker.card.KVCacheBlockSize }

// name returns how pages call a worker.
func (w *worker) name() string {
	name := discovery.Hex(w.key.id)
	if kind := w.card.WorkerType; kind == card.Prefill || kind == card.Decode {
		name = string(kind) + " " + name
	}
	return name
}

// Workers implements [backend.Watched].
func (m *model) Workers() (list []backend.Worker) {
	m.mu.Lock()
	groups := slices.Clone(m.groups)
	m.mu.Unlock()
	for _, g := range groups {
		for _, p := range []*pool{g.prefill, g.answer} {
			if p != nil {
				list = p.loads(list)
			}
		}
	}
	slices.SortFunc(list, func(a, b backend.Worker) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// loads appends the loads of the workers.
func (p *pool) loads(list []backend.Worker) []backend.Worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.workers {
		open, begun := int(w.load.open.Load()), int(w.load.begun.Load())
		list = append(list, backend.Worker{
			Name: w.name(), Waiting: max(0, open-begun), Running: begun, LookedUp: int(w.load.lookedUp.Load()),
			Reused: int(w.load.reused.Load()),
		})
	}
	return list
}

// tokensCame notes that the worker has computed the prompt.
func (b *booking) tokensCame() {
	if b.begun {
		return
	}
	b.begun = true
	b.worker.load.begun.Add(1)
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	b.pool.routing.Succeeded(b.worker.key.id)
	b.pool.note(b.pool.routing.FirstToken(b.id, b.pool.frontend.nowMs()))
}

// free notes that the worker does not have the request any more.
func (b *booking) free() {
	b.worker.load.open.Add(-1)
	if b.begun {
		b.worker.load.begun.Add(-1)
	}
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	b.pool.note(b.pool.routing.Free(b.id, b.pool.frontend.nowMs()))
}

// overloadPauseMs is how long a worker without room gets no other request.
const overloadPauseMs = 200

// errUnlisted is the error of a request for a worker that is left out, as the router does not know.
var errUnlisted = errors.New("the worker is not on the list")

// listed reports whether the worker is on the list.
func (b *booking) listed() bool {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	return b.pool.routing.Listed(b.worker.key.id, b.pool.frontend.nowMs())
}

// failed notes why the worker does not serve the request: requests avoid it for a while.
func (b *booking) failed(overloaded bool, how routing.Failure) {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if overloaded {
		b.pool.routing.Avoid(b.worker.key.id, overloadPauseMs, b.pool.frontend.nowMs())
		return
	}
	b.pool.routing.Failed(b.worker.key.id, how, b.pool.frontend.nowMs())
}
