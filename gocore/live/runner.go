package live

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/emission"
	"dynosim/gocore/handoff"
	"dynosim/gocore/journal"
	"dynosim/gocore/pace"
	"dynosim/gocore/protocol/bootstrap"
	"dynosim/gocore/worker"
)

// runner is one engine, and the goroutine that owns it. The engine has one data-parallel rank, or several that run
// their passes together.
type runner struct {
	args   *engineargs.Args
	engine engine.Reporter
	// lockstep is the same engine by its methods for several ranks; nil if it does not have these.
	lockstep engine.Ranked
	ranks    []*rank
	traits   engine.Traits
	// source and destination are the same engine by its methods for hand-offs, on a prefill or a decode worker; nil on
	// others.
	source      engine.Source
	destination engine.Destination
	log         *slog.Logger
	clock       *pace.Clock
	stop        chan struct{}
	done        chan struct{}
	failed      atomic.Bool
	broken      func() error        // why the durations of passes cannot be determined; nil if they can
	onFailure   func(reason string) // after failed was set; may be nil

	inbox inbox

	journal *journal.Journal // of this engine by itself; nil for none
	sinceMs float64          // when its clock began, by the clock of the journal

	// What follows belongs to the engine goroutine.
	requests map[engine.RequestID]*request
	lastID   engine.RequestID
	emitting emission.Set[*request]
	released []release
	computed []*request // their prompts have been computed by the pass
	endMs    float64    // of the last pass
	busy     bool       // the engine had work after it
	awaiting int        // requests in a hand-off, with blocks that come free, or into use, without a pass
}

// release is n tokens that a pass has made for a request.
type release struct {
	request *request
	n       int
	failure string // instead, if not ""
}

// command is what another goroutine asks a runner to do.
type command struct {
	request *request
	cancel  bool
	action  handoff.Action // of a hand-off, or None; its outcome is reported
	tell    func(bootstrap.Fact)
	atMs    float64
}

const shuttingDown = "the worker is shutting down"

// inbox holds commands in the order of their arrival. Senders never wait.
type inbox struct {
	mu       sync.Mutex
	commands []command
	closed   bool // they are not read any more
	wake     chan struct{}
}

// newRunner returns a runner that does not run yet. setup has the timing model and whatever else the engine needs.
func newRunner(args *engineargs.Args, setup engine.Setup, log *slog.Logger) *runner {
	stop := make(chan struct{})
	r := &runner{
		args:     args,
		traits:   worker.Traits(*args),
		engine:   worker.New(*args, setup).Engine.(engine.Reporter), // all are
		log:      log,
		stop:     stop,
		clock:    pace.New(stop),
		done:     make(chan struct{}),
		inbox:    inbox{wake: make(chan struct{}, 1)},
		requests: map[engine.RequestID]*request{},
		broken:   func() error { return nil },
	}
	r.lockstep, _ = r.engine.(engine.Ranked)
	for range max(1, args.Ranks) {
		r.ranks = append(r.ranks, newRank(args))
	}
	switch setup.Role {
	case engine.Prefill:
		r.source = r.engine.(engine.Source)
	case engine.Decode:
		r.destination = r.engine.(engine.Destination)
	}
	if r.lockstep != nil {
		r.lockstep.ObserveRanks()
	} else {
		r.engine.Observe()
	}
	r.engine.ReportWork()
	if model, asks := setup.Model.(interface{ Err() error }); asks {
		r.broken = model.Err
	}
	return r
}

// submit gives a request to the engine. It reports false if the engine has stopped.
func (r *runner) submit(q *request) bool { return r.send(command{request: q, atMs: r.nowMs()}) }

// cancel takes a request out of the engine. Nothing happens if it has ended.
func (r *runner) cancel(q *request) { r.send(command{request: q, cancel: true}) }

func (r *runner) send(n command) bool {
	r.inbox.mu.Lock()
	defer r.inbox.mu.Unlock()
	if r.inbox.closed {
		return false
	}
	r.inbox.commands = append(r.inbox.commands, n)
	select {
	case r.inbox.wake <- struct{}{}:
	default:
	}
	return true
}

func (r *runner) nowMs() float64 { return r.clock.NowMs() }

// close ends the engine, which must have been started. Requests that are left fail.
func (r *runner) close() {
	close(r.stop)
	<-r.done
}

// start runs the engine on a goroutine of its own, until close, and reports to the observers of each rank.
func (r *runner) start(observers ...[]Observer) {
	for i, list := range observers {
		r.ranks[i].observers = list
	}
	go r.run()
}

func (r *runner) run() {
	defer close(r.done)
	defer func() {
		if cause := recover(); cause != nil {
			r.log.Error("an engine failed", "cause", cause, "stack", string(debug.Stack()))
			r.fail(fmt.Sprintf("the engine failed: %v", cause))
		}
	}()
	for {
		startMs := r.takeCommands()
		if r.engine.Requests() == 0 {
			r.busy = false
			if !r.clock.Await(r.inbox.wake) {
				break
			}
			continue
		}
		if !r.pass(startMs) {
			break
		}
	}
	if err := r.broken(); err != nil {
		r.fail("the engine failed: " + err.Error())
		return
	}
	r.abandon(shuttingDown)
}

// fail ends the engine after an error.
func (r *runner) fail(reason string) {
	r.failed.Store(true)
	r.abandon(reason)
	if r.onFailure != nil {
		r.onFailure(reason)
	}
}

// pass runs one pass, and makes each of its effects visible at its time. It reports false if the runner is to stop.
func (r *runner) pass(startMs float64) bool {
	pass, alive := r.engine.RunPass(startMs)
	r.recordPass(pass)
	if r.broken() != nil {
		return false
	}
	r.endMs, r.busy = pass.EndMs, true
	r.book(pass)
	early := pass.KVEventsAtMs < pass.EndMs
	if early {
		r.publish(pass)
	}
	if !r.sleep(pass) {
		return false
	}
	if !early {
		r.publish(pass)
	}
	r.tryReserve()
	r.tellPass(pass)
	r.tellLoad() // before a client has the tokens, and may ask
	for _, x := range r.released {
		if x.failure != "" {
			x.request.fail(failure{reason: x.failure})
		} else {
			x.request.release(x.n, pass.EndMs)
		}
	}
	r.tellHeld()
	// An idle engine of one role may be waiting for the other worker of a hand-off.
	if idle := pass.Idle() && r.args.Role != engine.Aggregated; alive && !idle || r.engine.Requests() == 0 {
		return true
	}
	return r.unblock()
}

// sleep waits for the end of a pass. One in which nothing runs, as a copy between tiers has not ended, ends when there
// is something to look at. It reports false if the runner is to stop.
func (r *runner) sleep(pass *engine.Pass) bool {
	if !pass.Waits {
		return r.clock.SleepUntil(pass.EndMs)
	}
	woken, going := r.clock.SleepUntilOr(pass.EndMs, r.inbox.wake)
	if !woken {
		return going
	}
	pass.Cut(r.nowMs())
	r.endMs = pass.EndMs
	return r.clock.SleepUntil(pass.EndMs)
}

// takeCommands hands requests to the engine, and says when the next pass starts.
func (r *runner) takeCommands() (startMs float64) {
	r.inbox.mu.Lock()
	commands := r.inbox.commands
	r.inbox.commands = nil
	r.inbox.mu.Unlock()
	startMs = r.clock.PassStartMs(r.busy, r.endMs)
	for i := range commands {
		switch n := &commands[i]; {
		case n.cancel:
			r.drop(n.request)
			continue
		case n.action != handoff.None:
			r.handOff(n)
		default:
			e := r.enter(n.request, n.atMs)
			r.recordJoin(e, n.atMs)
			r.engine.Add(e)
		}
		startMs = max(startMs, commands[i].atMs)
	}
	if len(commands) > 0 {
		r.tellLoad()
	}
	return startMs
}

// enter gives a request its id, its rank, and the ids of its blocks.
func (r *runner) enter(q *request, sentMs float64) engine.Request {
	r.lastID = engine.NextID(r.lastID, r.requests)
	q.state.ID, q.state.Outputs = r.lastID, len(q.output.tokens)
	r.requests[q.state.ID] = q
	e := engine.Request{ID: q.state.ID, PromptTokens: len(q.prompt), OutputTokens: len(q.output.tokens), SentMs: sentMs}
	rank := r.place(q, &e)
	if r.traits.CachesPrefixes {
		tokens := q.prompt
		if r.source == nil { // the token of a prefill worker is not part of any answer
			tokens = append(q.prompt[:len(q.prompt):len(q.prompt)], q.output.tokens...)
		}
		q.blocks = rank.names.Hold(tokens, q.salt)
		e.Prompt, e.NamedBlocks = q.blocks, len(q.blocks.Segments)
	}
	rank.prompted += len(q.prompt)
	q.prompt = nil
	return e
}

// drop takes a request out of the engine, which frees its blocks at once.
func (r *runner) drop(q *request) {
	switch {
	case q.over:
	case r.source != nil:
		r.forget(q, r.source.CancelSource)
	case r.destination != nil:
		r.destination.CancelDestination(q.state.ID)
		r.recordLeave(q)
		r.end(q)
		r.tryReserve()
	default:
		r.engine.Cancel(q.state.ID)
		r.recordLeave(q)
		r.end(q)
	}
}

// end forgets a request that the engine does not own any more. Events of its last pass may still name its blocks.
func (r *runner) end(q *request) {
	q.over = true
	r.actionDone(q)
	delete(r.requests, q.state.ID)
	rank := q.rank.Load()
	rank.leaving = append(rank.leaving, q)
	r.emitting.Drop(q)
}

// unblock handles an engine that has requests and can run no pass. While hand-offs are going to free blocks it waits
// for them: they do not depend on passes of this engine, and have a deadline. It reports false if the runner is to
// stop.
func (r *runner) unblock() bool {
	if r.awaiting == 0 {
		r.revive()
		return true
	}
	r.busy = false
	return r.clock.Await(r.inbox.wake)
}

// revive makes an engine able to run passes again. If nothing else helps, the oldest request fails.
func (r *runner) revive() {
	if r.engine.Requests() == 0 || r.tryReserve() || r.engine.Unblock() {
		return
	}
	oldest := r.engine.States()[0]
	if q, known := r.requests[oldest.ID]; known {
		r.log.Warn("a request cannot be served", "state", oldest.State, "prompt_tokens", oldest.PromptTokens,
			"output_tokens", oldest.OutputTokens)
		r.drop(q)
		q.fail(failure{reason: "the KV pool cannot hold this request beside the others"})
	}
}

// abandon fails all requests that are left, and all that are submitted later.
func (r *runner) abandon(reason string) {
	r.inbox.mu.Lock()
	commands := r.inbox.commands
	r.inbox.commands, r.inbox.closed = nil, true
	r.inbox.mu.Unlock()
	for i := range commands {
		commands[i].refuse(reason)
	}
	for _, q := range r.requests {
		q.fail(failure{reason, true})
	}
}
