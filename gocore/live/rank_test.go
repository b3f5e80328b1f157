package live

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/live/blocks"
	"dynosim/gocore/protocol/wire"
)

// recorder is an observer that remembers; it is read after the rank was closed.
type recorder struct {
	stored, removed int
	passes          int
	ms              []float64 // how long they took
	load            Load
}

func (o *recorder) CacheChanged(changes []blocks.Change) {
	for _, c := range changes {
		if c.Kind == kvcache.Stored {
			o.stored += len(c.Blocks)
		} else {
			o.removed += len(c.Blocks)
		}
	}
}
func (o *recorder) PassEnded(_ engine.Work, ms float64) {
	o.passes, o.ms = o.passes+1, append(o.ms, ms)
}
func (o *recorder) LoadChanged(l Load) { o.load = l }

func startRank(t *testing.T, change func(*engineargs.Args)) (*runner, *recorder) {
	t.Helper()
	args := engineargs.Default()
	args.BlockSize, args.NumGPUBlocks = 4, 100
	change(&args)
	o := &recorder{}
	r := newRunner(&args, engine.Setup{}, slog.New(slog.DiscardHandler))
	r.start([]Observer{o})
	return r, o
}

func plan(prompt, output int, seed uint64) *request {
	rng := rand.New(rand.NewPCG(seed, 0))
	tokens := func(n int) []uint32 {
		list := make([]uint32, n)
		for i := range list {
			list[i] = rng.Uint32N(1000)
		}
		return list
	}
	return newRequest(tokens(prompt), asOutput(tokens(output)))
}

func asOutput(tokens []uint32) output { return output{tokens: tokens, finish: wire.FinishLength} }

// finish waits until a request is over and returns how many tokens it got, and why it failed.
func finish(t *testing.T, q *request) (tokens int, failure string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case <-q.wake:
		case <-deadline:
			t.Fatalf("%d of %d tokens came", q.released.Load(), len(q.output.tokens))
		}
		if f := q.failure.Load(); f != nil {
			return int(q.released.Load()), f.reason
		}
		if n := int(q.released.Load()); n >= len(q.output.tokens) {
			return n, ""
		}
	}
}

var engines = map[string]func(*engineargs.Args){
	"vllm":   func(*engineargs.Args) {},
	"sglang": func(a *engineargs.Args) { a.EngineType, a.SGLang.ReferenceQuirks = engineargs.SGLang, false },
	"sglang by its own rules": func(a *engineargs.Args) {
		a.EngineType, a.Scheduler, a.SGLang.Overlap = engineargs.SGLang, engineargs.SGLangOwn, true
	},
	"vllm without prefix caching": func(a *engineargs.Args) { a.PrefixCaching = false },
	"ranks of vllm": func(a *engineargs.Args) {
		a.Scheduler, a.VLLM.Release, a.VLLM.PrefillInterval = engineargs.VLLMOwn, engineargs.VLLM033, 1
		a.Ranks, a.Live.Ranks = 2, 2
	},
}

// TestRank: requests on a pool that is too small for all of them get exactly their tokens, and the names of blocks do
// not outlive the blocks.
func TestRank(t *testing.T) {
	for name, change := range engines {
		r, o := startRank(t, func(a *engineargs.Args) {
			change(a)
			a.NumGPUBlocks, a.SpeedupRatio = 20, 50
		})
		var all []*request
		for i := range 40 {
			q := plan(1+i, 5+i%20, uint64(i%7))
			all = append(all, q)
			if !r.submit(q) {
				t.Fatal("not accepted")
			}
		}
		for _, q := range all {
			if n, failure := finish(t, q); n != len(q.output.tokens) || failure != "" {
				t.Errorf("%s: got %d of %d tokens, %s", name, n, len(q.output.tokens), failure)
			}
		}
		r.close()
		if o.passes == 0 || o.load.Running != 0 || o.load.Waiting != 0 {
			t.Errorf("%s: got %+v", name, o)
		}
		if r.args.PrefixCaching && (o.stored == 0 || o.removed == 0) {
			t.Errorf("%s: got %+v", name, o)
		}
		for _, k := range r.ranks {
			if k.names.Len() > r.args.NumGPUBlocks {
				t.Errorf("%s: %d blocks are named, %d cached at most", name, k.names.Len(), r.args.NumGPUBlocks)
			}
		}
		if len(r.requests) != 0 || r.emitting.Len() != 0 {
			t.Errorf("%s: left are %d requests, %d emitting", name, len(r.requests), r.emitting.Len())
		}
	}
}

// TestNoTokenBeforeItsTime: a request takes as long as offline.
func TestNoTokenBeforeItsTime(t *testing.T) {
	r, _ := startRank(t, func(*engineargs.Args) {})
	defer r.close()
	offline := engineDuration(t, r.args, 40, 5)
	var taken []float64
	for i := range uint64(30) { // on a busy machine it may take some to find the processor free
		q := plan(40, 5, i)
		began := time.Now()
		r.submit(q)
		if n, failure := finish(t, q); n != 5 || failure != "" {
			t.Errorf("got %d tokens, %s", n, failure)
		}
		took := float64(time.Since(began)) / 1e6
		if took < offline {
			t.Errorf("took %v ms, offline %v ms", took, offline)
		}
		if took < offline+500 {
			return
		}
		taken = append(taken, took)
	}
	t.Errorf("took %v ms, offline %v ms", taken, offline)
}

func engineDuration(t *testing.T, args *engineargs.Args, prompt, output int) float64 {
	t.Helper()
	e := newRunner(args, engine.Setup{}, nil).engine
	e.Add(engine.Request{ID: 1, Prompt: kvcache.Prompt{Segments: []uint32{1}, PerSegment: prompt}, PromptTokens: prompt,
		OutputTokens: output})
	now := 0.0
	for e.Requests() > 0 {
		pass, _ := e.RunPass(now)
		now = pass.EndMs
	}
	return now
}

// TestCancel: blocks of cancelled requests are free at once, those of others come through.
func TestCancel(t *testing.T) {
	for name, change := range engines {
		r, o := startRank(t, func(a *engineargs.Args) {
			change(a)
			a.NumGPUBlocks, a.SpeedupRatio = 25, 0.05 // the long one takes many seconds
		})
		long, late := plan(8, 80, 1), plan(8, 4, 2)
		r.submit(long)
		<-long.wake
		r.submit(late)
		r.cancel(long)
		r.cancel(long)
		if n, failure := finish(t, late); n != 4 || failure != "" {
			t.Errorf("%s: got %d, %s", name, n, failure)
		}
		r.cancel(late)
		r.close()
		if n := long.released.Load(); n >= 40 || o.load.Running != 0 {
			t.Errorf("%s: the cancelled request got %d tokens, %+v", name, n, o.load)
		}
	}
}

// TestClose: requests that are there fail, and so do those that come later.
func TestClose(t *testing.T) {
	r, _ := startRank(t, func(a *engineargs.Args) { a.SpeedupRatio = 0.05 }) // the request takes many seconds
	q := plan(8, 80, 1)
	r.submit(q)
	<-q.wake
	r.close()
	if _, failure := finish(t, q); failure == "" {
		t.Error("the request has not failed")
	}
	if r.submit(plan(8, 80, 1)) {
		t.Error("a closed rank accepts requests")
	}
}

// TestHopeless: what the engine rejects, and what it can never finish, fails.
func TestHopeless(t *testing.T) {
	for name, change := range engines {
		r, _ := startRank(t, func(a *engineargs.Args) {
			change(a)
			a.NumGPUBlocks = 5
		})
		if _, failure := serve(t, r, plan(30, 5, 1)); failure == "" {
			t.Errorf("%s: it has not failed", name)
		}
		if n, failure := serve(t, r, plan(5, 5, 1)); n != 5 {
			t.Errorf("%s: got %d, %s", name, n, failure)
		}
		r.close()
	}
}

func serve(t *testing.T, r *runner, q *request) (int, string) {
	r.submit(q)
	return finish(t, q)
}
