package sglang

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/enginetest"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/speculation"
)

// TestAgainstModel runs many small workloads, most of them on tight pools, on the engine and on the model side by side.
func TestAgainstModel(t *testing.T) {
	runs := 2000
	if testing.Short() {
		runs = 300
	}
	rng := rand.New(rand.NewPCG(3, 5))
	deadEnds, rejections, leaks, overs := 0, 0, 0, 0
	for run := range runs {
		args, w := randomCase(rng)
		for _, variant := range []string{"plain", "lazy", "recording"} {
			m := newSimulation(args, w)
			m.plain = variant == "plain"
			if variant == "recording" {
				m.s.Observe()
			}
			end, err := m.compare()
			if err != nil {
				t.Fatalf("run %d, %s: %v\nargs %+v\nworkload %+v", run, variant, err, args, m.workload)
			}
			switch end {
			case "dead end":
				deadEnds++
			case "rejection":
				rejections++
			}
			if m.s.pool.Leaked() > 0 {
				leaks++
			}
			if m.s.pool.OverReturned() > 0 {
				overs++
			}
		}
	}
	t.Logf("of %d runs %d have dead ends, %d rejections, %d leaks, %d return too much", 3*runs, deadEnds, rejections,
		leaks, overs)
}

// compare runs the workload on both. It ends with the workload, with a rejection, which the model does not know, or
// with a dead end of both.
func (m *simulation) compare() (end string, err error) {
	slow := newModel(m.s.args)
	numbers := map[kvcache.BlockID]int{}
	for passes := 1; ; passes++ {
		from := m.released
		if !m.release() {
			return "", nil
		}
		for i := from; i < m.released; i++ {
			slow.add(i, m.workload)
			m.numberPages(slow, i, numbers)
		}
		want := slow.runPass(m.nowMs)
		for want.Idle() && slow.ratioMayHelp() {
			want = slow.runPass(m.nowMs)
		}
		pass, _ := m.s.RunPass(m.nowMs)
		if len(pass.Rejected) > 0 {
			return "rejection", m.stillWaits(slow, want, pass.Rejected)
		}
		got := enginetest.CopyPass(pass)
		got.Scheduled, want.Scheduled = 0, 0
		if !reflect.DeepEqual(got, want) {
			return "", fmt.Errorf("pass %d:\n got %+v\nwant %+v", passes, got, want)
		}
		if m.plain {
			m.s.catchUpAll()
		}
		if err := m.compareState(slow); err != nil {
			return "", fmt.Errorf("after pass %d: %w", passes, err)
		}
		if err := m.compareEvents(slow, numbers); err != nil {
			return "", fmt.Errorf("in pass %d: %w", passes, err)
		}
		m.nowMs = pass.EndMs
		m.idle++
		if !pass.Idle() {
			m.idle = 0
		}
		if m.idle > 20 || m.s.rescue.active {
			return "dead end", nil
		}
	}
}

// leastRatio is a number of idle passes in a row after which the model's ratio is at its lowest.
const leastRatio = 610

// stillWaits runs the model alone, from the end of its last pass on, and makes sure that the rejected requests never
// end.
func (m *simulation) stillWaits(slow *model, last engine.Pass, rejected []engine.Rejection) error {
	now := last.EndMs
	for idle, tokenless := 0, 0; idle < leastRatio && tokenless < 10*leastRatio &&
		len(slow.waiting)+len(slow.running) > 0; {
		for ; m.released < len(m.requests) && m.workload.arrivals[m.released].atMs <= now; m.released++ {
			slow.add(m.released, m.workload)
		}
		pass := slow.runPass(now)
		for _, r := range rejected {
			if slices.Contains(pass.Finished, r.ID) && !slow.hasGrown() {
				return fmt.Errorf("request %d is rejected (%s), but finishes in the model", r.ID, r.Reason)
			}
		}
		idle++
		if pass.EndMs > now || len(pass.Admitted)+pass.Tokens > 0 {
			idle = 0
		}
		tokenless++
		if pass.Tokens > 0 {
			tokenless = 0
		}
		now = pass.EndMs
	}
	return nil
}

// hasGrown reports whether slots have been returned that the tree keeps. Then there is room for requests for which
// there was none.
func (m *model) hasGrown() bool { return len(m.free)+m.evictable()+m.protected() > m.total }

func (m *simulation) compareState(slow *model) error {
	if m.s.ratio.value != slow.ratio {
		return fmt.Errorf("ratio %v, want %v", m.s.ratio.value, slow.ratio)
	}
	if got, want := m.queues(), fmt.Sprint(ids(slow.waiting), ids(slow.running)); got != want {
		return fmt.Errorf("queues %s, want %s", got, want)
	}
	p := m.s.pool
	free, evictable, protected := p.Free(), p.Evictable(), p.Protected()
	if free != len(slow.free) || evictable != slow.evictable() || m.plain && protected != slow.protected() {
		return fmt.Errorf("free, evictable, protected: %d, %d, %d, want %d, %d, %d",
			free, evictable, protected, len(slow.free), slow.evictable(), slow.protected())
	}
	return nil
}

// numberPages notes which pages of the model the pages of request i are, those of its output included.
func (m *simulation) numberPages(slow *model, i int, numbers map[kvcache.BlockID]int) {
	r := m.s.waiting.At(m.s.waiting.Index(func(r *sequence) bool { return r.id == m.requests[i].ID }))
	arrived := slow.waiting[len(slow.waiting)-1]
	tokens := slices.Clone(arrived.sequence)
	for k := range r.maxOutput {
		tokens = append(tokens, arrived.output(k))
	}
	for page := range len(tokens) / m.s.pageSize {
		numbers[r.holding.Key.Block(page)] = slow.pageNumber(tokens[:(page+1)*m.s.pageSize])
	}
}

// compareEvents compares the events of a pass, as long as no slot is in the pool twice: then the model can mistake one
// page for another. The model tells of pages that only one request can have, too.
func (m *simulation) compareEvents(slow *model, numbers map[kvcache.BlockID]int) error {
	want := shareableOnly(slow.events, numbers)
	slow.events = nil
	if !m.s.pool.Recording() || m.s.pool.OverReturned() > 0 {
		return nil
	}
	var got []modelEvent
	for _, e := range m.s.out.KVEvents {
		event := modelEvent{stored: e.Kind == kvcache.Stored, parent: -1}
		for id := range e.Blocks.All() {
			event.pages = append(event.pages, numbers[id])
		}
		if e.HasParent {
			event.parent = numbers[e.Parent]
		}
		got = append(got, event)
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("events\n got %+v\nwant %+v", got, want)
	}
	return nil
}

// shareableOnly leaves out the pages that have a private id.
func shareableOnly(events []modelEvent, numbers map[kvcache.BlockID]int) (kept []modelEvent) {
	private := map[int]bool{}
	for id, number := range numbers {
		if id >= kvcache.PrivateIDs {
			private[number] = true
		}
	}
	for _, e := range events {
		e.pages = slices.DeleteFunc(slices.Clone(e.pages), func(page int) bool { return private[page] })
		if len(e.pages) > 0 {
			kept = append(kept, e)
		}
	}
	return kept
}

func (m *simulation) queues() string {
	var waiting, running []int
	for i := range m.s.waiting.Len() {
		waiting = append(waiting, int(m.s.waiting.At(i).id))
	}
	for _, r := range m.s.running {
		running = append(running, int(r.id))
	}
	return fmt.Sprint(waiting, running)
}

func ids(requests []*modelRequest) (list []int) {
	for _, r := range requests {
		list = append(list, r.id)
	}
	return list
}

// randomCase makes a small engine and a workload that mostly fits it, request by request.
func randomCase(rng *rand.Rand) (engineargs.Args, workload) {
	args := engineargs.Default()
	args.EngineType = engineargs.SGLang
	args.BlockSize = []int{1, 1, 2, 3, 4, 8}[rng.IntN(6)]
	w := workload{traceBlock: []int{1, 3, args.BlockSize, 2 * args.BlockSize, 4 * args.BlockSize}[rng.IntN(5)]}
	longest, most := 1+rng.IntN(60), 1+rng.IntN(20)
	clock, need, chat := 0.0, 0, rng.IntN(2) == 0
	for i := range 2 + rng.IntN(14) {
		a := arrival{name: fmt.Sprint(i), prompt: 1 + rng.IntN(longest), output: 1 + rng.IntN(most)}
		clock += []float64{0, 0, 0, rng.ExpFloat64() * 20, rng.ExpFloat64() * 100}[rng.IntN(5)]
		a.atMs = clock
		need = max(need, a.prompt+a.output)
		family, leaves := rng.IntN(3), rng.IntN(2+a.prompt/w.traceBlock)
		if chat && rng.IntN(2) == 0 { // some of its output is what prompts of the family have there
			leaves = math.MaxInt
			a.reply = slices.Repeat([]int{family}, rng.IntN(a.output+1))
		}
		for block := range a.prompt/w.traceBlock + 1 {
			id := family
			if block >= leaves {
				id = 10 + rng.IntN(2)*(i+1)
			}
			a.ids = append(a.ids, id)
		}
		w.arrivals = append(w.arrivals, a)
	}
	args.NumGPUBlocks = max(1, ceilDiv(need, args.BlockSize)+[]int{-1, 0, 1, 1, 2, 3, 10, 40, 1000}[rng.IntN(9)])
	args.MaxNumSeqs = []int{math.MaxInt, math.MaxInt, 256, 1, 2, 5}[rng.IntN(6)]
	args.SGLang.ClipMaxNewTokens = []int{1, 1, 3, 4, 10, 4096}[rng.IntN(6)]
	args.SGLang.Conservativeness = []float64{0, 0.3, 1, 1, 1.5}[rng.IntN(5)]
	args.SGLang.ChunkedPrefillSize = args.BlockSize * []int{1, 2, 4, 8, 8192}[rng.IntN(5)]
	args.SGLang.MaxPrefillTokens = []int{16384, args.SGLang.ChunkedPrefillSize, 40, 100}[rng.IntN(4)]
	if rng.IntN(2) == 0 {
		args.SGLang.Policy = engineargs.LPM
	}
	args.SpeedupRatio = []float64{1, 1, 1, 3, 1e12}[rng.IntN(5)]
	if rng.IntN(3) == 0 {
		args.Drafts, args.DraftSeed = 1+rng.IntN(speculation.MaxDrafts), rng.Uint64()
		args.AcceptRates = []string{"", "1,1,1,1,1", "0.9,1,0.5,0.5,0.9", "0.5,0.5,1,0,1"}[rng.IntN(4)]
	}
	return args, w
}
