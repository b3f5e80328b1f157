package policies

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/router"
)

// newRouter makes the router of a mode with blocks of one token.
func newRouter(t testing.TB, mode, settings string, workers int) *pool {
	t.Helper()
	m, found := router.FindMode(mode)
	if !found {
		t.Fatalf("no mode %q", mode)
	}
	o, err := m.ParseSettings(settings)
	if err != nil {
		t.Fatal(err)
	}
	return m.New(router.Options{Workers: workers, BlockSize: 1, Settings: o, Rand: rand.New(rand.NewPCG(3, 4))}).(*pool)
}

// submit sends a request and returns its worker.
func submit(t testing.TB, p *pool, r router.Request, atMs float64) int {
	t.Helper()
	a, err := p.Submit(r, atMs)
	if err != nil || len(a) != 1 || a[0].ID != r.ID {
		t.Fatalf("request %d: %v, %v", r.ID, a, err)
	}
	return a[0].Worker
}

func free(t testing.TB, p *pool, id int, atMs float64) {
	t.Helper()
	if _, err := p.Free(int32(id), atMs); err != nil {
		t.Fatal(err)
	}
}

// TestVectors repeats the sequences of decisions that were worked out by hand from runs of the real routers.
func TestVectors(t *testing.T) {
	ids := characters{}
	same := func(n int) (prompts []string) { return slices.Repeat([]string{strings.Repeat("x", 100)}, n) }
	different := func(n int) (prompts []string) {
		for i := range n {
			prompts = append(prompts, fmt.Sprintf("%c%s", 'a'+i, strings.Repeat("x", 99)))
		}
		return prompts
	}
	lengths := func(of ...int) (prompts []string) {
		for i, n := range of {
			prompts = append(prompts, fmt.Sprintf("%c%s", 'a'+i, strings.Repeat("y", n-1)))
		}
		return prompts
	}
	for _, c := range []struct {
		mode, settings string
		prompts        []string
		atOnce         bool // each request has ended when the next one comes
		want           string
	}{
		{"sglang_cache_aware", `{"balance_abs_threshold":2,"balance_rel_threshold":1.0}`, same(14), false,
			"0 0 0 1 2 0 1 2 0 1 2 0 1 2"},
		{"sglang_cache_aware", `{"balance_abs_threshold":0,"balance_rel_threshold":2.0}`, same(14), false,
			"0 1 2 0 0 1 2 0 0 1 2 0 0 1"},
		{"vllm_cache_aware", `{"balance_abs_threshold":2,"balance_rel_threshold":1.0}`, same(14), false,
			"0 0 0 1 2 1 2 1 2 0 1 2 0 1"},
		{"vllm_cache_aware", `{"balance_abs_threshold":0,"balance_rel_threshold":2.0}`, same(14), false,
			"0 1 2 0 1 2 0 1 2 0 1 2 0 1"},
		{"sglang_cache_aware", `{}`, different(6), false, "0 1 2 0 1 2"},
		{"vllm_cache_aware", `{}`, different(6), false, "0 1 2 0 1 2"},
		{"sglang_cache_aware", `{}`, different(6), true, "0 0 0 0 0 0"},
		{"vllm_cache_aware", `{}`, different(6), true, "0 0 0 0 0 0"},
		{"bucket", `{}`, lengths(10, 100, 500, 1000, 2000, 3000, 4000, 5000, 8000, 20000, 10, 100, 2000, 4000), false,
			"0 0 1 2 0 1 2 0 1 2 0 0 0 0"},
	} {
		p := newRouter(t, c.mode, c.settings, 3)
		var got []string
		for i, text := range c.prompts {
			r := router.Request{ID: int32(i), Prompt: ids.prompt(text), PromptTokens: len(text)}
			got = append(got, fmt.Sprint(submit(t, p, r, 0)))
			if c.atOnce {
				free(t, p, i, 0)
			}
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.mode, c.settings, got, c.want)
		}
	}
}

// TestSMGSpill: with the defaults 40 equal prompts go seven times to one worker, seven times to a second one, and then
// to both.
func TestSMGSpill(t *testing.T) {
	p := newRouter(t, "smg_cache_aware", `{}`, 3)
	prompt := characters{}.prompt(strings.Repeat("x", 100))
	var counts [3]int
	var first [14]int
	for i := range 40 {
		w := submit(t, p, router.Request{ID: int32(i), Prompt: prompt, PromptTokens: 100}, 0)
		counts[w]++
		if i < len(first) {
			first[i] = w
		}
	}
	for i := range 7 {
		if first[i] != first[0] || first[7+i] != first[7] {
			t.Fatalf("the first 14 went to %v", first)
		}
	}
	if slices.Min(counts[:]) != 0 || slices.Max(counts[:]) != 20 {
		t.Errorf("workers got %v", counts)
	}
}

// TestEviction: worker 1 is sent texts of 3 and six times 100 tokens; the tree may hold 450 of each worker.
func TestEviction(t *testing.T) {
	for _, c := range []struct {
		again int // which text is sent once more before
		gone  []int
	}{{-1, []int{0, 1, 2}}, {1, []int{0, 2, 3}}} {
		p := newRouter(t, "sglang_cache_aware",
			`{"max_tree_size":450,"cache_threshold":0.6,"balance_abs_threshold":0,"balance_rel_threshold":1.0}`, 2)
		tree := p.replicas[0].rule.(*sglangCacheAware).tree
		ids := characters{}
		var prompts []kvcache.Prompt
		send := func(i int) {
			prompts = append(prompts, ids.prompt(fmt.Sprintf("%c%s", 'a'+i,
				strings.Repeat("x", []int{2, 99}[min(i, 1)]))))
			tree.enter(prompts[i], len(prompts[i].Segments), 1)
		}
		for i := range 7 {
			send(i)
		}
		if c.again >= 0 {
			tree.enter(prompts[c.again], 100, 1)
		}
		if tree.held[1] != 603 {
			t.Fatalf("held %v", tree.held)
		}
		submit(t, p, router.Request{ID: 1, Prompt: ids.prompt("z"), PromptTokens: 1}, 59_999)
		if tree.held[1] != 603 {
			t.Fatalf("evicted early: held %v", tree.held)
		}
		submit(t, p, router.Request{ID: 2, Prompt: ids.prompt("z"), PromptTokens: 1}, 60_000)
		var gone []int
		for i, prompt := range prompts {
			if n, _ := tree.match(prompt, len(prompt.Segments)); n == 0 {
				gone = append(gone, i)
			}
		}
		if !slices.Equal(gone, c.gone) {
			t.Errorf("text %d sent again: gone are %v, want %v", c.again, gone, c.gone)
		}
	}
}

// TestBucketAdjusts: ranges of lengths after an adjustment hold about as many tokens each, and end inclusively.
func TestBucketAdjusts(t *testing.T) {
	const off = `{"balance_abs_threshold":1000000000}`
	ask := func(p *pool, length int) int {
		r := router.Request{PromptTokens: length}
		v := &view{workers: p.workers, active: p.active, nowMs: 5000}
		return p.replicas[0].rule.choose(v, &r, nil)
	}
	for _, c := range []struct {
		workers int
		lengths []int
		want    map[int]int
	}{
		{2, []int{100, 200, 300, 400, 500, 600, 700, 800}, map[int]int{1: 0, 600: 0, 601: 1, 5000: 1}},
		{2, slices.Repeat([]int{500}, 8), map[int]int{500: 0, 501: 1}},
		{3, slices.Concat(slices.Repeat([]int{100}, 10), slices.Repeat([]int{1000}, 10),
			slices.Repeat([]int{3000}, 10)), map[int]int{3000: 0, 3001: 2}},
	} {
		p := newRouter(t, "bucket", off, c.workers)
		for i, n := range c.lengths {
			if w := submit(t, p, router.Request{ID: int32(i), PromptTokens: n}, 1); w != 0 {
				t.Errorf("before the adjustment length %d went to %d", n, w)
			}
		}
		for length, want := range c.want {
			if got := ask(p, length); got != want {
				t.Errorf("%v: length %d goes to %d, want %d", c.lengths, length, got, want)
			}
		}
	}
}

// TestRing: the recorded order of keys on the ring of two workers.
func TestRing(t *testing.T) {
	p := newRouter(t, "consistent_hash", `{}`, 2)
	p.replicas[0].rule.(*consistentHash).
		ring.name = func(w int) string { return fmt.Sprintf("http://127.0.0.1:%d", 41001+w) }
	var got []string
	for i := range 30 {
		got = append(got, fmt.Sprint(submit(t, p,
			router.Request{ID: int32(i), Session: fmt.Sprintf("key-%d", i), PromptTokens: 1}, 0)))
	}
	if got, want := strings.Join(got, " "), "0 0 1 1 1 0 1 1 1 0 1 1 0 0 0 1 0 1 0 1 0 0 1 0 0 1 1 1 0 1"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestBoundedLoad: with a bound no worker gets more than its share of equal keys, without one it gets all.
func TestBoundedLoad(t *testing.T) {
	for _, c := range []struct {
		settings string
		most     int
	}{{`{}`, 40}, {`{"bounded_load_factor":1.25}`, 12}} {
		p := newRouter(t, "consistent_hash", c.settings, 4)
		counts := make([]int, 4)
		for i := range 40 {
			counts[submit(t, p, router.Request{ID: int32(i), Session: "same", PromptTokens: 1}, 0)]++
		}
		if got := slices.Max(counts); got != c.most {
			t.Errorf("%s: workers got %v, want at most %d", c.settings, counts, c.most)
		}
	}
}

// TestPrefixHashOverload: 40 equal prompts stay with their worker until it is overloaded; then every second one goes
// elsewhere.
func TestPrefixHashOverload(t *testing.T) {
	p := newRouter(t, "prefix_hash", `{}`, 4)
	prompt := characters{}.prompt(strings.Repeat("x", 300))
	var got []int
	for i := range 18 {
		got = append(got, submit(t, p, router.Request{ID: int32(i), Prompt: prompt, PromptTokens: 300}, 0))
	}
	home := got[0]
	for i, w := range got {
		if (w == home) != (i < 14) && i < 15 {
			t.Fatalf("workers %v", got)
		}
	}
	long := submit(t, newRouter(t, "prefix_hash", `{}`, 4),
		router.Request{Prompt: characters{}.prompt(strings.Repeat("x", 300) + "y"), PromptTokens: 301}, 0)
	if long != home {
		t.Errorf("a prompt that differs after 256 tokens goes to %d, not %d", long, home)
	}
}

// TestPolled: a router that polls loads sees those of the last poll, whatever it has sent since.
func TestPolled(t *testing.T) {
	p := newRouter(t, "vllm_cache_aware", `{"metrics_interval_ms":100}`, 3)
	for i, c := range []struct {
		atMs float64
		want int
	}{{0, 0}, {50, 0}, {99, 0}, {100, 1}, {150, 1}, {200, 2}, {500, 2}, {600, 2}, {650, 2}} {
		if i == 7 { // before the poll at 600 the first requests end
			free(t, p, 5, 550)
			free(t, p, 6, 550)
		}
		if got := submit(t, p, router.Request{ID: int32(i), PromptTokens: 1}, c.atMs); got != c.want {
			t.Errorf("request %d at %v ms: worker %d, want %d", i, c.atMs, got, c.want)
		}
	}
}

// TestReplicas: each of two routers knows only its own requests, so that both send their first to worker 0.
func TestReplicas(t *testing.T) {
	p := newRouter(t, "vllm_cache_aware", `{"router_replicas":2}`, 3)
	var got []int
	for i := range 6 {
		got = append(got, submit(t, p, router.Request{ID: int32(i), PromptTokens: 1}, 0))
	}
	if want := []int{0, 0, 1, 1, 2, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	free(t, p, 2, 0)
	if got := submit(t, p, router.Request{ID: 6, PromptTokens: 1}, 0); got != 1 {
		t.Errorf("the router whose request has ended sends to %d", got)
	}
	if got := submit(t, p, router.Request{ID: 7, PromptTokens: 1}, 0); got != 0 {
		t.Errorf("the other one sends to %d", got)
	}
}

// TestWorkersComeAndGo: every policy sends requests to active workers only, and goes on after any of them has left.
func TestWorkersComeAndGo(t *testing.T) {
	ids := characters{}
	for _, row := range table {
		if row.whole != nil {
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			p := newRouter(t, row.name, `{}`, 3)
			draw := rand.New(rand.NewPCG(5, 6))
			active, requests := []int{0, 1, 2}, 0
			busy := map[int]int{}
			for step := range 300 {
				if step%50 == 49 {
					active = active[1:]
					active = append(active, active[len(active)-1]+1)
					if _, err := p.SetWorkers(active, float64(step)); err != nil {
						t.Fatal(err)
					}
				}
				text := fmt.Sprintf("%d%s", draw.IntN(4), strings.Repeat("x", draw.IntN(30)))
				r := router.Request{ID: int32(requests), Prompt: ids.prompt(text), PromptTokens: len(text),
					Session: fmt.Sprint(draw.IntN(9))}
				w := submit(t, p, r, float64(100*step))
				if !slices.Contains(active, w) {
					t.Fatalf("step %d: worker %d, active are %v", step, w, active)
				}
				busy[requests] = w
				requests++
				for id := range requests {
					if _, there := busy[id]; there && draw.IntN(3) == 0 {
						free(t, p, id, float64(100*step))
						delete(busy, id)
					}
				}
				if step%50 == 25 && active[0] > 0 {
					for id := range requests {
						if busy[id] == active[0]-1 {
							free(t, p, id, float64(100*step))
							delete(busy, id)
						}
					}
					p.Forget(active[0] - 1)
				}
			}
			for id := range busy {
				free(t, p, id, 1e6)
			}
			for w, n := range p.replicas[0].view.requests {
				if n != 0 || p.replicas[0].view.tokens[w] != 0 {
					t.Errorf("worker %d has %d requests left", w, n)
				}
			}
		})
	}
}

// naiveTree is the tree as its description says it: a set of workers for every prefix.
type naiveTree map[string][]int

func (n naiveTree) enter(text string, worker int) {
	for i := range text {
		if prefix := text[:i+1]; !slices.Contains(n[prefix], worker) {
			n[prefix] = append(n[prefix], worker)
		}
	}
}

func (n naiveTree) match(text string) (int, []int) {
	for i := len(text); i > 0; i-- {
		if holders := n[text[:i]]; holders != nil {
			return i, holders
		}
	}
	return 0, nil
}

// TestTree compares the tree with a naive one.
func TestTree(t *testing.T) {
	draw := rand.New(rand.NewPCG(7, 8))
	for range 50 {
		real, naive, ids := newTree(), naiveTree{}, characters{}
		for range 200 {
			text := make([]byte, 1+draw.IntN(12))
			for i := range text {
				text[i] = byte('a' + draw.IntN(2))
			}
			p := ids.prompt(string(text))
			n, holders := real.match(p, len(text))
			wantN, want := naive.match(string(text))
			var got []int
			for _, h := range holders {
				got = append(got, h.worker)
			}
			if n != wantN || !slices.Equal(got, want) {
				t.Fatalf("%s: got %d %v, want %d %v", text, n, got, wantN, want)
			}
			worker := draw.IntN(4)
			real.enter(p, len(text), worker)
			naive.enter(string(text), worker)
		}
		held := make([]int, 4)
		for _, holders := range naive {
			for _, w := range holders {
				held[w]++
			}
		}
		if !slices.Equal(real.held, held) {
			t.Fatalf("held %v, want %v", real.held, held)
		}
		real.forget(2)
		if real.held[2] != 0 {
			t.Fatalf("a worker that is gone holds %d", real.held[2])
		}
	}
}

// TestSettings: keys of other modes are refused by name, and values by range.
func TestSettings(t *testing.T) {
	for _, c := range []struct{ mode, settings, want string }{
		{"least_requests", `{"cache_threshold":0.5}`,
			"cache_threshold: not a setting of router_mode least_requests, but of sglang_cache_aware, " +
				"smg_cache_aware, vllm_cache_aware; it takes metrics_interval_ms, router_replicas, router_seed"},
		{"smg_cache_aware", `{"max_tree_size":5}`, "max_tree_size: not a setting of router_mode smg_cache_aware"},
		{"manual", `{"router_temperature":0.5}`,
			"router_temperature: not a setting of router_mode manual, but of kv_router"},
		{"manual", `{"assignment_mode":"best"}`,
			`assignment_mode: got "best", want one of random, min_load, min_group`},
		{"sglang_cache_aware", `{"cache_threshold":1.5}`, "cache_threshold: got 1.5, want a finite number from 0 to 1"},
		{"power_of_two", `{"metrics_interval_ms":0}`, "metrics_interval_ms: got 0, want a finite number > 0"},
		{"bucket", `{"balance":1}`, `unknown field "balance"`},
	} {
		m, _ := router.FindMode(c.mode)
		if _, err := m.ParseSettings(c.settings); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: got %v, want %s", c.mode, c.settings, err, c.want)
		}
	}
}

// BenchmarkDecision measures the life of a request on 64 workers: prompts of 8,192 tokens in 128 blocks, of which 16
// are a system prompt and the next ones a conversation that grows by 8 blocks a turn.
func BenchmarkDecision(b *testing.B) {
	for _, row := range table {
		b.Run(row.name, func(b *testing.B) {
			m, _ := router.FindMode(row.name)
			o, err := m.ParseSettings(`{}`)
			if err != nil {
				b.Fatal(err)
			}
			p := m.New(router.Options{Workers: 64, BlockSize: 64, Blocks: 16384, Settings: o,
				Rand: rand.New(rand.NewPCG(3, 4))})
			const conversations, turns = 1000, 14
			sessions := make([]string, conversations)
			prompts := make([]kvcache.Prompt, conversations)
			for i := range prompts {
				sessions[i] = fmt.Sprint("session-", i)
				prompts[i].PerSegment = 8
				for s := range uint32(2 + turns) {
					if s >= 2 {
						s += uint32(2 + i*turns)
					}
					prompts[i].Segments = append(prompts[i].Segments, s)
				}
			}
			id, nowMs := 0, 0.0
			b.ReportAllocs()
			for b.Loop() {
				turn, c := id/conversations%turns, id*7919%conversations
				r := router.Request{ID: int32(id % (1 << 30)), Prompt: prompts[c], PromptTokens: 64 * 8 * (3 + turn),
					Session: sessions[c]}
				if _, err := p.Submit(r, nowMs); err != nil {
					b.Fatal(err)
				}
				if id >= 512 {
					if _, err := p.Free(int32((id-512)%(1<<30)), nowMs); err != nil {
						b.Fatal(err)
					}
				}
				nowMs += 2
				id++
			}
		})
	}
}
