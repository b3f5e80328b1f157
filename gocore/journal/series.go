package journal

import "dynosim/gocore/engine"

// series is figures over time, in windows of equal length from 0 on.
type series struct {
	stepMs  float64
	most    int // windows; when there are more, they get twice as long
	windows []window
}

// window is what happened between two instants. Integrals are over milliseconds.
type window struct {
	waitingMs, runningMs, busyMs, blocksMs float64 // requests, requests, 0 or 1, blocks in use
	promptTokens, reusedTokens             int64   // of first admissions
	tokens, preemptions                    int64
	arrivals, completions, good            int64
	ttftMs                                 []float64
	itl                                    histogram

	// Of ranks that run their passes together: time in passes, and of that waiting for the slowest; summed over ranks.
	rankMs, rankWaitMs float64

	// Of a run with a tier of host memory: how long copies ran, of how many blocks, and prompt tokens found there.
	storeMs, loadMs, storedBlocks, loadedBlocks float64
	hostFound                                   int64
	// Of caches with several groups: blocks in use by full attention, and 1 while the first request in line has no room
	// for its blocks of full attention, and for those of the others beside.
	fullBlocksMs, otherBlocksMs, waitFullMs, waitOthersMs float64

	// Of a run with faults.
	worksMs                       float64 // workers
	lostTokens, recomputedTokens  int64
	failures, migrations, retries int64
}

// A series that chooses the length of its windows begins with firstStepMs and has up to mostChosen windows. One that
// was given a length has up to mostGiven, which bounds its memory.
const (
	firstStepMs = 125
	mostChosen  = 512
	mostGiven   = 1 << 18
)

func newSeries(stepMs float64) *series {
	if stepMs > 0 {
		return &series{stepMs: stepMs, most: mostGiven}
	}
	return &series{stepMs: firstStepMs, most: mostChosen}
}

// at returns the window of an instant.
func (s *series) at(ms float64) *window {
	for {
		at := ms / s.stepMs
		if at < float64(s.most) {
			for len(s.windows) <= int(at) {
				s.windows = append(s.windows, window{})
			}
			return &s.windows[int(at)]
		}
		s.widen()
	}
}

// widen makes windows twice as long.
func (s *series) widen() {
	half := (len(s.windows) + 1) / 2
	for i := range half {
		joined := s.windows[2*i]
		if 2*i+1 < len(s.windows) {
			joined.add(&s.windows[2*i+1])
		}
		s.windows[i] = joined
	}
	clear(s.windows[half:])
	s.windows = s.windows[:half]
	s.stepMs *= 2
}

// add takes in what happened in another window.
func (in *window) add(other *window) {
	in.waitingMs += other.waitingMs
	in.runningMs += other.runningMs
	in.busyMs += other.busyMs
	in.blocksMs += other.blocksMs
	in.promptTokens += other.promptTokens
	in.reusedTokens += other.reusedTokens
	in.tokens += other.tokens
	in.preemptions += other.preemptions
	in.arrivals += other.arrivals
	in.completions += other.completions
	in.good += other.good
	in.rankMs += other.rankMs
	in.rankWaitMs += other.rankWaitMs
	in.storeMs += other.storeMs
	in.loadMs += other.loadMs
	in.storedBlocks += other.storedBlocks
	in.loadedBlocks += other.loadedBlocks
	in.hostFound += other.hostFound
	in.fullBlocksMs += other.fullBlocksMs
	in.otherBlocksMs += other.otherBlocksMs
	in.waitFullMs += other.waitFullMs
	in.waitOthersMs += other.waitOthersMs
	in.worksMs += other.worksMs
	in.lostTokens += other.lostTokens
	in.recomputedTokens += other.recomputedTokens
	in.failures += other.failures
	in.migrations += other.migrations
	in.retries += other.retries
	in.ttftMs = append(in.ttftMs, other.ttftMs...)
	in.itl.merge(&other.itl)
}

// over calls do for each window that a time reaches into: with the length of the part that lies there, and where that
// part begins and ends as fractions of the whole.
func (s *series) over(fromMs, toMs float64, do func(in *window, partMs, from, to float64)) {
	whole := toMs - fromMs
	if whole <= 0 {
		return
	}
	s.at(toMs) // so that windows keep their length below
	for i := int(fromMs / s.stepMs); i < len(s.windows); i++ {
		startMs := max(fromMs, float64(float64(i)*s.stepMs))
		endMs := min(toMs, float64(float64(i+1)*s.stepMs))
		if startMs >= toMs {
			return
		}
		if endMs > startMs {
			do(&s.windows[i], endMs-startMs, (startMs-fromMs)/whole, (endMs-fromMs)/whole)
		}
	}
}

// use adds a time in which a worker is busy. The number of blocks in use is taken to grow evenly.
func (s *series) use(fromMs, toMs float64, before, after inUse) {
	s.over(fromMs, toMs, func(in *window, partMs, from, to float64) {
		in.busyMs += partMs
		middle := float64(float64(from+to) / 2)
		grown := func(before, after float64) float64 {
			return float64((before + float64((after-before)*middle)) * partMs)
		}
		in.blocksMs += grown(float64(before.blocks), float64(after.blocks))
		in.fullBlocksMs += grown(float64(before.full), float64(after.full))
		in.otherBlocksMs += grown(float64(before.others), float64(after.others))
	})
}

// lacks adds a time of passes in which the first request in line had no room. It is taken to be spread evenly.
func (s *series) lacks(fromMs, toMs float64, g engine.GroupUse) {
	s.over(fromMs, toMs, func(in *window, _, from, to float64) {
		in.waitFullMs += float64((to - from) * g.WaitFullMs)
		in.waitOthersMs += float64((to - from) * g.WaitOthersMs)
	})
}

// waits adds a time of common passes of ranks. What they wait is taken to be spread evenly.
func (s *series) waits(fromMs, toMs float64, l engine.Lockstep) {
	s.over(fromMs, toMs, func(in *window, _, from, to float64) {
		in.rankMs += float64((to - from) * l.PassMs)
		in.rankWaitMs += float64((to - from) * l.WaitMs)
	})
}

// copies adds a copy to the host, or back. Its blocks are taken to be spread evenly; one that takes no time is where it
// begins.
func (s *series) copies(c engine.Copy) {
	if c.EndMs <= c.StartMs {
		in := s.at(c.StartMs)
		*in.blocksOf(c) += float64(c.Blocks)
		return
	}
	s.over(c.StartMs, c.EndMs, func(in *window, partMs, from, to float64) {
		*in.blocksOf(c) += float64((to - from) * float64(c.Blocks))
		if c.Back {
			in.loadMs += partMs
		} else {
			in.storeMs += partMs
		}
	})
}

// blocksOf returns the number of blocks that are copied in the direction of c.
func (in *window) blocksOf(c engine.Copy) *float64 {
	if c.Back {
		return &in.loadedBlocks
	}
	return &in.storedBlocks
}

// keep adds a time in which a worker is idle and its blocks stay as they are.
func (s *series) keep(fromMs, toMs float64, used inUse) {
	if used == (inUse{}) {
		return
	}
	blocks, full, others := float64(used.blocks), float64(used.full), float64(used.others)
	s.over(fromMs, toMs, func(in *window, partMs, _, _ float64) {
		in.blocksMs += float64(blocks * partMs)
		in.fullBlocksMs += float64(full * partMs)
		in.otherBlocksMs += float64(others * partMs)
	})
}
