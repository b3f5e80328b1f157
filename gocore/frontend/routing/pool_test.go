package routing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/router"
)

func newPool(t *testing.T, mode Mode, workers ...uint64) *Pool {
	t.Helper()
	p := New(Config{Mode: mode, BlockSize: 4, Router: router.DefaultConfig(), Rand: rand.New(rand.NewPCG(1, 2))})
	for _, id := range workers {
		if _, err := p.Add(id, 0, 1, 0); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// submit returns the worker of a request, which must not wait.
func submit(t *testing.T, p *Pool, prompt []uint32, nowMs float64) Choice {
	t.Helper()
	id, chosen, err := p.Submit(Request{Prompt: prompt}, nowMs)
	if err != nil || len(chosen) != 1 || chosen[0].Request != id {
		t.Fatalf("got %v, %v, want a worker for request %d", chosen, err, id)
	}
	return chosen[0]
}

func prompt(first uint32, tokens int) []uint32 {
	list := make([]uint32, tokens)
	for i := range list {
		list[i] = first + uint32(i)
	}
	return list
}

// stored returns the event of a worker that has cached a prompt, which names blocks by hashes of its own.
func stored(tokens []uint32, named uint64) Event {
	var e Event
	for i := range len(tokens) / 4 {
		e.Stored = append(e.Stored, Block{Hash: named + uint64(i), TokensHash: kvcache.BlockHash(tokens[4*i : 4*i+4])})
	}
	return e
}

// TestTurns: workers take turns as they come and go, and one that has failed is left out for a while, unless it is the
// only one.
func TestTurns(t *testing.T) {
	p := newPool(t, RoundRobin, 1, 2, 3)
	turns := func(n int, nowMs float64) (got []uint64) {
		for range n {
			got = append(got, submit(t, p, prompt(0, 4), nowMs).Worker)
		}
		return got
	}
	if got := turns(4, 0); !slices.Equal(got, []uint64{1, 2, 3, 1}) {
		t.Errorf("got %v", got)
	}
	if _, err := p.Remove(1, 0); err != nil {
		t.Fatal(err)
	}
	if got := turns(3, 0); !slices.Equal(got, []uint64{2, 3, 2}) {
		t.Errorf("without worker 1: %v", got)
	}
	p.Failed(3, Refused, 0)
	if got := turns(2, shortestPauseMs-1); !slices.Equal(got, []uint64{2, 2}) {
		t.Errorf("after a failure of worker 3: %v", got)
	}
	if got := turns(2, shortestPauseMs); !slices.Contains(got, 3) {
		t.Errorf("after the pause: %v", got)
	}
	for range 20 {
		p.Failed(3, Refused, 5000)
	}
	if got := turns(2, 5000+longestPauseMs); !slices.Contains(got, 3) {
		t.Errorf("after the longest pause: %v", got)
	}
	p.Failed(2, Refused, 20000)
	p.Failed(3, Refused, 20000)
	if got := turns(2, 20000); len(got) != 2 {
		t.Errorf("with failures of all workers: %v", got)
	}
	p.Succeeded(2)
	if got := turns(2, 20000); !slices.Equal(got, []uint64{2, 2}) {
		t.Errorf("after a success of worker 2: %v", got)
	}
}

// TestRandom draws workers among those that there are.
func TestRandom(t *testing.T) {
	p := newPool(t, Random, 1, 2, 3)
	seen := map[uint64]int{}
	for range 300 {
		seen[submit(t, p, prompt(0, 4), 0).Worker]++
	}
	if len(seen) != 3 || seen[1] < 50 || seen[2] < 50 || seen[3] < 50 {
		t.Errorf("got %v", seen)
	}
}

// TestCachedBlocks: a prompt goes where its blocks are cached, until they are removed.
func TestCachedBlocks(t *testing.T) {
	p := newPool(t, KV, 1, 2)
	long := prompt(100, 40)
	p.Apply(2, 0, stored(long[:20], 7000))
	rest, parent := stored(long, 7000), uint64(7004)
	rest.Stored, rest.Parent = rest.Stored[5:], &parent
	p.Apply(2, 0, rest)
	p.Apply(9, 0, rest) // no such worker
	p.Apply(2, 3, rest) // no such rank
	for range 5 {
		c := submit(t, p, long, 0)
		if c.Worker != 2 || c.CachedBlocks != 10 || !c.Ranked {
			t.Errorf("got %+v, want worker 2 with 10 blocks", c)
		}
		free(t, p, c.Request)
	}
	p.Apply(2, 0, Event{Removed: []uint64{7003, 7003, 1}})
	c := submit(t, p, long, 0)
	if c.CachedBlocks != 3 {
		t.Errorf("got %d blocks after the fourth was removed, want 3", c.CachedBlocks)
	}
	free(t, p, c.Request)
	p.Apply(2, 0, Event{Cleared: true})
	if c = submit(t, p, long, 0); c.CachedBlocks != 0 {
		t.Errorf("got %d blocks of an empty cache", c.CachedBlocks)
	}
	free(t, p, c.Request)
	if n := p.blocks.names.Len(); n != 0 {
		t.Errorf("%d blocks have names although nothing is cached", n)
	}
}

func free(t *testing.T, p *Pool, id int32) []Choice {
	t.Helper()
	chosen, err := p.Free(id, 0)
	if err != nil {
		t.Fatal(err)
	}
	return chosen
}

// TestUnknownParent: blocks after one that is not known are left out, as no prompt is found to reach them.
func TestUnknownParent(t *testing.T) {
	p := newPool(t, KV, 1)
	e, parent := stored(prompt(0, 8), 50), uint64(49)
	e.Parent = &parent
	p.Apply(1, 0, e)
	if n := p.blocks.names.Len(); n != 0 {
		t.Errorf("%d blocks have names", n)
	}
}

// TestLoad: requests that are open keep others away, and what a worker that has gone had cached is forgotten.
func TestLoad(t *testing.T) {
	p := newPool(t, KV, 1, 2)
	first, second := submit(t, p, prompt(0, 400), 0), submit(t, p, prompt(1000, 400), 0)
	if first.Worker == second.Worker {
		t.Errorf("both requests are at worker %d", first.Worker)
	}
	if _, err := p.FirstToken(first.Request, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Remove(second.Worker, 2); err != nil {
		t.Fatal(err)
	}
	free(t, p, second.Request)
	free(t, p, second.Request) // a second time changes nothing
	if c := submit(t, p, prompt(1000, 400), 2); c.Worker != first.Worker {
		t.Errorf("got worker %d, which has gone", c.Worker)
	}
}

// TestQueue: while all workers have more to compute than the threshold allows, requests wait in the router; those that
// end, and workers that come, let them go.
func TestQueue(t *testing.T) {
	config, _, err := router.ParseConfig(`{"router_queue_threshold": 1}`)
	if err != nil {
		t.Fatal(err)
	}
	p := New(Config{Mode: KV, BlockSize: 4, Router: config, MaxNumBatchedTokens: 100,
		Rand: rand.New(rand.NewPCG(1, 2))})
	if _, err := p.Add(1, 0, 1, 0); err != nil {
		t.Fatal(err)
	}
	first := submit(t, p, prompt(0, 400), 0)
	var waiting []int32
	for i := range 3 {
		id, chosen, err := p.Submit(Request{Prompt: prompt(uint32(1000*i), 400)}, 1)
		if err != nil || len(chosen) != 0 {
			t.Fatalf("got %v, %v, want that it waits", chosen, err)
		}
		waiting = append(waiting, id)
	}
	free(t, p, waiting[1]) // it is not wanted any more
	if got := free(t, p, first.Request); len(got) != 1 || got[0].Request != waiting[0] {
		t.Errorf("got %v, want request %d", got, waiting[0])
	}
	chosen, err := p.Add(2, 0, 1, 2)
	if err != nil || fmt.Sprint(chosen) != fmt.Sprintf("[{%d 2 0 true 0 false}]", waiting[2]) {
		t.Errorf("got %v, %v, want request %d at worker 2", chosen, err, waiting[2])
	}
}

// TestRanks: each rank is chosen by itself.
func TestRanks(t *testing.T) {
	p := New(Config{Mode: KV, BlockSize: 4, Router: router.DefaultConfig(), Rand: rand.New(rand.NewPCG(1, 2))})
	if _, err := p.Add(7, 2, 3, 0); err != nil {
		t.Fatal(err)
	}
	long := prompt(0, 80)
	p.Apply(7, 4, stored(long, 1))
	if c := submit(t, p, long, 0); c.Rank != 4 || c.Worker != 7 || c.CachedBlocks != 20 {
		t.Errorf("got %+v", c)
	}
}

// TestForgets: workers that have gone leave nothing behind.
func TestForgets(t *testing.T) {
	p := newPool(t, KV, 1)
	for id := uint64(2); id < 50; id++ {
		if _, err := p.Add(id, 0, 2, 0); err != nil {
			t.Fatal(err)
		}
		p.Apply(id, 1, stored(prompt(0, 80), 1))
		if _, err := p.Remove(id, 0); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.slots) != 1 || len(p.workers) != 1 || p.blocks.names.Len() != 0 {
		t.Errorf("got %d ranks, %d workers and %d blocks, want what belongs to worker 1", len(p.slots), len(p.workers),
			p.blocks.names.Len())
	}
	if c := submit(t, p, prompt(0, 80), 0); c.Worker != 1 || c.CachedBlocks != 0 {
		t.Errorf("got %+v", c)
	}
}

// decider sends requests to the first worker, keeps them while it has one, and rejects those of a tenant.
type decider struct {
	asked []router.Question
	heard router.Request // the last new one
	busy  int
	kept  []int32
}

func (d *decider) Begin(router.Pool) (router.Wishes, error) { return router.Wishes{TickMs: 10}, nil }

func (d *decider) Decide(q *router.Question) (router.Verdict, error) {
	d.asked = append(d.asked, *q)
	d.busy -= len(q.Left)
	if q.New != nil {
		d.heard = *q.New
	}
	switch {
	case q.New != nil && q.New.Tenant == "unwanted":
		return router.Verdict{Decided: true, ID: q.New.ID, Place: router.Refused}, nil
	case q.New != nil:
		d.kept = append(d.kept, q.New.ID)
	}
	if d.busy > 0 || len(d.kept) == 0 {
		return router.Verdict{}, nil
	}
	v := router.Verdict{Decided: true, ID: d.kept[0]}
	d.kept, d.busy = d.kept[1:], 1
	return v, nil
}

// TestRule: a rule from elsewhere gets what is known of requests and of caches, keeps and rejects requests, and gets
// the time.
func TestRule(t *testing.T) {
	d := &decider{}
	rule := Rule{UsesEvents: true, Make: func(name string, o router.Options) router.Elastic {
		if name != "m" || o.Blocks != 7 {
			t.Errorf("the router is made for %q with %d blocks", name, o.Blocks)
		}
		o.Decider = d
		return router.NewAsked(o)
	}}
	p := New(Config{Mode: Ruled, Rule: rule, Name: "m", Blocks: 7, BlockSize: 4, Router: router.DefaultConfig(),
		Rand: rand.New(rand.NewPCG(1, 2))})
	for _, id := range []uint64{70, 60} {
		if _, err := p.Add(id, 0, 1, 0); err != nil {
			t.Fatal(err)
		}
	}
	long := prompt(100, 40)
	p.Apply(60, 0, stored(long[:20], 7000))
	ask := func(tenant string) (int32, []Choice) {
		id, chosen, err := p.Submit(Request{Prompt: long, Session: "s", Tenant: tenant, DeadlineMs: 500}, 1)
		if err != nil {
			t.Fatal(err)
		}
		return id, chosen
	}
	first, chosen := ask("")
	if len(chosen) != 1 || chosen[0].Worker != 70 {
		t.Fatalf("got %v", chosen)
	}
	if q := d.asked[0]; d.heard.Session != "s" || d.heard.DeadlineMs != 500 || len(q.Cached) != 1 ||
		q.Cached[0] != (router.Cached{Place: 1, Blocks: 5}) {
		t.Errorf("it hears %+v of %+v", q.Cached, d.heard)
	}
	if refused, chosen := ask("unwanted"); len(chosen) != 1 || chosen[0] != (Choice{Request: refused, Refused: true}) {
		t.Errorf("got %v", chosen)
	}
	second, chosen := ask("")
	if len(chosen) != 0 {
		t.Errorf("got %v, want that it waits", chosen)
	}
	if next := p.NextTickMs(); next != 10 {
		t.Errorf("next tick at %v", next)
	}
	if chosen, err := p.Tick(35); err != nil || len(chosen) != 0 || p.NextTickMs() != 40 ||
		d.asked[len(d.asked)-1].Why != router.Ticked {
		t.Errorf("got %v, %v, then at %v", chosen, err, p.NextTickMs())
	}
	if got := free(t, p, first); len(got) != 1 || got[0].Request != second {
		t.Errorf("got %v, want request %d", got, second)
	}
}

// TestSent: a router without cache events finds what it has sent again after its requests have ended.
func TestSent(t *testing.T) {
	var seen [][]uint32
	rule := Rule{Make: func(_ string, o router.Options) router.Elastic {
		return &noting{Elastic: router.NewRoundRobin(1), seen: &seen}
	}}
	p := New(Config{Mode: Ruled, Rule: rule, BlockSize: 4, Rand: rand.New(rand.NewPCG(1, 2))})
	if _, err := p.Add(1, 0, 1, 0); err != nil {
		t.Fatal(err)
	}
	for _, tokens := range [][]uint32{prompt(5, 12), prompt(5, 8), prompt(6, 8)} {
		free(t, p, submit(t, p, tokens, 0).Request)
	}
	if !slices.Equal(seen[0][:2], seen[1]) || seen[1][0] == seen[2][0] || len(seen[0]) != 3 {
		t.Errorf("blocks are named %v", seen)
	}
}

// noting is a router that notes how the blocks of prompts are named.
type noting struct {
	router.Elastic
	seen *[][]uint32
}

func (n *noting) Submit(r router.Request, nowMs float64) ([]router.Admission, error) {
	*n.seen = append(*n.seen, slices.Clone(r.Prompt.Segments))
	return n.Elastic.Submit(r, nowMs)
}

// TestHostMemory: what a worker has in the memory of its host counts less than what is on its device, and more than
// nothing.
func TestHostMemory(t *testing.T) {
	p := newPool(t, KV, 1, 2, 3)
	long := prompt(0, 400)
	host := stored(long, 100)
	host.Tier = kvcache.Host
	p.Apply(2, 0, host)
	if got := submit(t, p, long, 0); got.Worker != 2 {
		t.Errorf("got worker %d, want 2, which has all of the prompt on its host", got.Worker)
	}
	later := prompt(1000, 400)
	device := stored(later, 500)
	host = stored(later, 500)
	host.Tier = kvcache.Host
	p.Apply(3, 0, host)
	p.Apply(1, 0, device)
	if got := submit(t, p, later, 1e6); got.Worker != 1 {
		t.Errorf("got worker %d, want 1, which has the prompt on its device", got.Worker)
	}
	p.Apply(3, 0, device) // on both
	p.Apply(3, 0, Event{Removed: []uint64{500, 501}})
	p.Apply(1, 0, Event{Removed: []uint64{500}})
	if got := submit(t, p, later, 2e6); got.Worker != 3 {
		t.Errorf("got worker %d, want 3, whose host still has the prompt", got.Worker)
	}
	gone := Event{Tier: kvcache.Host, Removed: []uint64{500}}
	p.Apply(3, 0, gone)
	p.Apply(3, 0, gone)
	if n := p.blocks.names.Len(); n < 100 {
		t.Errorf("%d blocks have names", n)
	}
	for _, w := range []uint64{1, 2, 3} {
		p.Apply(w, 0, Event{Cleared: true})
	}
}
