package job

import (
	"fmt"
	"math"
	"runtime/debug"

	"dynosim/gocore/job/memory"
	"dynosim/gocore/workload"
)

// The least memory that a run needs, measured. The true need is up to three times as much, so a run whose least need
// does not fit is refused before it starts, and any other run is watched.
const (
	requestBytes = 250 // turn, session, times and row of a request
	passingBytes = 40  // all that is kept of a request that is forgotten when it is over
	segmentBytes = 4   // of a prompt that shares blocks with others
	blockBytes   = 40  // a full block in the cache of a worker
	dividedBytes = 240 // parts of the latencies of a request
	seriesBytes  = 350 // a window of a series over time for one worker, and its row in the table
)

// mostSeriesWindows is how many windows a series has at least if the run is too long for its step: package journal
// makes windows twice as long when there are more than twice as many.
const mostSeriesWindows = 1 << 17

// maxPromptBlocks bounds what one request can cost to about 700 MB. Prompts are refused that are longer and would run.
const maxPromptBlocks = 1 << 24

// A budget is the memory that a run may take.
type budget struct {
	room  memory.Room
	limit int64 // of all that Go code of this process has taken
	// extra is what the run needs for each request besides what any run does.
	extra float64
}

// newBudget bounds a run by this much memory. Go collects garbage more often as the limit comes near.
func newBudget(room memory.Room) budget {
	b := budget{room: room, limit: math.MaxInt64}
	if room.Bytes < memory.Unbounded {
		b.limit = memory.Used() + room.Usable
		debug.SetMemoryLimit(b.limit)
	}
	return b
}

// admit refuses a run that needs more memory than there is.
func (b budget) admit(needed float64, what string) error {
	return b.admitOr(needed, what, "fewer or shorter requests")
}

// admitOr does what admit does, for a need that something else than requests makes smaller.
func (b budget) admitOr(needed float64, what, want string) error {
	if b.room.Bytes == memory.Unbounded || needed <= float64(b.room.Usable) {
		return nil
	}
	return fmt.Errorf("memory: %s need at least %s, %s: want %s, or more memory",
		what, memory.Text(int64(min(needed, 1<<62))), b.shown(), want)
}

// check fails a run that has used up its memory, before the system ends the process because of it.
func (b budget) check() error {
	used := memory.Used()
	latestBudget.growsBeyond(used)
	if b.limit == 0 || b.limit == math.MaxInt64 || used < b.limit && !memory.AddressSpaceShort() {
		return nil
	}
	return runError{fmt.Errorf("memory: the run needs more than it may take, %s: want fewer or shorter requests, or "+
		"more memory", b.shown())}
}

// shown says how much memory there is, and how much of it the run may take.
func (b budget) shown() string {
	return fmt.Sprintf("%s leaves %s, %s of it for the run", b.room.By, memory.Text(b.room.Bytes),
		memory.Text(b.room.Usable))
}

// loadWithin loads a workload, before and after which it estimates what the run needs.
func loadWithin(m *Monitor, s *Spec, d deployment) (*workload.Workload, error) {
	b := m.bound()
	if s.attribution {
		b.extra = dividedBytes
	}
	if s.synthetic {
		if err := readCurve(s.generated.Arrivals.Curve); err != nil {
			return nil, err
		}
		if err := b.admitSynthetic(s.generated, d.args.BlockSize); err != nil {
			return nil, err
		}
	}
	w, err := loadWorkload(s, d.args, m)
	if err != nil {
		return nil, err
	}
	return w, b.admitWorkload(w, d.args.BlockSize, max(d.args.NumGPUBlocks, d.prefill.NumGPUBlocks))
}

// admitSynthetic estimates a workload before it is made. Lengths that are drawn count as the shortest.
func (b budget) admitSynthetic(spec workload.SyntheticSpec, blockSize int) error {
	requests := float64(sessionsOf(spec)) * float64(max(1, spec.TurnsPerSession))
	if requests > workload.MaxTurns {
		return nil // more than any workload may have: the workload itself refuses it
	}
	each := float64(requestBytes)
	if spec.Passing {
		each = passingBytes
	}
	if spec.SharedPrefixRatio > 0 && spec.NumPrefixGroups > 0 {
		each += float64(spec.InputLengths.Min()) / float64(blockSize) * segmentBytes
	}
	return b.admit(requests*(each+b.extra), fmt.Sprintf("%.0f requests", requests))
}

// admitWorkload estimates a workload that is loaded, and the largest of its requests that a pool of this many blocks
// holds.
func (b budget) admitWorkload(w *workload.Workload, blockSize, poolBlocks int) error {
	largest := 0
	for i := range w.Len() {
		input, _ := w.Lengths(int32(i))
		blocks := input / blockSize
		if blocks > poolBlocks {
			continue // it is rejected, and costs nothing
		}
		if blocks > maxPromptBlocks {
			return fmt.Errorf("%s: its prompt has %d tokens, which are %d blocks of %d: want at most %d blocks (or a "+
				"larger block_size)",
				w.TurnName(int32(i)), input, blocks, blockSize, maxPromptBlocks)
		}
		largest = max(largest, blocks)
	}
	each := requestBytes / 2.0
	if w.Turns == nil { // they are made one by one
		each = passingBytes
	}
	needed := float64(w.Len())*(each+b.extra) + float64(largest)*blockBytes
	return b.admit(needed, fmt.Sprintf("%d requests of up to %d blocks", w.Len(), largest))
}

// admitSeries estimates the series over time of a run that lasts at least runMs. Windows whose length the journal
// chooses are few.
func (b budget) admitSeries(s journalSpec, runMs float64, workers int) error {
	if !s.series || s.stepMs == 0 {
		return nil
	}
	windows := math.Ceil(min(runMs/s.stepMs, mostSeriesWindows))
	rows := windows * float64(1+workers) // one for the whole cluster
	return b.admitOr(rows*seriesBytes,
		fmt.Sprintf("%.0f windows of %g ms (timeseries_step) for each of %d workers", windows, s.stepMs, workers),
		"a longer timeseries_step or fewer workers")
}

// admitSeries refuses a run whose series over time would fill the memory, as far as can be told before it begins. Each
// worker gets a request, if there are enough: no router leaves one idle for long.
func (r *run) admitSeries() error {
	if r.concurrency > 0 || r.lanes > 0 { // how long it lasts depends on the engines
		return nil
	}
	workers := min(r.deployment.workers+r.deployment.prefillWorkers, r.workload.Len())
	return r.monitor.budget.Load().admitSeries(r.journal, min(r.workload.LastStartMs(), r.maxSimTimeMs), workers)
}
