package job

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// ErrCancelled ends a run that Monitor.Cancel has stopped. Monitor.Ask returns it when no answer will come any more.
var ErrCancelled = errors.New("cancelled")

// Monitor connects a run with its caller, which watches and stops it from another goroutine, and answers its questions.
// The zero value is ready.
type Monitor struct {
	// Ask gets the answer to a question for the AIC SDK, see package aic; the run waits for it. Nil refuses runs that
	// have any. It fails with ErrCancelled if the run is stopped meanwhile.
	Ask func(question string) (answer string, err error)

	// Trace is a trace that was read already. The description of the run must name its files. Nil makes the run read
	// them.
	Trace *Trace

	cancelled atomic.Bool
	phase     atomic.Int32
	simMs     atomic.Uint64 // bits of a float64
	done      atomic.Int64
	total     atomic.Int64
	budget    atomic.Pointer[budget] // nil until the run is bounded
	memoryAt  atomic.Int64           // when the memory was looked at, in nanoseconds since processStart; 0 is never

	scaling scalingNews
}

// phase is the stage that a run is in.
type phase int32

const (
	loading phase = iota
	running
	reporting
)

func (p phase) String() string { return [...]string{"loading", "running", "reporting"}[p] }

// Cancel stops the run at its next poll.
func (m *Monitor) Cancel() { m.cancelled.Store(true) }

// Progress returns a JSON object: the phase ("loading", "running" or "reporting"), the simulated time in milliseconds,
// and how many requests are done of how many in total (0 while that is not known). Changes of the number of workers are
// reported once: "scaling_events" are those since the last call.
func (m *Monitor) Progress() string {
	return fmt.Sprintf(`{"phase":"%s","sim_ms":%g,"done":%d,"total":%d,"scaling_events":%s}`,
		phase(m.phase.Load()), math.Float64frombits(m.simMs.Load()), m.done.Load(), m.total.Load(), m.scaling.take())
}

func (m *Monitor) enter(p phase) error {
	m.phase.Store(int32(p))
	return m.poll()
}

func (m *Monitor) poll() error {
	if m.cancelled.Load() {
		return ErrCancelled
	}
	if b := m.budget.Load(); b != nil {
		return b.check()
	}
	return nil
}

// bound makes the run fail at a poll once it has taken the memory that is free now.
func (m *Monitor) bound() budget {
	b := latestBudget.get(time.Now())
	m.budget.Store(&b)
	return b
}

// pollRun takes the progress of one of several runs, which may call it at the same time: it keeps the latest time, and
// adds the requests up.
func (m *Monitor) pollRun(nowMs float64, finished int) error {
	for shown := m.simMs.Load(); nowMs > math.Float64frombits(shown); shown = m.simMs.Load() {
		if m.simMs.CompareAndSwap(shown, math.Float64bits(nowMs)) {
			break
		}
	}
	m.done.Add(int64(finished))
	if !m.memoryDue() && !m.cancelled.Load() {
		return nil
	}
	return m.poll()
}

// memoryEvery is how often a run looks at its memory, which takes longer than dozens of passes. No run can take more
// than some megabytes meanwhile.
const memoryEvery = time.Millisecond

// memoryDue reports whether it is time to look at the memory again, and if so, takes that as done.
func (m *Monitor) memoryDue() bool {
	now, last := int64(time.Since(processStart)), m.memoryAt.Load()
	return (last == 0 || now-last >= int64(memoryEvery)) && m.memoryAt.CompareAndSwap(last, now)
}

// processStart is what times are counted from.
var processStart = time.Now()
