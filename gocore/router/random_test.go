package router

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dynosim/gocore/kvcache"
)

// FuzzKV reads the input as a script of calls, makes them on the router and on the naive one, and compares all answers.
func FuzzKV(f *testing.F) {
	for seed := range uint64(12) {
		f.Add(seed*seed*977, randomScript(rand.New(rand.NewPCG(seed, 0)), 300))
	}
	f.Fuzz(func(t *testing.T, variant uint64, script []byte) {
		newDuel(t, variant, script[:min(len(script), 1500)]).run() // a longer one only takes longer
	})
}

// TestRandomScripts does the same with random scripts, and makes sure that they reach each interesting case often.
func TestRandomScripts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	numScripts := 250
	if testing.Short() {
		numScripts = 60
	}
	seen := map[string]int{}
	for range numScripts {
		d := newDuel(t, rng.Uint64(), randomScript(rng, 2000))
		d.seen = seen
		d.run()
	}
	t.Logf("reached: %v", seen)
	for _, what := range []string{
		"admitted at once", "queued", "drained", "drained several", "waited", "strict priority", "credit",
		"two workers with credit",
		"shared blocks", "tie", "sampled", "pinned", "cancelled", "cancelled in the queue", "unknown removal",
		"unknown prefill", "unknown free", "prompt without a full block", "fully cached", "decayed prefill",
		"cached up to the end of a run",
	} {
		if seen[what] < numScripts/8 {
			t.Errorf("%s: reached %d times only", what, seen[what])
		}
	}
}

func randomScript(rng *rand.Rand, length int) []byte {
	script := make([]byte, length)
	for i := range script {
		script[i] = byte(rng.Uint32())
	}
	return script
}

// duel is a router and a naive one that live through the same script.
type duel struct {
	t        *testing.T
	kv       *KV
	naive    *naive
	logged   []Decision
	script   []byte
	blocks   int // per segment
	children map[[2]uint32]uint32
	numbers  []int // of segments, shuffled
	lastID   int32
	waiting  []int32
	active   []int32
	nowMs    float64
	log      []string
	seen     map[string]int
}

func newDuel(t *testing.T, variant uint64, script []byte) *duel {
	d := &duel{t: t, script: script, seen: map[string]int{}, children: map[[2]uint32]uint32{}}
	pick := func(n uint64) int {
		picked := variant % n
		variant /= n
		return int(picked)
	}
	o := Options{
		Config: Config{
			OverlapCredit:      []float64{1, 1, 0, 0.3}[pick(4)],
			OverlapCreditDecay: []float64{0, 0, 0.7, 4}[pick(4)],
			PrefillLoadScale:   []float64{1, 1, 2.5, 0}[pick(4)],
			Temperature:        []float64{0, 0, 0.3}[pick(3)],
			TrackActiveBlocks:  pick(4) > 0,
			AssumeKVReuse:      pick(4) > 0,
			TrackPrefillTokens: pick(8) > 0,
			Queueing:           pick(6) > 0,
			QueueThreshold:     []float64{0.5, 0, 0.1, 2}[pick(4)],
			QueuePolicy:        QueuePolicy(pick(3)),
		},
		Workers:             1 + pick(5),
		BlockSize:           []int{4, 7}[pick(2)],
		MaxNumBatchedTokens: []int{64, 256, math.MaxInt}[pick(3)],
		Stage:               "test",
	}
	d.blocks = []int{1, 1, 2, 8, 64, 100}[pick(6)]
	d.numbers = rand.New(rand.NewPCG(variant, 0)).Perm(5000)
	if pick(2) > 0 {
		slices.Sort(d.numbers)
	}
	if pick(4) == 0 {
		o.PinMode = Forced
		o.Pin = func(id int32) (int, bool) { return int(id) / 3 % o.Workers, id%3 == 0 }
	}
	if pick(3) == 0 {
		o.Estimate = func(uncached, prefix int) (int64, bool) {
			return int64(uncached%7) * int64(250_000+prefix), uncached%11 > 0
		}
	}
	if pick(3) == 0 {
		o.Groups = Groups{Beside: 1 + pick(2), Run: 1 + pick(4)}
	}
	d.log = append(d.log, fmt.Sprintf("%d blocks per segment, %+v", d.blocks, o))
	o.Rand = naiveRand(variant)
	d.naive = newNaive(o)
	o.Rand = naiveRand(variant)
	o.Log = func(decision Decision) {
		decision.Candidates = slices.Clone(decision.Candidates)
		d.logged = append(d.logged, decision)
	}
	d.kv = New(o)
	return d
}

func (d *duel) run() {
	for len(d.script) > 0 {
		d.nowMs += float64(d.next(4)) * float64(d.next(9)) / 8
		switch op := d.next(16); {
		case op < 5:
			d.submit()
		case op < 9:
			d.cacheEvents()
		case op < 12:
			d.prefillCompleted()
		case op < 14:
			d.free()
		default:
			d.cancel()
		}
		if d.next(4) == 0 {
			d.check()
		}
	}
	d.check()
}

// next returns a number below n from the script, 0 when the script is over.
func (d *duel) next(n int) int {
	if len(d.script) == 0 {
		return 0
	}
	b := d.script[0]
	d.script = d.script[1:]
	return int(b) % n
}

// prompt walks down a tree of segments that branches rarely, so that prompts share prefixes.
func (d *duel) prompt() (p kvcache.Prompt, tokens int) {
	p.PerSegment = d.blocks
	parent := uint32(0)
	for range 1 + d.next(12) {
		edge := [2]uint32{parent, uint32(d.next(8) / 5)}
		child, known := d.children[edge]
		if !known {
			child = uint32(len(d.children) + 1)
			d.children[edge] = child
		}
		p.Segments = append(p.Segments, uint32(d.numbers[child]))
		parent = child
	}
	size := d.naive.BlockSize
	tokens = len(p.Segments) * d.blocks * size
	switch d.next(4) {
	case 0:
		tokens -= min(tokens-1, d.next(d.blocks*size))
	case 1:
		tokens = 1 + d.next(min(tokens, 250))
	}
	return p, tokens
}

func (d *duel) submit() {
	d.lastID++
	r := Request{ID: d.lastID, Priority: int64(max(d.next(6)-4, -1)), StrictPriority: uint64(max(d.next(8)-6, 0))}
	r.Prompt, r.PromptTokens = d.prompt()
	d.logf("submit %+v", r)
	queued := d.kv.Waiting()
	admitted, err := d.kv.Submit(r, d.nowMs)
	d.compare(admitted, err, d.naive.submit(r, d.nowMs))
	if d.kv.Waiting() > queued {
		d.waiting = append(d.waiting, r.ID)
		d.saw("queued", true)
		d.saw("strict priority", r.StrictPriority > 0)
		return
	}
	d.saw("admitted at once", true)
	d.saw("prompt without a full block", r.PromptTokens < d.naive.BlockSize)
	d.saw("cached up to the end of a run", d.naive.Groups.Beside > 0 && admitted[0].OverlapBlocks > d.naive.Groups.Run)
	d.saw("fully cached", admitted[0].OverlapBlocks*d.naive.BlockSize == r.PromptTokens)
}

// cacheEvents stores stretches of prompts, parents known or not, and removes blocks, known or not.
func (d *duel) cacheEvents() {
	worker := d.next(d.naive.Workers)
	var events []kvcache.Event
	for range d.next(3) + 1 {
		p, tokens := d.prompt()
		blocks := p.AppendBlocks(nil, 0, tokens/d.naive.BlockSize)
		e := kvcache.Event{Kind: kvcache.EventKind(d.next(5) / 3)}
		if from := min(d.next(16)*d.next(4), len(blocks)); d.next(3) == 0 {
			blocks = blocks[from:]
		}
		if e.Kind == kvcache.Removed {
			slices.Reverse(blocks)
		}
		if d.next(4) == 0 {
			blocks = append(blocks, kvcache.PrivateIDs+kvcache.BlockID(d.next(3)))
		}
		if d.next(8) == 0 {
			blocks = append(blocks, blocks...)
		}
		e.Blocks = kvcache.BlocksOf(blocks...)
		events = append(events, d.inGroups(e)...)
	}
	d.logf("worker %d: %+v", worker, events)
	unknown := d.kv.UnknownRemovals()
	d.kv.Apply(worker, events)
	d.naive.apply(worker, events)
	d.saw("unknown removal", d.kv.UnknownRemovals() > unknown)
}

// inGroups makes an event one of all groups, or of one of them.
func (d *duel) inGroups(e kvcache.Event) (events []kvcache.Event) {
	beside := d.naive.Groups.Beside
	only := 0
	if beside > 0 {
		only = d.next(2 * (beside + 1))
	}
	for group := range beside + 1 {
		if e.Group = group; only > beside || only == group {
			events = append(events, e.Clone())
		}
	}
	return events
}

func (d *duel) prefillCompleted() {
	id := d.pickID()
	d.logf("prefill of %d completed", id)
	admitted, err := d.kv.PrefillCompleted(id, d.nowMs)
	decisions, known := d.naive.prefillCompleted(id, d.nowMs)
	if !known {
		d.saw("unknown prefill", true)
		if err == nil {
			d.fatalf("no error")
		}
		return
	}
	d.compare(admitted, err, decisions)
}

// free leaves waiting requests alone: they have no worker yet.
func (d *duel) free() {
	id := d.pickID()
	if slices.Contains(d.waiting, id) {
		return
	}
	d.logf("free %d", id)
	d.saw("unknown free", !slices.Contains(d.active, id))
	d.active = slices.DeleteFunc(d.active, func(other int32) bool { return other == id })
	admitted, err := d.kv.Free(id, d.nowMs)
	d.compare(admitted, err, d.naive.free(id, d.nowMs))
}

func (d *duel) cancel() {
	id := d.pickID()
	d.logf("cancel %d", id)
	d.saw("cancelled", slices.Contains(d.active, id))
	d.saw("cancelled in the queue", slices.Contains(d.waiting, id))
	d.active = slices.DeleteFunc(d.active, func(other int32) bool { return other == id })
	d.waiting = slices.DeleteFunc(d.waiting, func(other int32) bool { return other == id })
	admitted, err := d.kv.Cancel(id, d.nowMs)
	d.compare(admitted, err, d.naive.cancel(id, d.nowMs))
}

// pickID mostly names a request that is still there.
func (d *duel) pickID() int32 {
	switch n := d.next(32); {
	case n < 2:
		return int32(d.next(int(d.lastID) + 2))
	case n < 6 && len(d.waiting) > 0:
		return d.waiting[d.next(len(d.waiting))]
	case len(d.active) > 0:
		return d.active[d.next(len(d.active))]
	default:
		return d.lastID
	}
}

// compare wants the same decisions, for the same reasons, in the same order.
func (d *duel) compare(admitted []Admission, err error, want []naiveDecision) {
	if err != nil {
		d.fatalf("error: %v", err)
	}
	if len(admitted) != len(want) || len(d.logged) != len(want) {
		d.fatalf("got %+v, decided %+v\nwant %+v", admitted, d.logged, want)
	}
	for i, w := range want {
		got := d.logged[i]
		same := slices.Equal(got.Candidates, w.Candidates)
		d.note(got)
		got.Candidates, w.Candidates = nil, nil
		if !same || fmt.Sprint(got) != fmt.Sprint(w.Decision) || admitted[i] != w.admission {
			d.fatalf("admission %d: got %+v, decided %+v\nwant %+v", i, admitted[i], d.logged[i], want[i])
		}
		d.active = append(d.active, w.ID)
		if at := slices.Index(d.waiting, w.ID); at >= 0 {
			d.waiting = slices.Delete(d.waiting, at, at+1)
			d.saw("drained", true)
			d.saw("drained several", i > 0)
		}
	}
	d.logged = d.logged[:0]
}

func (d *duel) note(got Decision) {
	credits, shared := 0, false
	for _, c := range got.Candidates {
		if c.OverlapBlocks > 0 {
			credits++
		}
		shared = shared || c.NewBlocks < got.Candidates[0].NewBlocks
	}
	d.saw("credit", credits > 0)
	d.saw("two workers with credit", credits > 1)
	d.saw("shared blocks", shared)
	d.saw("tie", got.Tied > 1 && !got.Pinned)
	d.saw("sampled", d.naive.Config.Temperature > 0 && got.Tied < len(got.Candidates) && !got.Pinned)
	d.saw("pinned", got.Pinned)
	d.saw("waited", got.WaitMs > 0)
	for w, c := range got.Candidates {
		d.saw("decayed prefill", w != got.Chosen && c.PrefillTokens < d.kv.tracker.prefillTokens[w])
	}
}

// check compares what can be seen besides decisions, and what cannot.
func (d *duel) check() {
	if d.kv.Waiting() != len(d.naive.waiting) {
		d.fatalf("%d waiting, want %d", d.kv.Waiting(), len(d.naive.waiting))
	}
	for w := range d.naive.Workers {
		want := Load{PrefillTokens: int64(d.naive.prefillTokens(w, d.nowMs)), ActiveBlocks: int64(len(d.naive.held(w)))}
		if got := d.kv.Load(w, d.nowMs); got != want {
			d.fatalf("load of worker %d: got %+v, want %+v", w, got, want)
		}
		for group := range d.naive.Groups.Beside {
			if err := d.kv.beside.groups[group].units.checkWorker(int32(w), d.naive.has(w, group+1)); err != nil {
				d.fatalf("worker %d has cached in group %d: %v", w, group+1, err)
			}
		}
		if err := d.kv.index.units.checkWorker(int32(w), d.naive.has(w, 0)); err != nil {
			d.fatalf("cached: %v", err)
		}
		if d.kv.tracker.shareBlocks {
			if err := d.kv.tracker.units.checkWorker(int32(w), d.naive.held(w)); err != nil {
				d.fatalf("active: %v", err)
			}
		}
	}
	for _, table := range []*unitTable{&d.kv.index.units, &d.kv.tracker.units} {
		if err := table.check(); err != nil {
			d.fatalf("%v", err)
		}
	}
}

func (d *duel) saw(what string, happened bool) {
	if happened {
		d.seen[what]++
	}
}

func (d *duel) logf(format string, args ...any) {
	d.log = append(d.log, fmt.Sprintf("%v ms: ", d.nowMs)+fmt.Sprintf(format, args...))
}

func (d *duel) fatalf(format string, args ...any) {
	d.t.Helper()
	last := d.log[max(0, len(d.log)-30):]
	d.t.Fatalf("%s\n%s\n...\n%s", fmt.Sprintf(format, args...), d.log[0], strings.Join(last, "\n"))
}
