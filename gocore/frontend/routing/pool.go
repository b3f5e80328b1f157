package routing

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/router"
)

// Mode is how workers are chosen.
type Mode int

// The modes.
const (
	RoundRobin Mode = iota
	Random
	KV
	Ruled // by the router that Config.Rule makes
)

// Rule makes routers of a kind that is not built in here.
type Rule struct {
	// Make makes the router of a pool, which has no workers yet. The name tells pools of the same stage apart.
	Make func(name string, o router.Options) router.Elastic
	// UsesEvents reports whether these routers receive cache events. Others that remember prompts know them by hashes.
	UsesEvents bool
}

// Request is what is known of a request when a worker is chosen for it.
type Request struct {
	Prompt          []uint32
	CacheSalt       string // prompts with different ones share nothing
	Priority        int64
	Session, Tenant string
	DeadlineMs      float64 // the time by which its first token should be there, 0 for none
}

// Config describes a pool of workers.
type Config struct {
	Mode      Mode
	Rules     Rules
	BlockSize int           // tokens
	Router    router.Config // of KV
	// MaxNumBatchedTokens is what a worker computes in one pass at most, 0 if it does not say.
	MaxNumBatchedTokens int
	Rand                *rand.Rand
	Stage               string // "", "prefill" or "decode": names the router in errors
	Rule                Rule   // of Ruled
	Name                string // of the pool, for the rule
	Blocks              int    // that a worker has room for
}

// UsesEvents reports whether the router goes by cache events.
func (m Mode) UsesEvents(r Rule) bool { return m == KV || m == Ruled && r.UsesEvents }

// Pool is the workers that may serve the same requests. It is not safe for concurrent use. Times must not go back.
type Pool struct {
	config  Config
	workers []*worker      // in the order in which they came
	turn    int            // place of the worker whose turn it is
	slots   map[int]slot   // by the id that the router has for them
	made    int            // slots; the ids of those that have gone are not used again
	router  router.Elastic // nil for workers in turn or at random
	blocks  *blocks        // nil if the router receives no cache events
	active  []int          // ids of the slots that get requests
	last    int32          // id of a request
	open    map[int32]*request
}

// worker is one worker of a pool.
type worker struct {
	id        uint64
	slots     []int // of its ranks
	firstRank int
	badUntil  float64 // ms; it is avoided before
	failures  int     // in a row
}

// slot is a data-parallel rank of a worker.
type slot struct {
	worker *worker
	rank   int
	cache  *cached
}

// request is one that has not ended.
type request struct {
	blocks []uint32
	chosen bool
}

// Choice is the worker of a request.
type Choice struct {
	Request int32
	Worker  uint64
	// Rank is the data-parallel rank; without Ranked the worker chooses it.
	Rank   int
	Ranked bool
	// CachedBlocks is how many leading blocks of the prompt the worker has cached, as far as that is known.
	CachedBlocks int
	// Refused tells that the router rejects the request.
	Refused bool
}

// New returns a pool without workers.
func New(c Config) *Pool {
	p := &Pool{config: c, slots: map[int]slot{}, open: map[int32]*request{}}
	if c.Mode != KV && c.Mode != Ruled {
		return p
	}
	batch := c.MaxNumBatchedTokens
	if batch == 0 {
		batch = 8192 // what an engine takes that does not say
	}
	o := router.Options{
		Config: c.Router, BlockSize: c.BlockSize, MaxNumBatchedTokens: batch, Rand: c.Rand, Stage: c.Stage,
		Blocks:     max(1, c.Blocks),
		LowerTiers: true,
	}
	if c.Mode.UsesEvents(c.Rule) {
		p.blocks = newBlocks()
	}
	if c.Mode == KV {
		p.router = router.NewKV(o)
	} else {
		p.router = c.Rule.Make(c.Name, o)
	}
	_, _ = p.router.SetWorkers(nil, 0) // workers come later
	return p
}

// Len returns the number of workers.
func (p *Pool) Len() int { return len(p.workers) }

// Add adds a worker whose ranks are firstRank to firstRank+ranks-1. Requests that waited may be sent to it.
func (p *Pool) Add(id uint64, firstRank, ranks int, nowMs float64) ([]Choice, error) {
	w := &worker{id: id, firstRank: firstRank}
	p.workers = append(p.workers, w)
	if p.router == nil {
		return nil, nil
	}
	for rank := range ranks {
		w.slots = append(w.slots, p.made)
		s := slot{worker: w, rank: firstRank + rank}
		if p.blocks != nil {
			s.cache = p.blocks.newCache()
		}
		p.slots[p.made] = s
		p.made++
	}
	return p.refresh(nowMs)
}

// Remove takes a worker out. Requests that it has are freed by their owner.
func (p *Pool) Remove(id uint64, nowMs float64) ([]Choice, error) {
	i := p.place(id)
	if i < 0 {
		return nil, nil
	}
	for _, s := range p.workers[i].slots {
		p.router.Forget(s)
		if p.blocks != nil {
			p.blocks.drop(p.slots[s].cache)
		}
		delete(p.slots, s)
	}
	p.workers = slices.Delete(p.workers, i, i+1)
	if p.turn > i {
		p.turn--
	}
	return p.refresh(nowMs)
}

func (p *Pool) place(id uint64) int {
	return slices.IndexFunc(p.workers, func(w *worker) bool { return w.id == id })
}

// Pauses of a worker that has failed, in ms: the first one, doubled with each further failure.
const (
	shortestPauseMs = 1000
	longestPauseMs  = 8000
)

// Avoid gives a worker no requests for a while, unless no other worker is left.
func (p *Pool) Avoid(id uint64, durationMs, nowMs float64) {
	if i := p.place(id); i >= 0 {
		p.workers[i].badUntil = max(p.workers[i].badUntil, nowMs+durationMs)
	}
}

// Succeeded notes that a worker serves requests.
func (p *Pool) Succeeded(id uint64) {
	if i := p.place(id); i >= 0 && p.config.Rules == OwnRules { // the others wait for the next listing
		p.workers[i].failures, p.workers[i].badUntil = 0, 0
	}
}

// usable returns the workers that get requests now.
func (p *Pool) usable(nowMs float64) []*worker {
	if p.choosesUnlisted() {
		return p.workers
	}
	good := make([]*worker, 0, len(p.workers))
	for _, w := range p.workers {
		if w.badUntil <= nowMs {
			good = append(good, w)
		}
	}
	if len(good) == 0 {
		return p.workers
	}
	return good
}

// refresh tells the router which workers get requests, if that has changed.
func (p *Pool) refresh(nowMs float64) ([]Choice, error) {
	if p.router == nil {
		return nil, nil
	}
	var active []int
	for _, w := range p.usable(nowMs) {
		active = append(active, w.slots...)
	}
	slices.Sort(active)
	if slices.Equal(active, p.active) {
		return nil, nil
	}
	p.active = active
	admitted, err := p.router.SetWorkers(active, nowMs)
	return p.choices(admitted), err
}

// Submit asks for a worker for a request. The first result is its id. It is among the choices unless it has to wait;
// then it is among those of a later call. There must be a worker.
func (p *Pool) Submit(asked Request, nowMs float64) (id int32, chosen []Choice, err error) {
	if len(p.workers) == 0 {
		return 0, nil, fmt.Errorf("there is no worker")
	}
	p.last = max(p.last+1, 1)
	id = p.last
	if p.router == nil {
		return id, []Choice{{Request: id, Worker: p.simple(nowMs).id}}, nil
	}
	chosen, err = p.refresh(nowMs)
	if err != nil {
		return id, chosen, err
	}
	r := &request{}
	named := hashed(asked.Prompt, p.config.BlockSize, asked.CacheSalt)
	if p.blocks != nil {
		r.blocks = p.blocks.hold(asked.Prompt, p.config.BlockSize, asked.CacheSalt)
		named = r.blocks
	}
	p.open[id] = r
	admitted, err := p.router.Submit(router.Request{
		ID: id, Prompt: kvcache.Prompt{Segments: named, PerSegment: 1}, PromptTokens: len(asked.Prompt),
		Priority: asked.Priority,
		Session:  asked.Session, Tenant: asked.Tenant, DeadlineMs: asked.DeadlineMs,
	}, nowMs)
	return id, append(chosen, p.choices(admitted)...), err
}

// simple chooses a worker in turn or at random.
func (p *Pool) simple(nowMs float64) *worker {
	usable := p.usable(nowMs)
	if p.config.Mode == Random {
		return usable[p.config.Rand.IntN(len(usable))]
	}
	for {
		w := p.workers[p.turn%len(p.workers)]
		p.turn = p.turn%len(p.workers) + 1
		if slices.Contains(usable, w) {
			return w
		}
	}
}

func (p *Pool) choices(admitted []router.Admission) []Choice {
	var all []Choice
	for _, a := range admitted {
		if a.Worker == router.Refused {
			all = append(all, Choice{Request: a.ID, Refused: true})
			continue
		}
		s := p.slots[a.Worker]
		if r := p.open[a.ID]; r != nil {
			r.chosen = true
		}
		all = append(all, Choice{Request: a.ID, Worker: s.worker.id, Rank: s.rank, Ranked: true,
			CachedBlocks: a.OverlapBlocks})
	}
	return all
}

// FirstToken notes that the prompt of a request has been computed.
func (p *Pool) FirstToken(id int32, nowMs float64) ([]Choice, error) {
	if r := p.open[id]; p.router == nil || r == nil || !r.chosen || p.config.Stage == "decode" {
		return nil, nil
	}
	admitted, err := p.router.PrefillCompleted(id, nowMs)
	return p.choices(admitted), err
}

// Free notes that a request has left its worker, or is not wanted any more. An unknown one changes nothing.
func (p *Pool) Free(id int32, nowMs float64) ([]Choice, error) {
	r := p.open[id]
	if r == nil {
		return nil, nil
	}
	delete(p.open, id)
	admitted, err := p.router.Cancel(id, nowMs)
	if p.blocks != nil {
		p.blocks.release(r.blocks)
	}
	return p.choices(admitted), err
}

// NextTickMs returns when the router wants to be told the time, +Inf for never.
func (p *Pool) NextTickMs() float64 {
	if t, ticks := p.router.(router.Ticker); ticks {
		return t.NextTickMs()
	}
	return math.Inf(1)
}

// Tick passes the time to the router, once for each tick that is due.
func (p *Pool) Tick(nowMs float64) (chosen []Choice, err error) {
	for t := p.NextTickMs(); err == nil && t <= nowMs; t = p.NextTickMs() {
		var admitted []router.Admission
		admitted, err = p.router.(router.Ticker).Tick(t)
		chosen = append(chosen, p.choices(admitted)...)
	}
	return chosen, err
}
