package journal

import (
	"fmt"
	"math"

	"dynosim/gocore/engine"
	"dynosim/gocore/perfetto"
)

// Tracks of the whole run. Each worker has a range of its own behind them.
const (
	clusterTrack perfetto.TrackID = 1 + iota
	arrivalsTrack
	completionsTrack
	goodputTrack
	routerTrack
	decisionsTrack
	routerQueueTrack
	scaleTrack                             // and one for each pool
	waitsTrack  perfetto.TrackID = 1 << 10 // and the lanes behind it
	workerRange perfetto.TrackID = 1 << 20
)

// Counters of a worker, as places in worker.counters and of their tracks.
const (
	waitingCounter = iota
	runningCounter
	blocksCounter
	preemptionsCounter
	numCounters

	passesTrack   = 1 + numCounters
	requestsTrack = 2 + numCounters
	toHostTrack   = 3 + numCounters
	fromHostTrack = 4 + numCounters
	groupTrack    = 5 + numCounters
	writesTrack   = 6 + numCounters
	readsTrack    = 7 + numCounters
	firstLane     = 16
	rankTracks    = 1 << 19 // of the copies of other ranks than the first; fewer requests run at the same time
)

var counterNames = [numCounters]string{"waiting", "running", "KV blocks in use", "preemptions"}

// index numbers all workers: those that emit tokens are even, the others odd.
func (w *worker) index() int {
	if w.role == engine.Prefill {
		return 2*w.number + 1
	}
	return 2 * w.number
}

// name returns what the timeline calls a worker.
func (w *worker) name() string {
	name := fmt.Sprintf("worker %d", w.number)
	if ranks := w.j.cfg.Ranks; ranks > 1 {
		name = fmt.Sprintf("worker %d rank %d", w.number/ranks, w.number%ranks)
	}
	if w.role == engine.Aggregated {
		return name
	}
	return w.role.String() + " " + name
}

// Numbers of sequences: those of workers are the smallest, as most packets are theirs.
const (
	workerSequences  = 1
	partSequences    = 1 << 18
	copySequences    = 1 << 19
	clusterSequences = 1 << 20
)

// describe makes the tracks of a worker.
func (w *worker) describe() {
	w.out = perfetto.NewSequence(workerSequences + 2*w.index())
	w.passes = perfetto.NewSequence(workerSequences + 2*w.index() + 1)
	w.base = workerRange * perfetto.TrackID(1+w.index())
	rank := 10 + w.number
	if w.role == engine.Decode {
		rank += 1 << 16 // behind all prefill workers
	}
	w.out.Describe(perfetto.Track{ID: w.base, Name: w.name(), Rank: rank})
	w.out.Describe(perfetto.Track{ID: w.base + passesTrack, Parent: w.base, Name: "passes", Rank: 0})
	for i, name := range counterNames {
		track := w.base + 1 + perfetto.TrackID(i)
		w.out.Describe(perfetto.Track{ID: track, Parent: w.base, Name: name, Rank: 1 + i, Counts: true})
		w.counters[i] = counter{out: w.out, track: track, fromMs: w.j.cfg.FromMs, toMs: w.j.cfg.ToMs}
	}
	w.counters[blocksCounter].out = w.passes
	if w.j.cfg.Hosted {
		w.copied = perfetto.NewSequence(copySequences + w.index())
		w.copied.Describe(perfetto.Track{ID: w.base + toHostTrack, Parent: w.base, Name: "copies to the host",
			Rank: 2 + numCounters})
		w.copied.Describe(perfetto.Track{ID: w.base + fromHostTrack, Parent: w.base, Name: "copies from the host",
			Rank: 3 + numCounters})
		w.describeRanks()
	}
	if w.j.cfg.Storage {
		w.copied.Describe(perfetto.Track{ID: w.base + writesTrack, Parent: w.base, Name: "writes to storage",
			Rank: 4 + numCounters})
		w.copied.Describe(perfetto.Track{ID: w.base + readsTrack, Parent: w.base, Name: "reads from storage",
			Rank: 5 + numCounters})
	}
	if w.j.cfg.Grouped {
		name := "KV blocks of full attention"
		if w.hasOwnPool() {
			name = "KV blocks of the window layers"
		}
		w.out.Describe(perfetto.Track{ID: w.base + groupTrack, Parent: w.base, Name: name, Rank: 1 + blocksCounter,
			Counts: true})
		w.group = counter{out: w.passes, track: w.base + groupTrack, fromMs: w.j.cfg.FromMs, toMs: w.j.cfg.ToMs}
	}
	w.out.Describe(perfetto.Track{ID: w.base + requestsTrack, Parent: w.base, Name: "requests", Rank: 1 + numCounters})
}

// ns returns a time as traces have it.
func ns(ms float64) int64 { return int64(math.Round(ms * 1e6)) }

// within cuts a time to the part that the timeline shows. It reports false if that is empty.
func (c *Config) within(fromMs, toMs float64) (from, to int64, ok bool) {
	if toMs < c.FromMs || fromMs > c.ToMs || toMs == c.FromMs && fromMs < toMs || fromMs == c.ToMs && fromMs < toMs {
		return 0, 0, false
	}
	return ns(max(fromMs, c.FromMs)), ns(min(toMs, c.ToMs)), true
}

// writeStretch writes a slice for passes.
func (w *worker) writeStretch(s *stretch) {
	if w.out == nil {
		return
	}
	from, to, ok := w.j.cfg.within(s.fromMs, s.toMs)
	if !ok {
		return
	}
	name, args := "decode", make([]perfetto.Arg, 0, 5)
	args = append(args, perfetto.Arg{Name: "requests", Value: int64(s.requests)})
	if s.prompts > 0 {
		name = "prefill"
		if s.requests > s.prompts {
			name = "mixed"
		}
		args = append(args,
			perfetto.Arg{Name: "prompts", Value: int64(s.prompts)},
			perfetto.Arg{Name: "prompt tokens", Value: int64(s.promptTokens)})
	}
	if s.passes > 1 {
		args = append(args, perfetto.Arg{Name: "passes", Value: int64(s.passes)})
	}
	args = append(args, perfetto.Arg{Name: "tokens", Value: int64(s.tokens)})
	w.passes.Begin(perfetto.Event{Track: w.base + passesTrack, AtNs: from, Name: name, Args: args})
	w.passes.End(w.base+passesTrack, to)
	w.counters[blocksCounter].set(s.toMs, s.used.blocks)
	w.countGroup(s.toMs, s.used)
}

// countGroup brings the counter of a group up to date: of full attention, as the others are the rest, or of those with
// a pool of their own.
func (w *worker) countGroup(ms float64, used inUse) {
	if w.hasOwnPool() {
		w.group.set(ms, used.others)
	} else {
		w.group.set(ms, used.full)
	}
}

// describeRanks makes the tracks of the copies of data-parallel ranks other than the first.
func (w *worker) describeRanks() {
	for rank := 1; rank < w.j.cfg.HostLinks; rank++ {
		for way, name := range []string{"copies to the host, rank %d", "copies from the host, rank %d"} {
			w.copied.Describe(perfetto.Track{ID: w.ofRank(rank, way), Parent: w.base, Name: fmt.Sprintf(name, rank),
				Rank: 2 + way + numCounters})
		}
	}
}

// ofRank returns the track of the copies of a rank to the host, way 0, or back, way 1.
func (w *worker) ofRank(rank, way int) perfetto.TrackID {
	return w.base + rankTracks + perfetto.TrackID(2*rank+way)
}

// trackOf returns the name of the slice of a copy, and the track on which it is.
func (w *worker) trackOf(c engine.Copy) (string, perfetto.TrackID) {
	switch {
	case c.Rank > 0 && c.Back:
		return "load", w.ofRank(c.Rank, 1)
	case c.Rank > 0:
		return "store", w.ofRank(c.Rank, 0)
	case c.Storage && c.Back:
		return "read", w.base + readsTrack
	case c.Storage:
		return "write", w.base + writesTrack
	case c.Back:
		return "load", w.base + fromHostTrack
	}
	return "store", w.base + toHostTrack
}

// writeCopy writes a slice for a copy to the host, or back, or between the host and storage.
func (w *worker) writeCopy(c engine.Copy) {
	if w.copied == nil {
		return
	}
	from, to, ok := w.j.cfg.within(c.StartMs, c.EndMs)
	if !ok {
		return
	}
	name, track := w.trackOf(c)
	w.copied.Begin(perfetto.Event{Track: track, AtNs: from, Name: name,
		Args: []perfetto.Arg{{Name: "blocks", Value: int64(c.Blocks)}}})
	w.copied.End(track, to)
}

// write writes the slices of a stay that has ended.
func (w *worker) write(s *stay, endMs float64) {
	if w.out == nil {
		return
	}
	from, to, ok := w.j.cfg.within(s.sinceMs, endMs)
	if !ok {
		return
	}
	track := w.base + firstLane + perfetto.TrackID(s.lane)
	for ; w.described <= s.lane; w.described++ {
		w.out.Describe(perfetto.Track{
			ID: w.base + firstLane + perfetto.TrackID(w.described), Parent: w.base + requestsTrack,
			Name: fmt.Sprintf("lane %d", w.described+1), Rank: w.described,
		})
	}
	life := &w.j.lives[s.id]
	arrow := flow(s.id)
	if w.j.cfg.Live { // ids of other workers are the same
		arrow = 0
	}
	w.out.Begin(perfetto.Event{
		Track: track, AtNs: from, Name: "request ", Label: w.j.label(s.id), Flow: arrow, Ends: w.role != engine.Prefill,
		Args: []perfetto.Arg{{Name: "prompt tokens", Value: int64(life.promptTokens)},
			{Name: "output tokens", Value: int64(life.outputTokens)}},
	})
	for _, p := range s.pieces {
		w.writePiece(track, p)
	}
	w.out.End(track, to)
}

func (w *worker) writePiece(track perfetto.TrackID, p piece) {
	from, to, ok := w.j.cfg.within(p.fromMs, p.toMs)
	if !ok {
		return
	}
	e := perfetto.Event{Track: track, AtNs: from, Name: p.name}
	if p.tokens > 0 {
		e.Args = []perfetto.Arg{{Name: "tokens", Value: int64(p.tokens)}, {Name: "from token", Value: int64(p.start)}}
	}
	w.out.Begin(e)
	w.out.End(track, to)
}

// flow returns the arrow of a request.
func flow(id engine.RequestID) perfetto.FlowID { return perfetto.FlowID(id) + 1 }

// countRequests brings the counters of requests up to date.
func (w *worker) countRequests(ms float64) {
	if w.out != nil {
		w.counters[waitingCounter].set(ms, w.waiting)
		w.counters[runningCounter].set(ms, w.running)
		w.counters[preemptionsCounter].set(ms, w.preemptions)
	}
}

func (w *worker) closeCounters() {
	for i := range w.counters {
		w.counters[i].close()
	}
	w.group.close()
}

// counter is a number over time. A value that it has for no time does not show. Before the timeline begins a counter
// only remembers its value, which is the first to be shown.
type counter struct {
	out          *perfetto.Sequence // nil without a timeline
	track        perfetto.TrackID
	fromMs, toMs float64

	atMs         float64 // when it got its value
	value        int
	shown        int
	known, begun bool // it has a value; one is shown
}

// set gives the counter a value.
func (c *counter) set(ms float64, value int) {
	if c.out == nil || c.known && value == c.value {
		return
	}
	if c.known && ms > c.atMs {
		c.show(ms)
	}
	c.atMs, c.value, c.known = ms, value, true
}

// show writes the value, which lasts until a time.
func (c *counter) show(untilMs float64) {
	if c.begun && c.value == c.shown || untilMs <= c.fromMs || c.atMs > c.toMs {
		return
	}
	c.out.Count(c.track, ns(max(c.atMs, c.fromMs)), float64(c.value))
	c.shown, c.begun = c.value, true
}

// close writes the last value.
func (c *counter) close() {
	if c.known {
		c.show(math.Inf(1))
	}
}
