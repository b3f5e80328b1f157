package online

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"dynosim/gocore/engine"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/pace"
	"dynosim/gocore/replay"
	"dynosim/gocore/timing"
	model "dynosim/gocore/worker"
)

// message is a report of a worker to the dispatcher. It owns its slices.
type message struct {
	worker   int
	cache    []kvcache.Event
	pass     *engine.Pass    // that has ended; nil if the events come before its end
	lockstep engine.Lockstep // of its ranks, so far
	failure  string          // of the worker itself
}

// guarded makes one model safe for the engines of several goroutines.
type guarded struct {
	mu    *sync.Mutex
	model timing.Model
}

// PrefillMs implements [timing.Model].
func (g guarded) PrefillMs(s timing.PrefillShape) float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.model.PrefillMs(s)
}

// DecodeMs implements [timing.Model].
func (g guarded) DecodeMs(s timing.DecodeShape) float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.model.DecodeMs(s)
}

// Err tells why the model cannot go on, nil if it can.
func (g guarded) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m, asks := g.model.(interface{ Err() error }); asks {
		return m.Err()
	}
	return nil
}

// worker is one engine and the goroutine that owns it.
type worker struct {
	index    int
	engine   engine.Engine
	broken   func() error // why durations cannot be determined; nil if they can
	clock    *pace.Clock
	messages chan<- message
	stop     <-chan struct{}
	done     chan struct{}

	mu    sync.Mutex
	inbox []engine.Request
	wake  chan struct{} // the inbox is not empty; holds one
}

func newWorker(index int, cfg *replay.Config, observe bool, models *sync.Mutex, clock *pace.Clock, messages chan<- message, stop <-chan struct{}) *worker {
	var setup engine.Setup
	if cfg.Setup != nil {
		setup = cfg.Setup(engine.Aggregated, index)
	}
	broken := func() error { return nil }
	if setup.Model != nil {
		model := guarded{models, setup.Model}
		setup.Model, broken = model, model.Err
	}
	w := &worker{
		index: index, engine: model.New(cfg.Args, setup).Engine, broken: broken, clock: clock.Fork(), messages: messages, stop: stop,
		done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	if observe {
		w.engine.Observe()
	}
	return w
}

// submit gives the worker a request. It never waits.
func (w *worker) submit(r engine.Request) {
	r.SentMs = w.clock.NowMs()
	w.mu.Lock()
	w.inbox = append(w.inbox, r)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *worker) take() []engine.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	requests := w.inbox
	w.inbox = nil
	return requests
}

func (w *worker) run() {
	defer close(w.done)
	defer func() {
		if cause := recover(); cause != nil {
			w.tell(message{failure: fmt.Sprintf("internal: %v\n%s", cause, debug.Stack())})
		}
	}()
	busy, endMs := false, 0.0
	for {
		startMs := w.clock.PassStartMs(busy, endMs)
		if requests := w.take(); len(requests) > 0 {
			startMs = w.clock.NowMs() // the pass cannot start before they arrived
			for _, r := range requests {
				w.engine.Add(r)
			}
		}
		if busy = w.engine.Requests() > 0; !busy {
			if !w.clock.Await(w.wake) {
				return
			}
			continue
		}
		var ok bool
		if endMs, ok = w.pass(startMs); !ok {
			return
		}
	}
}

// pass runs one pass and reports it to the dispatcher at its times. It returns false if the worker is to stop.
func (w *worker) pass(startMs float64) (endMs float64, ok bool) {
	pass, alive := w.engine.RunPass(startMs)
	if err := w.broken(); err != nil {
		w.tell(message{failure: err.Error()})
		return 0, false
	}
	m := message{pass: &engine.Pass{
		StartMs: startMs, Tokens: pass.Tokens, Admitted: slices.Clone(pass.Admitted), Started: slices.Clone(pass.Started), Singles: slices.Clone(pass.Singles),
		Bursts: slices.Clone(pass.Bursts), Finished: slices.Clone(pass.Finished), Rejected: slices.Clone(pass.Rejected),
		Signals: slices.Clone(pass.Signals), Transfers: slices.Clone(pass.Transfers),
	}}
	if ranks, has := w.engine.(engine.LockstepReporter); has {
		m.lockstep = ranks.Lockstep()
	}
	cache := slices.Clone(pass.KVEvents)
	for i := range cache {
		cache[i] = cache[i].Clone()
	}
	if pass.KVEventsAtMs < pass.EndMs && len(cache) > 0 {
		if !w.tell(message{cache: cache}) {
			return 0, false
		}
	} else {
		m.cache = cache
	}
	if !alive && !w.engine.Unblock() {
		m.pass.Rejected = append(m.pass.Rejected, w.giveUp())
	}
	if pass.Idle() && len(m.pass.Rejected) == 0 {
		return pass.EndMs, w.clock.SleepUntil(pass.EndMs)
	}
	return pass.EndMs, w.clock.SleepUntil(pass.EndMs) && w.tell(m)
}

// giveUp takes the oldest request out of an engine that cannot go on otherwise.
func (w *worker) giveUp() engine.Rejection {
	oldest := w.engine.States()[0]
	w.engine.Cancel(oldest.ID)
	return engine.Rejection{ID: oldest.ID, Reason: "the KV pool cannot hold this request beside the others"}
}

// tell sends a message. It returns false if the dispatcher has ended.
func (w *worker) tell(m message) bool {
	m.worker = w.index
	select {
	case w.messages <- m:
		return true
	case <-w.stop:
		return false
	}
}
