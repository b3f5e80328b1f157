package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"dynosim/gocore/engine"
)

// foldRun is a random run of one worker, told to collectors: requests begin, pause, go on, end, and some are rejected
// after they have emitted tokens.
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

// TestFold: collectors that forget passes, with rows and without, give the report and the rows of one that keeps all of
// them.
func TestFold(t *testing.T) {
	for seed := range uint64(8) {
		const requests = 2000
		f := &foldRun{
			rng: rand.New(rand.NewPCG(seed, 0)),
			tell: []*Collector{NewCollector(requests, 1), NewPassingCollector(requests, 1, NoSLA()),
				NewCollector(requests, 1)},
			emits: map[engine.RequestID]int{}, paused: map[engine.RequestID]int{},
		}
		f.tell[1].folding, f.tell[2].folding = true, true
		for range 6000 {
			f.pass(requests)
		}
		want := f.tell[0].Summarise(Resources{}, NoSLA())
		for at, c := range f.tell[1:] {
			if folded := c.workers[0].folded; folded < 5 {
				t.Fatalf("seed %d, collector %d: only %d stretches were folded", seed, at, folded)
			}
			got := c.Summarise(Resources{}, NoSLA())
			for i := range want {
				if a, b := want[i], got[i]; a != b && !(math.IsNaN(a.Float) && math.IsNaN(b.Float) && a.Key == b.Key) {
					t.Errorf("seed %d, collector %d: got %+v, want %+v", seed, at, b, a)
				}
			}
			if len(got) != len(want) {
				t.Errorf("seed %d, collector %d: got %d values, want %d", seed, at, len(got), len(want))
			}
		}
		for i, r := range f.tell[0].records {
			if a, b := fmt.Sprint(shownOf(r)), fmt.Sprint(shownOf(f.tell[2].records[i])); a != b {
				t.Fatalf("seed %d, request %d: got %s, want %s", seed, i, b, a)
			}
		}
	}
}

// shownOf returns what rows show of a request.
func shownOf(r record) []any {
	return []any{r.arrivalMs, r.firstAdmitMs, r.firstTokenMs, r.secondTokenMs, r.lastMs, r.tokens, r.worker, r.status,
		r.lastState()}
}
