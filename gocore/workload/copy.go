package workload

import "slices"

// Copy returns the same workload with times of its own, which Schedule may change. Everything else is shared with w, so
// that several goroutines can run copies of one workload.
func (w *Workload) Copy() *Workload {
	c := *w
	c.Sessions = slices.Clone(w.Sessions)
	if slices.ContainsFunc(w.Turns, func(t Turn) bool { return t.DelayMs != 0 }) {
		c.Turns = slices.Clone(w.Turns)
	}
	return &c
}
