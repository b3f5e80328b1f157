// Package worker is one worker: an engine, made from its arguments, and the pass it is busy with. The shells know
// engines only by their common interface.
package worker

import "dynosim/gocore/engine"

// Worker is one engine and what the shell knows of it.
type Worker struct {
	Engine engine.Engine
	// Pass is the pass being run, until its end is applied; nil if the worker is idle or coasts.
	Pass *engine.Pass
	// Coast is the ends of the passes that the worker runs in one go; empty if it does not (engine.Coaster).
	Coast []float64

	bursts engine.BurstCoaster // nil if the worker must not, or cannot, coast while it decodes speculatively
}

// Busy reports whether a pass is being run.
func (w *Worker) Busy() bool { return w.Pass != nil || len(w.Coast) > 0 }

// TryCoast makes an idle worker coast, if its engine can: through passes that start before untilMs.
func (w *Worker) TryCoast(nowMs, untilMs float64) bool {
	if coaster, ok := w.Engine.(engine.Coaster); ok {
		w.Coast = coaster.Coast(nowMs, untilMs)
	}
	return len(w.Coast) > 0
}

// CoastWithBursts lets a worker coast while it decodes speculatively, if its engine can ([engine.BurstCoaster]).
func (w *Worker) CoastWithBursts() {
	if coaster, ok := w.Engine.(engine.BurstCoaster); ok {
		coaster.CoastWithBursts()
		w.bursts = coaster
	}
}

// Surplus returns what requests emitted in the coast that was settled last, beyond one token in each pass.
func (w *Worker) Surplus() []engine.Surplus {
	if w.bursts == nil {
		return nil
	}
	return w.bursts.Surplus()
}

// CoastHostMs returns the host time of each pass of the coast that was settled last, as far as the engine can tell.
func (w *Worker) CoastHostMs() float64 {
	if explainer, ok := w.Engine.(engine.CoastExplainer); ok {
		return explainer.CoastHostMs()
	}
	return 0
}

// Settle ends the coasting of a worker after the first passes passes and returns their ends.
func (w *Worker) Settle(passes int) (endsMs []float64) {
	w.Engine.(engine.Coaster).Settle(passes)
	endsMs, w.Coast = w.Coast[:passes], nil
	return endsMs
}
