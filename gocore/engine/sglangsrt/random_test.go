package sglangsrt

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/kvcache"
)

// drawn is a random engine with requests that arrive at random times. Block ids of prompts are shared among few families.
type drawn struct {
	args     engineargs.Args
	atMs     []float64
	requests []engine.Request
	observe  bool
}

func draw(seed uint64) drawn {
	rng := rand.New(rand.NewPCG(seed, 7))
	args := engineargs.Default()
	args.EngineType, args.Scheduler = engineargs.SGLang, engineargs.SGLangOwn
	args.BlockSize = 1 + rng.IntN(8)
	args.NumGPUBlocks = (8+rng.IntN(40))*8/args.BlockSize + 3
	args.MaxNumSeqs = 1 + rng.IntN(6)
	args.SGLang.ChunkedPrefillSize = args.BlockSize * (1 + rng.IntN(20))
	args.SGLang.MaxPrefillTokens = 1 + rng.IntN(100)
	args.SGLang.Conservativeness = []float64{0.05, 0.3, 1}[rng.IntN(3)]
	args.SGLang.Overlap, args.SGLang.IgnoreEOS = rng.IntN(2) == 0, rng.IntN(8) == 0
	if rng.IntN(3) == 0 {
		args.SGLang.Policy = engineargs.LPM
	}
	if rng.IntN(6) == 0 {
		args.SGLang.ClipMaxNewTokens = 1 + rng.IntN(20)
	}
	d := drawn{args: args, observe: rng.IntN(2) == 0}
	now := 0.0
	for id := range 3 + rng.IntN(25) {
		tokens := 1 + rng.IntN(5*args.BlockSize)
		blocks := tokens/args.BlockSize + 1
		prompt := kvcache.Prompt{PerSegment: 1}
		family, leaves := uint32(rng.IntN(3)), rng.IntN(blocks+1)
		for b := range blocks {
			if b < leaves {
				prompt.Segments = append(prompt.Segments, 100*family+uint32(b))
			} else {
				prompt.Segments = append(prompt.Segments, 1000+100*uint32(id)+uint32(b))
			}
		}
		d.requests = append(d.requests, engine.Request{
			ID: engine.RequestID(id), Prompt: prompt, PromptTokens: tokens, OutputTokens: 1 + rng.IntN(60),
		})
		d.atMs = append(d.atMs, now)
		now += float64(rng.IntN(3) * rng.IntN(100))
	}
	return d
}

// run shows every pass to see, until all requests are over. Passes that s coasts through are shown as the tokens they emit;
// now and then a request arrives in the midst of them. Some requests are cancelled.
func (d drawn) run(s *Scheduler, see func(*engine.Pass)) error {
	if d.observe {
		s.Observe()
	}
	now, next := 0.0, 0
	for passes := 0; ; passes++ {
		if s.Requests() == 0 {
			if next == len(d.requests) {
				return nil
			}
			now = max(now, d.atMs[next])
		}
		for next < len(d.requests) && d.atMs[next] <= now {
			s.Add(d.requests[next])
			if id := d.requests[next].ID; id%7 == 5 {
				s.Cancel(id - 3)
			}
			next++
		}
		until := math.Inf(1)
		if next < len(d.requests) {
			until = d.atMs[next]
		}
		if ends := s.Coast(now, until); len(ends) > 0 {
			for _, end := range ends {
				see(&engine.Pass{StartMs: now, EndMs: end, Tokens: len(s.running), Scheduled: len(s.running), Bursts: coastedThrough})
				now = end
			}
			s.Settle(len(ends))
			continue
		}
		p, alive := s.RunPass(now)
		if !alive || passes > 100_000 {
			return fmt.Errorf("at %v ms: no end in sight", now)
		}
		see(p)
		now = p.EndMs
	}
}

// coastedThrough marks passes of which only the end is known.
var coastedThrough = []engine.Burst{}

// clonePass copies what a pass owns only until the next one. The order in which runs of tokens start means nothing.
func clonePass(p *engine.Pass) engine.Pass {
	c := *p
	c.Admitted, c.Started, c.Finished = slices.Clone(p.Admitted), slices.Clone(p.Started), slices.Clone(p.Finished)
	c.Rejected, c.KVEvents, c.Signals = slices.Clone(p.Rejected), slices.Clone(p.KVEvents), slices.Clone(p.Signals)
	slices.SortFunc(c.Started, func(a, b engine.TokenRun) int { return int(a.ID - b.ID) })
	return c
}

// TestCoasting runs random workloads with and without coasting: every pass must be the same.
func TestCoasting(t *testing.T) {
	coasted := 0
	for seed := range uint64(3000) {
		d := draw(seed)
		var want []engine.Pass
		if err := d.run(New(d.args, engine.Setup{Stepwise: true}), func(p *engine.Pass) { want = append(want, clonePass(p)) }); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		i := 0
		s := New(d.args, engine.Setup{})
		err := d.run(s, func(p *engine.Pass) {
			got := clonePass(p)
			if p.Bursts != nil {
				coasted++
				w := want[i]
				if len(w.Admitted)+len(w.Started)+len(w.Finished)+len(w.Rejected)+len(w.Signals)+len(w.KVEvents) > 0 {
					t.Fatalf("seed %d, pass %d: coasts through %+v", seed, i+1, w)
				}
				got = engine.Pass{StartMs: p.StartMs, EndMs: p.EndMs, Tokens: p.Tokens, Scheduled: p.Scheduled}
				want[i] = engine.Pass{StartMs: w.StartMs, EndMs: w.EndMs, Tokens: w.Tokens, Scheduled: w.Scheduled}
			}
			if i < len(want) && !reflect.DeepEqual(got, want[i]) {
				t.Fatalf("seed %d, pass %d, %+v:\ngot  %+v\nwant %+v", seed, i+1, d.args.SGLang, got, want[i])
			}
			i++
		})
		if err != nil || i != len(want) {
			t.Fatalf("seed %d: %d passes, want %d: %v", seed, i, len(want), err)
		}
		if s.rows != 0 || s.pool.Available() != s.pool.Total() {
			t.Fatalf("seed %d: %d rows and %d slots are still in use", seed, s.rows, s.pool.Total()-s.pool.Available())
		}
	}
	if coasted < 10_000 {
		t.Errorf("only %d passes were coasted through", coasted)
	}
}
