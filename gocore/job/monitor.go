package job

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
)

// errCancelled ends a run that Monitor.Cancel has stopped.
var errCancelled = errors.New("cancelled")

// Monitor watches and stops a run from another goroutine. The zero value is ready.
type Monitor struct {
	cancelled atomic.Bool
	phase     atomic.Int32
	simMs     atomic.Uint64 // bits of a float64
	done      atomic.Int64
	total     atomic.Int64
}

// phase is what a run is busy with.
type phase int32

const (
	loading phase = iota
	running
	reporting
)

func (p phase) String() string { return [...]string{"loading", "running", "reporting"}[p] }

// Cancel stops the run at its next poll.
func (m *Monitor) Cancel() { m.cancelled.Store(true) }

// Progress is a JSON object: the phase ("loading", "running" or "reporting"), the simulated time in milliseconds, and
// how many requests are done of how many in total (0 while that is not known).
func (m *Monitor) Progress() string {
	return fmt.Sprintf(`{"phase":"%s","sim_ms":%g,"done":%d,"total":%d}`,
		phase(m.phase.Load()), math.Float64frombits(m.simMs.Load()), m.done.Load(), m.total.Load())
}

func (m *Monitor) enter(p phase) error {
	m.phase.Store(int32(p))
	return m.poll()
}

func (m *Monitor) poll() error {
	if m.cancelled.Load() {
		return errCancelled
	}
	return nil
}

func (m *Monitor) pollRun(nowMs float64, finished int) error {
	m.simMs.Store(math.Float64bits(nowMs))
	m.done.Store(int64(finished))
	return m.poll()
}
