package report

import (
	"math"
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
)

// foldRun is a random run of one worker, told to collectors: requests begin, pause, go on, end, and some are rejected after they
// have emitted tokens.
type foldRun struct {
	rng     *rand.Rand
	tell    []*Collector
	nowMs   float64
	next    engine.RequestID
	emits   map[engine.RequestID]int // tokens so far, of those that emit
	paused  map[engine.RequestID]int
	ordered []engine.RequestID // those that emit
}

func (f *foldRun) each(do func(c *Collector)) {
	for _, c := range f.tell {
		do(c)
	}
}

// pass runs a pass, in which requests may begin and must end with their tenth token or later.
func (f *foldRun) pass(requests int) {
	p := engine.Pass{StartMs: f.nowMs, EndMs: f.nowMs + 1 + float64(f.rng.IntN(3))}
	if int(f.next) < requests && f.rng.IntN(4) == 0 {
		id := f.next
		f.next++
		f.each(func(c *Collector) {
			c.Arrival(engine.Request{ID: id, PromptTokens: 5, OutputTokens: 1000}, f.nowMs)
			c.Worker(id, 0)
		})
		p.Admitted = append(p.Admitted, engine.Admission{ID: id})
		p.Started = append(p.Started, engine.TokenRun{ID: id})
		f.emits[id] = 0
		f.ordered = append(f.ordered, id)
	}
	var kept []engine.RequestID
	var rejected []engine.RequestID
	for _, id := range f.ordered {
		switch draw := f.rng.IntN(200); {
		case draw == 0 && f.emits[id] > 0:
			f.paused[id] = f.emits[id]
			continue
		case draw == 1 && f.emits[id] > 0:
			rejected = append(rejected, id)
			continue
		case draw < 8 && f.emits[id] >= 10:
			p.Finished = append(p.Finished, id)
		default:
			kept = append(kept, id)
		}
		f.emits[id]++
		p.Tokens++
	}
	for id := range f.next {
		if tokens, ok := f.paused[id]; ok && f.rng.IntN(50) == 0 {
			delete(f.paused, id)
			p.Started = append(p.Started, engine.TokenRun{ID: id, Index: tokens})
			f.emits[id] = tokens + 1
			p.Tokens++
			kept = append(kept, id)
		}
	}
	f.ordered, f.nowMs = kept, p.EndMs
	f.each(func(c *Collector) {
		c.Pass(0, &p)
		for _, id := range p.Finished {
			c.Terminal(id, Completed, "")
		}
		for _, id := range rejected {
			c.Terminal(id, Rejected, "too large")
		}
	})
}

// TestFold: a collector that forgets passes gives the report of one that keeps all of them.
func TestFold(t *testing.T) {
	for seed := range uint64(8) {
		const requests = 2000
		f := &foldRun{
			rng:   rand.New(rand.NewPCG(seed, 0)),
			tell:  []*Collector{NewCollector(requests, 1), NewPassingCollector(requests, 1, NoSLA())},
			emits: map[engine.RequestID]int{}, paused: map[engine.RequestID]int{},
		}
		f.tell[1].passing.folds = true
		for range 6000 {
			f.pass(requests)
		}
		if folded := f.tell[1].workers[0].folded; folded < 5 {
			t.Fatalf("seed %d: only %d stretches were folded", seed, folded)
		}
		want := f.tell[0].Summarise(Resources{}, NoSLA())
		got := f.tell[1].Summarise(Resources{}, NoSLA())
		for i := range want {
			if a, b := want[i], got[i]; a != b && !(math.IsNaN(a.Float) && math.IsNaN(b.Float) && a.Key == b.Key) {
				t.Errorf("seed %d: got %+v, want %+v", seed, b, a)
			}
		}
		if len(got) != len(want) {
			t.Errorf("seed %d: got %d values, want %d", seed, len(got), len(want))
		}
	}
}
