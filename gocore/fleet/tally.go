package fleet

import (
	"cmp"
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/planner"
)

// tally keeps the passes that ended since the last tick, for a planner that wants to see them.
type tally struct {
	on      bool
	emits   bool // the tokens of the pool are counted
	ended   []planner.Pass
	workers []tallied
	traffic *planner.Traffic
}

// tallied is what is known of a worker between two of its passes' ends.
type tallied struct {
	pass             planner.Pass // the one that is being run
	tokens, forwards int
	coastMs          float64       // when its coast began
	queued           engine.Phases // what waited then
}

func (t *tally) worker(i int) *tallied {
	for i >= len(t.workers) {
		t.workers = append(t.workers, tallied{})
	}
	return &t.workers[i]
}

// began keeps the work of a pass that has just been run. It counts when it ends.
func (p *Pool) began(i int, e engine.Engine, pass *engine.Pass) {
	t := &p.tally
	if !t.on {
		return
	}
	w := t.worker(i)
	w.pass = planner.Pass{Worker: i, StartMs: pass.StartMs, EndMs: pass.EndMs, Work: e.(engine.Reporter).Work()}
	w.tokens, w.forwards = pass.Tokens, pass.Tokens
	for _, b := range pass.Bursts {
		w.forwards -= b.Tokens - 1
	}
}

// end counts the pass of a worker that ends now.
func (t *tally) end(i int) {
	w := t.worker(i)
	t.ended = append(t.ended, w.pass)
	t.count(w.tokens, w.forwards)
}

func (t *tally) count(tokens, forwards int) {
	if t.emits {
		t.traffic.Tokens += tokens
		t.traffic.Forwards += forwards
	}
}

// mayCoast reports whether an engine can tell its work if it coasts. Passes have to be run one by one otherwise.
func (p *Pool) mayCoast(e engine.Engine) bool {
	if !p.tally.on {
		return true
	}
	_, ok := e.(engine.CoastReporter)
	return ok
}

// coasts keeps what waits when worker i begins to coast.
func (p *Pool) coasts(i int, e engine.Engine, nowMs float64) {
	t := &p.tally
	if !t.on {
		return
	}
	w := t.worker(i)
	w.coastMs, w.queued = nowMs, e.(engine.CoastReporter).Work().Queued
}

// coasted counts passes of a coast that have been settled. The last one may still be being run.
func (p *Pool) coasted(i int, e engine.Engine, endsMs []float64, nowMs float64) {
	t := &p.tally
	if !t.on {
		return
	}
	w, last := t.worker(i), e.(engine.CoastReporter).CoastWork()
	tokens := last.DecodeRequests
	startMs := w.coastMs
	for n, endMs := range endsMs {
		work := engine.Work{Scheduled: last.Before(len(endsMs) - 1 - n), Queued: w.queued}
		pass := planner.Pass{Worker: i, StartMs: startMs, EndMs: endMs, Work: work}
		startMs = endMs
		if endMs > nowMs {
			w.pass, w.tokens, w.forwards = pass, tokens, tokens
			return
		}
		t.ended = append(t.ended, pass)
		t.count(tokens, tokens)
	}
}

// take returns the passes that have ended since the last time, in the order in which they were applied: by their ends,
// and at one instant by their starts. Those of coasts are counted late.
func (t *tally) take() []planner.Pass {
	slices.SortStableFunc(t.ended, func(a, b planner.Pass) int {
		return cmp.Or(cmp.Compare(a.EndMs, b.EndMs), cmp.Compare(a.StartMs, b.StartMs), cmp.Compare(a.Worker, b.Worker))
	})
	ended := t.ended
	t.ended = nil
	return ended
}
