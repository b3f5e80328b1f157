// Package intake delays requests on their way to an engine's scheduler.
//
// A client's clock runs from the moment it sends a request. The scheduler sees the request only after the server has
// read and tokenised it, and the client sees the first token only after the server has sent it. Both delays are of the
// same kind: they occupy no GPU, and no other request waits for them. Engine adds up both before the scheduler sees the
// request:
//
//	Add --> on its way --delay--> Add of the engine inside
//
// While the engine inside owns no request, a pass only waits for the first one that is on its way. So shells need no
// further kind of event. Otherwise passes are those of the engine inside; it coasts no further than to the next
// arrival.
package intake

import (
	"slices"

	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
	"dynosim/gocore/kvcache"
)

// Engine is an engine whose requests take a while to its scheduler. One loop owns it.
type Engine struct {
	inner     engine.Engine
	delay     Delay
	blockSize int
	onWay     deque.Deque[traveller] // in order of SentMs and of dueMs
	waiting   engine.Pass            // of a pass that only waits
	waited    bool                   // the last pass did
	reporting bool                   // work is to be reported
}

// Delay is how long a request is on its way: Ms, and TokenMs for each token of its prompt.
type Delay struct{ Ms, TokenMs float64 }

// Of returns the delay of a prompt.
func (d Delay) Of(promptTokens int) float64 {
	if d.TokenMs == 0 {
		return d.Ms
	}
	return d.Ms + float64(d.TokenMs*float64(promptTokens))
}

// traveller is a request that is on its way, and when it reaches the scheduler.
type traveller struct {
	engine.Request
	dueMs float64
}

// New returns inner with a delay, from the SentMs of each request. inner must not be a destination of hand-offs.
func New(inner engine.Engine, delay Delay, blockSize int) *Engine {
	return &Engine{inner: inner, delay: delay, blockSize: blockSize}
}

var (
	_ engine.CoastReporter = (*Engine)(nil)
	_ engine.Source        = (*Engine)(nil)
)

// Add implements [engine.Engine]. No request overtakes another one, however short its prompt is.
func (e *Engine) Add(req engine.Request) {
	due := req.SentMs + e.delay.Of(req.PromptTokens)
	if e.onWay.Len() > 0 {
		due = max(due, e.onWay.Back().dueMs)
	}
	e.onWay.PushBack(traveller{req, due})
}

// dueMs returns when the first request on its way reaches the scheduler.
func (e *Engine) dueMs() float64 { return e.onWay.Front().dueMs }

// deliver hands over the requests that have arrived by now.
func (e *Engine) deliver(nowMs float64) {
	for e.onWay.Len() > 0 && e.dueMs() <= nowMs {
		e.inner.Add(e.onWay.PopFront().Request)
	}
}

// RunPass implements [engine.Engine].
func (e *Engine) RunPass(nowMs float64) (pass *engine.Pass, alive bool) {
	e.deliver(nowMs)
	e.waited = e.onWay.Len() > 0 && e.inner.Requests() == 0
	if e.waited {
		e.waiting = engine.Pass{StartMs: nowMs, EndMs: e.dueMs()}
		return &e.waiting, true
	}
	pass, alive = e.inner.RunPass(nowMs)
	if e.onWay.Len() > 0 && (!alive || pass.Idle()) {
		pass.EndMs, alive = e.dueMs(), true
	}
	return pass, alive
}

// Coast implements [engine.Coaster].
func (e *Engine) Coast(nowMs, untilMs float64) []float64 {
	coaster, ok := e.inner.(engine.Coaster)
	if _, tells := e.inner.(engine.CoastReporter); !ok || e.reporting && !tells {
		return nil
	}
	e.deliver(nowMs)
	if e.onWay.Len() > 0 {
		untilMs = min(untilMs, e.dueMs())
	}
	return coaster.Coast(nowMs, untilMs)
}

// Settle implements [engine.Coaster].
func (e *Engine) Settle(passes int) { e.inner.(engine.Coaster).Settle(passes) }

// Cancel implements [engine.Engine].
func (e *Engine) Cancel(id engine.RequestID) {
	if !e.turnBack(id) {
		e.inner.Cancel(id)
	}
}

// turnBack forgets a request that is on its way, and reports whether it was.
func (e *Engine) turnBack(id engine.RequestID) bool {
	i := e.find(id)
	if i >= 0 {
		e.onWay.Remove(i)
	}
	return i >= 0
}

func (e *Engine) find(id engine.RequestID) int {
	return e.onWay.Index(func(r traveller) bool { return r.ID == id })
}

// Unblock implements [engine.Engine].
func (e *Engine) Unblock() bool { return e.inner.Unblock() }

// Requests implements [engine.Engine].
func (e *Engine) Requests() int { return e.onWay.Len() + e.inner.Requests() }

// States implements [engine.Engine].
func (e *Engine) States() []engine.RequestState {
	states := slices.Clone(e.inner.States())
	for i := range e.onWay.Len() {
		r := e.onWay.At(i)
		states = append(states, engine.RequestState{
			ID: r.ID, State: "waiting", PromptTokens: r.PromptTokens, OutputTokens: r.OutputTokens,
			BlocksNeeded: (r.PromptTokens + r.OutputTokens + e.blockSize - 1) / e.blockSize,
		})
	}
	return states
}

// Observe implements [engine.Engine].
func (e *Engine) Observe() { e.inner.Observe() }

// ReleaseSource implements [engine.Source].
func (e *Engine) ReleaseSource(id engine.RequestID) []kvcache.Event {
	if i := e.find(id); i >= 0 {
		r := e.onWay.At(i)
		r.Hold = false
		e.onWay.Set(i, r)
		return nil
	}
	return e.inner.(engine.Source).ReleaseSource(id)
}

// CancelSource implements [engine.Source].
func (e *Engine) CancelSource(id engine.RequestID) []kvcache.Event {
	if e.turnBack(id) {
		return nil
	}
	return e.inner.(engine.Source).CancelSource(id)
}

// ReportWork implements [engine.Reporter].
func (e *Engine) ReportWork() {
	e.reporting = true
	e.inner.(engine.Reporter).ReportWork()
}

// CoastHostMs implements [engine.CoastExplainer].
func (e *Engine) CoastHostMs() float64 {
	if explainer, ok := e.inner.(engine.CoastExplainer); ok {
		return explainer.CoastHostMs()
	}
	return 0
}

// CoastWork implements [engine.CoastReporter].
func (e *Engine) CoastWork() engine.Phases { return e.inner.(engine.CoastReporter).CoastWork() }

// Work implements [engine.Reporter]. Requests on their way are not in the engine's queue yet.
func (e *Engine) Work() engine.Work {
	work := e.inner.(engine.Reporter).Work()
	if e.waited {
		work.Scheduled = engine.Phases{}
	}
	return work
}

// Abandon implements [engine.Abandoner].
func (e *Engine) Abandon(nowMs float64) engine.Copied {
	if inner, keeps := e.inner.(engine.Abandoner); keeps {
		return inner.Abandon(nowMs)
	}
	return engine.Copied{}
}

// Groups implements [engine.GroupReporter].
func (e *Engine) Groups() (engine.GroupUse, bool) {
	if reporter, has := e.inner.(engine.GroupReporter); has {
		return reporter.Groups()
	}
	return engine.GroupUse{}, false
}

// Load implements [engine.Reporter]. Requests on their way do not wait in the engine yet.
func (e *Engine) Load() (waiting, running, activeBlocks int) {
	return e.inner.(engine.Reporter).Load()
}
