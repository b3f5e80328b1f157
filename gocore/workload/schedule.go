package workload

import "fmt"

// Schedule prepares the times of a workload for one of the two modes and checks them.
//
// In trace mode the earliest session moves to 0, then every start and every delay is divided by speedup. In concurrency
// mode nothing is changed: starts are ignored, and delays are part of the clients' behaviour.
//
// Requests that wait for others run in trace mode only. Their own times count for nothing but the earliest
// start.
func (w *Workload) Schedule(concurrency bool, speedup float64) error {
	switch {
	case concurrency && w.WaitFor != nil:
		return fmt.Errorf("%s: requests of trace_format %v wait for each other, replay_concurrency is not supported with it",
			w.File, w.Format)
	case !concurrency && w.untimed:
		return fmt.Errorf("%s: the requests have no arrival times, they need replay_concurrency", w.File)
	case !concurrency && w.Format == AppliedCompute:
		return fmt.Errorf("%s: trace_format %v has no timestamps, it needs replay_concurrency", w.File, w.Format)
	}
	if w.passing != nil {
		if concurrency {
			return nil
		}
		return w.passing.accelerate(w, speedup)
	}
	if !concurrency {
		w.normalise()
		if err := w.accelerate(speedup); err != nil {
			return err
		}
	}
	for i := range w.Sessions {
		s := &w.Sessions[i]
		if !concurrency && !s.Timed && w.WaitFor == nil {
			return fmt.Errorf("%s (session %q): timestamp: missing, the first turn of a session needs one unless "+
				"replay_concurrency is given",
				w.TurnName(s.First), w.SessionName(s.First))
		}
		if s.Timed && !isDuration(s.StartMs) {
			return fmt.Errorf("%s (session %q): timestamp: got %v, want a finite number >= 0",
				w.TurnName(s.First), w.SessionName(s.First), s.StartMs)
		}
	}
	return w.checkEnd()
}

// checkEnd refuses delays that are infinite after acceleration, or that could carry simulated time beyond a double.
func (w *Workload) checkEnd() error {
	latestMs := 0.0
	for i := range w.Sessions {
		latestMs = max(latestMs, w.Sessions[i].StartMs)
	}
	for i := range w.Turns {
		delay := w.Turns[i].DelayMs
		if latestMs += delay; !isDuration(latestMs) {
			return fmt.Errorf("%s (session %q): delay: got %v, which makes the times of all turns add up to infinity",
				w.TurnName(int32(i)), w.SessionName(int32(i)), delay)
		}
	}
	return nil
}

// LastStartMs returns when the last session starts that waits for no other request, after Schedule in trace mode: the
// run lasts at least as long.
func (w *Workload) LastStartMs() (ms float64) {
	if w.passing != nil {
		return w.passing.startMs(int32(w.passing.len() - 1))
	}
	for i := range w.Sessions {
		if s := &w.Sessions[i]; w.WaitFor == nil || len(w.WaitFor[s.First]) == 0 {
			ms = max(ms, s.StartMs)
		}
	}
	return ms
}

func (w *Workload) normalise() {
	earliest, any := 0.0, false
	for i := range w.Sessions {
		if s := &w.Sessions[i]; s.Timed && (!any || s.StartMs < earliest) {
			earliest, any = s.StartMs, true
		}
	}
	for i := range w.Sessions {
		if s := &w.Sessions[i]; s.Timed {
			s.StartMs -= earliest
		}
	}
}

// accelerate divides all times by speedup, which must leave them finite.
func (w *Workload) accelerate(speedup float64) error {
	for i := range w.Sessions {
		s := &w.Sessions[i]
		if isDuration(s.StartMs) && !isDuration(s.StartMs/speedup) {
			return fmt.Errorf("arrival_speedup_ratio: got %v, want a number that leaves all times finite: %s starts at %v ms",
				speedup, w.TurnName(s.First), s.StartMs)
		}
		s.StartMs /= speedup
	}
	for i := range w.Turns {
		t := &w.Turns[i]
		if t.DelayMs == 0 { // turns without delays may be shared, see Copy
			continue
		}
		if isDuration(t.DelayMs) && !isDuration(t.DelayMs/speedup) {
			return fmt.Errorf("arrival_speedup_ratio: got %v, want a number that leaves all times finite: %s has a "+
				"delay of %v ms",
				speedup, w.TurnName(int32(i)), t.DelayMs)
		}
		t.DelayMs /= speedup
	}
	return nil
}

// isDuration reports whether ms is finite and not negative.
func isDuration(ms float64) bool {
	return ms >= 0 && ms-ms == 0
}
