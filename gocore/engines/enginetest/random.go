package enginetest

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

// Engine is what is tested.
type Engine interface {
	engine.Coaster
	engine.Reporter
}

// New makes an engine.
type New func(engineargs.Args, engine.Setup) Engine

// Workload is the requests of one engine.
type Workload struct {
	Args     engineargs.Args
	AtMs     []float64
	Requests []engine.Request
	Observe  bool // as a router does
	Cancel   bool // some of the requests
}

// RandomBytes draws at least least and fewer than least+spread bytes, for workloads that are made of any bytes.
func RandomBytes(rng *rand.Rand, least, spread int) []byte {
	data := make([]byte, least+rng.IntN(spread))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return data
}

// Draw adds random requests that arrive at random times. Blocks of prompts are shared among few families.
func Draw(rng *rand.Rand, args engineargs.Args) Workload {
	w := Workload{Args: args, Observe: rng.IntN(2) == 0, Cancel: true}
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
		w.Requests = append(w.Requests, engine.Request{
			ID: engine.RequestID(id), Prompt: prompt, PromptTokens: tokens, OutputTokens: 1 + rng.IntN(60),
		})
		w.AtMs = append(w.AtMs, now)
		now += float64(rng.IntN(3) * rng.IntN(100))
	}
	return w
}

// DrawStorage returns storage behind the host that is small for random workloads, with a threshold of fewer
// than below tokens.
func DrawStorage(rng *rand.Rand, below int) engineargs.StorageArgs {
	return engineargs.StorageArgs{
		Blocks: 1 + rng.IntN(60), ReadMsPerBlock: 3 * rng.Float64(), WriteMsPerBlock: rng.Float64(),
		LatencyMs:        rng.Float64(),
		SharedMsPerBlock: float64(rng.IntN(2)), Threshold: rng.IntN(below), Policy: rng.IntN(3),
		TimeoutBase: rng.Float64() / 50, TimeoutMax: 1,
	}
}

// Run shows every pass to see, until all requests are over. Passes that the engine coasts through are shown as the
// tokens they emit; now and then a request arrives in the midst of them.
func (w Workload) Run(s Engine, see func(*engine.Pass)) error {
	if w.Observe {
		s.Observe()
	}
	now, next := 0.0, 0
	for passes := 0; ; passes++ {
		if s.Requests() == 0 {
			if next == len(w.Requests) {
				return nil
			}
			now = max(now, w.AtMs[next])
		}
		for next < len(w.Requests) && w.AtMs[next] <= now {
			req := w.Requests[next]
			req.SentMs = w.AtMs[next]
			s.Add(req)
			if id := w.Requests[next].ID; w.Cancel && id%7 == 5 {
				s.Cancel(id - 3)
			}
			next++
		}
		until := math.Inf(1)
		if next < len(w.Requests) {
			until = w.AtMs[next]
		}
		if ends := s.Coast(now, until); len(ends) > 0 {
			_, running, _ := s.Load()
			for _, end := range ends {
				see(&engine.Pass{StartMs: now, EndMs: end, Tokens: running, Scheduled: running, Bursts: coastedThrough})
				now = end
			}
			s.Settle(len(ends))
			continue
		}
		p, alive := s.RunPass(now)
		if !alive || passes > 100_000 {
			return fmt.Errorf("at %v ms: no end in sight", now)
		}
		if p.Waits && until < p.EndMs {
			p.Cut(until)
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
	c.Singles = slices.Clone(p.Singles)
	slices.SortFunc(c.Started, func(a, b engine.TokenRun) int { return int(a.ID - b.ID) })
	return c
}

// Shortcuts runs random workloads with and without the engine's shortcuts: every pass must be the same, and at the end
// nothing is in use.
func Shortcuts(t *testing.T, seeds int, newEngine New, draw func(seed uint64) Workload) {
	coasted := 0
	for seed := range uint64(seeds) {
		w := draw(seed)
		var want []engine.Pass
		if err := w.Run(newEngine(w.Args, engine.Setup{Stepwise: true}),
			func(p *engine.Pass) { want = append(want, clonePass(p)) }); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		s, i := newEngine(w.Args, engine.Setup{}), 0
		err := w.Run(s, func(p *engine.Pass) {
			got := clonePass(p)
			if i < len(want) && p.Bursts != nil {
				coasted++
				if w := want[i]; len(w.Admitted)+len(w.Started)+len(w.Finished)+len(w.Rejected)+len(w.Signals)+len(w.KVEvents) > 0 {
					t.Fatalf("seed %d, pass %d: coasts through %+v", seed, i+1, w)
				}
				got, want[i] = outline(&got), outline(&want[i])
			}
			if i < len(want) && !reflect.DeepEqual(got, want[i]) {
				t.Fatalf("seed %d, pass %d, %+v:\ngot  %+v\nwant %+v", seed, i+1, w.Args, got, want[i])
			}
			i++
		})
		if err != nil || i != len(want) {
			t.Fatalf("seed %d: %d passes, want %d: %v", seed, i, len(want), err)
		}
		waiting, running, blocks := s.Load()
		if w.Args.HostCache.Blocks > 0 {
			blocks = 0 // copies that are still under way lock some
		}
		if waiting+running+blocks > 0 {
			t.Fatalf("seed %d: at the end %d requests wait, %d run, and %d blocks are in use", seed, waiting, running,
				blocks)
		}
	}
	if coasted < seeds {
		t.Errorf("only %d passes were coasted through", coasted)
	}
}

// outline returns what is known of a pass that an engine coasts through.
func outline(p *engine.Pass) engine.Pass {
	return engine.Pass{StartMs: p.StartMs, EndMs: p.EndMs, Tokens: p.Tokens, Scheduled: p.Scheduled}
}
