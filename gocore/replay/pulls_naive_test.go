package replay

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/handoff"
	"dynosim/gocore/timing"
)

// This file has the rules of vLLM's hand-offs once more, as plainly as they can be said: no shortcut, no event loop,
// lists that are searched from end to end. docs/agreement.md says what the rules are.

// naiveBlock is a KV block of a pool.
type naiveBlock struct {
	content    string // "" if no look-up can find it
	registered int    // when that was; the first of equal blocks is found
	users      int
	freed      int // when the last user left
}

type naivePool struct {
	blocks []*naiveBlock
	clock  int
}

func (p *naivePool) tick() int { p.clock++; return p.clock }

func (p *naivePool) free() (n int) {
	for _, b := range p.blocks {
		if b.users == 0 {
			n++
		}
	}
	return n
}

func (p *naivePool) find(content string) (first *naiveBlock) {
	for _, b := range p.blocks {
		if b.content == content && (first == nil || b.registered < first.registered) {
			first = b
		}
	}
	return first
}

// take takes a free block: one that cannot be found if there is any, else the one that has been free for longest.
func (p *naivePool) take() *naiveBlock {
	var best *naiveBlock
	for _, b := range p.blocks {
		if b.users == 0 && (best == nil || best.content != "" && (b.content == "" || b.freed < best.freed)) {
			best = b
		}
	}
	*best = naiveBlock{users: 1}
	return best
}

type naiveRequest struct {
	id, prompt, output, generated, computed int
	contents                                []string // of the full blocks of the prompt
	blocks                                  []*naiveBlock
	pull, arrived                           bool // its prompt has not been asked for; has come
	lastLoaded                              bool // it computes the last token of a loaded prompt
}

func (r *naiveRequest) tokens() int { return r.prompt + r.generated }

func (r *naiveRequest) content(i int) string {
	if i < len(r.contents) {
		return r.contents[i]
	}
	return fmt.Sprint("generated ", r.id, i)
}

// naiveEnd is the end of a transfer.
type naiveEnd struct {
	atMs float64
	id   int
}

type naiveWorker struct {
	run           *naiveRun
	role          engine.Role
	number        int
	args          engineargs.Args
	pool          naivePool
	waiting, held []*naiveRequest
	running       []*naiveRequest
	keeps         map[int]*naiveRequest
	inbox         []*naiveRequest
	inboxMs       []float64
	ends          []naiveEnd
	clockMs       float64
	asleep        bool
}

// naiveLife is what becomes of a request.
type naiveLife struct {
	admitMs, heldMs, freeMs, loadMs, comeMs, decodeMs, firstMs, lastMs float64
	reused, preemptions, prefillWorker, decodeWorker                   int
}

type naiveRun struct {
	model      timing.Model
	perBlockMs float64
	unlimited  bool
	prefill    []*naiveWorker
	decode     []*naiveWorker
	lives      []naiveLife
	requests   []naiveRequest
	lanes      map[[2]int]float64
	handoffs   []naiveEnd // in order of time, worker and service
	sent       int
}

func (w *naiveWorker) blocksFor(tokens int) int {
	return (tokens + w.args.BlockSize - 1) / w.args.BlockSize
}

// nextMs returns when the worker composes its next pass.
func (w *naiveWorker) nextMs() float64 {
	if !w.asleep {
		return w.clockMs
	}
	next := math.Inf(1)
	for _, ms := range w.inboxMs {
		next = min(next, ms)
	}
	for _, e := range w.ends {
		next = min(next, e.atMs)
	}
	return max(next, w.clockMs)
}

func (w *naiveWorker) lookUp(r *naiveRequest) (hits []*naiveBlock, unused int) {
	for i := range (r.tokens() - 1) / w.args.BlockSize {
		b := w.pool.find(r.content(i))
		if b == nil {
			break
		}
		if b.users == 0 {
			unused++
		}
		hits = append(hits, b)
	}
	return hits, unused
}

func (w *naiveWorker) hold(r *naiveRequest, hits []*naiveBlock, tokens int) {
	for _, b := range hits {
		b.users++
	}
	r.blocks = slices.Clone(hits)
	for len(r.blocks) < w.blocksFor(tokens) {
		r.blocks = append(r.blocks, w.pool.take())
	}
}

func (w *naiveWorker) release(r *naiveRequest) {
	for _, b := range slices.Backward(r.blocks) {
		if b.users--; b.users == 0 {
			b.freed = w.pool.tick()
		}
	}
	r.blocks = nil
}

func (w *naiveWorker) register(r *naiveRequest, tokens int) {
	for i := range tokens / w.args.BlockSize {
		if b := r.blocks[i]; b.content == "" {
			b.content, b.registered = r.content(i), w.pool.tick()
		}
	}
}

// naivePass is what a pass has got together.
type naivePass struct {
	count, isl, prefix, context, budget int
	emits, served                       []*naiveRequest
	loads                               []*naiveRequest
	lost                                bool
}

// chunk returns how many tokens a request computes next, with the rule of release 0.28 for long prompts.
func (w *naiveWorker) chunk(p *naivePass, r *naiveRequest) int {
	tokens := min(r.tokens()-r.computed, p.budget)
	if most := w.args.VLLM.LongPrefillTokenThreshold; most > 0 {
		tokens = min(tokens, most)
	}
	return tokens
}

func (w *naiveWorker) serve(p *naivePass, r *naiveRequest, tokens int) {
	start := r.computed
	r.computed += tokens
	p.budget -= tokens
	p.served = append(p.served, r)
	w.register(r, min(r.computed, r.tokens()))
	if start < r.prompt && !r.lastLoaded {
		p.count, p.isl, p.prefix = p.count+1, p.isl+min(r.computed, r.prompt), p.prefix+start
	}
	r.lastLoaded = false
	if r.computed == r.tokens() {
		p.emits = append(p.emits, r)
		p.context += r.computed
	}
}

func (w *naiveWorker) compose(nowMs float64) *naivePass {
	p := &naivePass{budget: w.args.MaxNumBatchedTokens}
	w.serveRunning(p)
	if !p.lost {
		w.admitHeld(p, nowMs)
		w.admitWaiting(p, nowMs)
	}
	return p
}

func (w *naiveWorker) serveRunning(p *naivePass) {
	for i := 0; i < len(w.running) && p.budget > 0; i++ {
		r := w.running[i]
		tokens := w.chunk(p, r)
		for w.blocksFor(r.computed+tokens)-len(r.blocks) > w.pool.free() {
			last := w.running[len(w.running)-1]
			w.running = w.running[:len(w.running)-1]
			w.register(last, min(last.computed, last.tokens()-1))
			w.release(last)
			last.computed = 0
			w.waiting = slices.Insert(w.waiting, 0, last)
			w.run.lives[last.id].preemptions++
			p.lost = true
			if last == r {
				return
			}
		}
		for len(r.blocks) < w.blocksFor(r.computed+tokens) {
			r.blocks = append(r.blocks, w.pool.take())
		}
		w.serve(p, r, tokens)
	}
}

func (w *naiveWorker) may(p *naivePass) bool {
	return p.budget > 0 && len(w.running) < w.args.MaxNumSeqs
}

func (w *naiveWorker) admitHeld(p *naivePass, nowMs float64) {
	for _, r := range slices.Clone(w.held) {
		if !w.may(p) || !r.arrived {
			continue
		}
		w.held = slices.DeleteFunc(w.held, func(q *naiveRequest) bool { return q == r })
		r.computed, r.lastLoaded = r.prompt-1, true
		w.register(r, r.prompt)
		w.admit(p, r, 1, nowMs)
	}
}

func (w *naiveWorker) admit(p *naivePass, r *naiveRequest, tokens int, nowMs float64) {
	w.running = append(w.running, r)
	life := &w.run.lives[r.id]
	admitted := &life.decodeMs
	if w.role == engine.Prefill {
		admitted = &life.admitMs
	}
	if math.IsNaN(*admitted) {
		*admitted = nowMs
	}
	w.serve(p, r, tokens)
}

func (w *naiveWorker) admitWaiting(p *naivePass, nowMs float64) {
	for len(w.waiting) > 0 && w.may(p) {
		r := w.waiting[0]
		hits, unused := w.lookUp(r)
		need := w.blocksFor(r.tokens()) - len(hits) + unused
		if r.pull {
			for _, q := range w.running {
				if q.computed < q.tokens() {
					need += w.blocksFor(q.tokens()) - len(q.blocks)
				}
			}
		}
		if need > w.pool.free() {
			return
		}
		w.waiting = w.waiting[1:]
		if r.pull {
			r.pull = false
			w.hold(r, hits, r.prompt)
			w.held = append(w.held, r)
			p.loads = append(p.loads, r)
			w.run.lives[r.id].reused = len(hits) * w.args.BlockSize
			continue
		}
		r.computed = len(hits) * w.args.BlockSize
		tokens := w.chunk(p, r)
		w.hold(r, hits, r.computed+tokens)
		w.admit(p, r, tokens, nowMs)
	}
}

// step composes a pass and carries it out.
func (w *naiveWorker) step(nowMs float64) {
	for len(w.inbox) > 0 && w.inboxMs[0] <= nowMs {
		w.waiting = append(w.waiting, w.inbox[0])
		w.inbox, w.inboxMs = w.inbox[1:], w.inboxMs[1:]
	}
	p := w.compose(nowMs)
	clock := w.args.Clock(w.run.model)
	inUse := len(w.pool.blocks) - w.pool.free()
	endMs := nowMs + float64(clock.PrefillSeconds(p.count, p.isl, p.prefix)*1000)
	if w.role == engine.Decode && len(p.emits) > 0 {
		size := w.args.BlockSize
		endMs += float64(clock.DecodeSeconds(len(p.emits), p.context, inUse*size, len(w.pool.blocks)*size) * 1000)
	}
	for _, r := range p.loads {
		w.run.submit(w, r, nowMs)
	}
	var done []naiveEnd
	w.ends = slices.DeleteFunc(w.ends, func(e naiveEnd) bool {
		if e.atMs <= nowMs {
			done = append(done, e)
		}
		return e.atMs <= nowMs
	})
	for _, r := range p.emits {
		w.emit(r, endMs)
	}
	slices.SortFunc(done, func(a, b naiveEnd) int {
		return cmp.Or(cmp.Compare(a.atMs, b.atMs),
			cmp.Compare(a.id, b.id))
	})
	for _, e := range done {
		if w.role == engine.Prefill {
			w.release(w.keeps[e.id])
			w.run.lives[e.id].freeMs = endMs
		} else {
			w.held[slices.IndexFunc(w.held, func(r *naiveRequest) bool { return r.id == e.id })].arrived = true
		}
	}
	w.clockMs, w.asleep = endMs, len(p.served) == 0 && !p.lost && len(done) == 0
}

// submit begins the transfer that a decode worker asks for.
func (run *naiveRun) submit(w *naiveWorker, r *naiveRequest, nowMs float64) {
	life := &run.lives[r.id]
	between, startMs := [2]int{life.prefillWorker, w.number}, nowMs
	if !run.unlimited {
		startMs = max(startMs, run.lanes[between])
	}
	endMs := startMs + float64(float64(w.blocksFor(r.prompt)-life.reused/w.args.BlockSize)*run.perBlockMs)
	run.lanes[between] = endMs
	life.loadMs, life.comeMs = nowMs, endMs
	w.ends = append(w.ends, naiveEnd{endMs, r.id})
	source := run.prefill[life.prefillWorker]
	source.ends = append(source.ends, naiveEnd{endMs, r.id})
}

func (w *naiveWorker) emit(r *naiveRequest, endMs float64) {
	r.generated++
	life := &w.run.lives[r.id]
	if w.role == engine.Decode {
		if r.generated == 1 {
			life.firstMs = endMs
		}
		life.lastMs = endMs
	}
	if r.generated < r.output {
		return
	}
	w.running = slices.DeleteFunc(w.running, func(q *naiveRequest) bool { return q == r })
	if w.role == engine.Prefill {
		life.heldMs = endMs
		w.keeps[r.id] = r
		w.run.handoffs = append(w.run.handoffs, naiveEnd{endMs, r.id})
		return
	}
	w.register(r, min(r.computed, r.tokens()-1))
	w.release(r)
}

// through runs everything: always the worker that composes first, prefill workers before decode workers.
func (run *naiveRun) through() {
	for {
		var next *naiveWorker
		nextMs := math.Inf(1)
		for _, w := range slices.Concat(run.prefill, run.decode) {
			if ms := w.nextMs(); ms < nextMs {
				next, nextMs = w, ms
			}
		}
		slices.SortStableFunc(run.handoffs, func(a, b naiveEnd) int {
			return cmp.Or(cmp.Compare(a.atMs, b.atMs),
				cmp.Compare(run.lives[a.id].prefillWorker, run.lives[b.id].prefillWorker))
		})
		switch {
		case len(run.handoffs) > 0 && run.handoffs[0].atMs <= nextMs:
			h := run.handoffs[0]
			run.handoffs = run.handoffs[1:]
			w := run.decode[run.sent%len(run.decode)]
			run.sent++
			run.lives[h.id].decodeWorker = w.number
			r := run.requests[h.id]
			r.pull = true
			w.inbox, w.inboxMs = append(w.inbox, &r), append(w.inboxMs, h.atMs)
		case next == nil:
			return
		default:
			next.step(nextMs)
		}
	}
}

// naively replays the requests of a configuration, whose rows have one id for each block.
func naively(cfg Config) *naiveRun {
	d := cfg.Disagg
	run := &naiveRun{model: (&run{Config: cfg}).setup(engine.Decode, 0).Model, perBlockMs: d.Transfer.MsPerBlock,
		unlimited: d.Transfer.Unlimited, lanes: map[[2]int]float64{}}
	workers := func(role engine.Role, args engineargs.Args, n int) (made []*naiveWorker) {
		for i := range n {
			w := &naiveWorker{run: run, role: role, number: i, args: args, asleep: true, keeps: map[int]*naiveRequest{}}
			for range args.NumGPUBlocks {
				w.pool.blocks = append(w.pool.blocks, &naiveBlock{})
			}
			made = append(made, w)
		}
		return made
	}
	run.prefill, run.decode = workers(engine.Prefill, d.Prefill, d.PrefillWorkers),
		workers(engine.Decode, d.Decode, d.DecodeWorkers)
	nan := math.NaN()
	for id := range cfg.Workload.Turns {
		turn := &cfg.Workload.Turns[id]
		r := naiveRequest{id: id, prompt: turn.InputTokens, output: turn.OutputTokens}
		path := ""
		for i := range r.prompt / d.Prefill.BlockSize {
			path += fmt.Sprint(turn.Prompt.Block(i), " ")
			r.contents = append(r.contents, path)
		}
		run.requests = append(run.requests, r)
		run.lives = append(run.lives, naiveLife{admitMs: nan, decodeMs: nan, prefillWorker: id % d.PrefillWorkers})
		r.output = 1
		w := run.prefill[id%d.PrefillWorkers]
		w.inbox, w.inboxMs = append(w.inbox, &r), append(w.inboxMs, cfg.Workload.Sessions[turn.Session].StartMs)
	}
	run.through()
	return run
}

func (run *naiveRun) String() string {
	lines := make([]string, len(run.lives))
	for i, l := range run.lives {
		lines[i] = fmt.Sprintf("%v..%v free %v, load %v..%v, %v %v %v", l.admitMs, l.heldMs, l.freeMs, l.loadMs,
			l.comeMs, l.decodeMs, l.firstMs, l.lastMs)
	}
	return strings.Join(lines, "\n")
}

// TestNaivePulls compares random runs with the plain rules, to the last bit: those of tight decode pools, whose
// requests preempt each other, those with transfers that end together or take no time, those with small budgets or
// chunks, and those whose passes end together.
func TestNaivePulls(t *testing.T) {
	seeds := uint64(400)
	if testing.Short() {
		seeds = 100
	}
	preemptions := 0
	drawn := []uint64{1107} // a request preempts itself several times in a row for those that load
	for seed := range seeds {
		drawn = append(drawn, seed)
	}
	for _, seed := range drawn {
		cfg := naiveConfig(t, rand.New(rand.NewPCG(seed, 31)))
		run := naively(cfg)
		if got, want := exactLives(cfg, mustRun(t, cfg)), run.String(); got != want {
			t.Fatalf("seed %d: %s", seed, firstDifference(got, want))
		}
		for _, l := range run.lives {
			preemptions += l.preemptions
		}
	}
	if preemptions < int(seeds) {
		t.Errorf("only %d preemptions", preemptions)
	}
}

// naiveConfig draws a run in which every request fits both pools.
func naiveConfig(t *testing.T, rng *rand.Rand) Config {
	blockSize := []int{2, 4, 16}[rng.IntN(3)]
	var rows strings.Builder
	atMs, longest := 0, 0
	for i := range 5 + rng.IntN(40) {
		if rng.IntN(3) > 0 {
			atMs += 5 * rng.IntN(12)
		}
		ids := make([]string, 1+rng.IntN(8))
		family, shared := rng.IntN(3), rng.IntN(len(ids)+1)
		for k := range ids {
			ids[k] = fmt.Sprint(1000*family + k)
			if k >= shared {
				ids[k] = fmt.Sprint(1_000_000 + 100*i + k)
			}
		}
		prompt := blockSize*len(ids) - rng.IntN(2)*rng.IntN(blockSize)
		output := 1 + rng.IntN(40)
		longest = max(longest, (prompt+output+blockSize-1)/blockSize)
		fmt.Fprintf(&rows, `{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":[%s]}`+"\n", atMs, prompt,
			output, strings.Join(ids, ","))
	}
	release, most := "vllm-0.28", []int{0, 1 + rng.IntN(20)}[rng.IntN(2)]
	if most == 0 && rng.IntN(2) == 0 {
		release = "vllm-0.33"
	}
	pool := func(role engine.Role) engineargs.Args {
		return enginetest.Args(t, fmt.Sprintf(
			`{"scheduler":%q,"long_prefill_token_threshold":%d,"worker_type":%q,"block_size":%d,"num_gpu_blocks":%d,`+
				`"max_num_seqs":%d,"max_num_batched_tokens":%d}`,
			release, most, role, blockSize, longest+rng.IntN(2*longest), 1+rng.IntN(6), 6+rng.IntN(60)))
	}
	cfg := config(t, fmt.Sprintf(`{"block_size":%d}`, blockSize), rows.String(), 1, 0)
	cfg.Disagg = &DisaggConfig{
		Prefill: pool(engine.Prefill), Decode: pool(engine.Decode), PrefillWorkers: 1 + rng.IntN(3),
		DecodeWorkers: 1 + rng.IntN(3),
		Transfer:      handoff.Transfer{MsPerBlock: []float64{0, 0, 0.5, 5, 20}[rng.IntN(5)], Unlimited: rng.IntN(2) == 0},
	}
	model := drawnRun{}.model(t, rng)
	cfg.Setup = func(engine.Role, int) engine.Setup { return engine.Setup{Model: model} }
	return cfg
}

// exactLives writes what became of each request, with all digits.
func exactLives(cfg Config, outcome Outcome) string {
	rows := outcome.Collector.Rows(cfg.Workload)
	column := func(name string) []float64 { values, _ := rows.Floats(name); return values }
	admit, held, free, load := column("prefill_admit_ms"), column("source_held_ms"), column("source_released_ms"),
		column("destination_reserved_ms")
	come, decode, first, last := column("destination_activated_ms"), column("decode_admit_ms"),
		column("first_token_ms"), column("last_token_ms")
	lines := make([]string, rows.Len())
	for i := range lines {
		lines[i] = fmt.Sprintf("%v..%v free %v, load %v..%v, %v %v %v", admit[i], held[i], free[i], load[i], come[i],
			decode[i], first[i], last[i])
	}
	return strings.Join(lines, "\n")
}
