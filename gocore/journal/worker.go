package journal

import (
	"dynosim/gocore/engine"
	"dynosim/gocore/perfetto"
)

// worker is the journal of one worker.
type worker struct {
	j      *Journal
	role   engine.Role
	number int
	blocks int

	pending passEnd // of the pass that runs, or the last one
	endMs   float64 // when that pass ends, or the last pass of a coast
	open    stretch

	emitters   int     // requests that emitted a token in the last emitting pass, and have not ended with it
	lastEmitMs float64 // its end

	waiting, running, preemptions int
	countedMs                     float64 // up to when waiting and running are in the series
	used                          inUse
	usedMs                        float64 // up to when blocks are in the series
	lanes                         lanes
	lockstep                      engine.Lockstep // of its ranks, as told last
	groups                        engine.GroupUse // of its cache, as told last
	series                        *series

	// Nil without a timeline. Passes have a sequence of their own: a coast is recorded when it is over, after requests
	// that joined meanwhile.
	out, passes *perfetto.Sequence
	// copies to the host and back, which begin later than the pass that tells of them; nil without any
	copied *perfetto.Sequence

	base      perfetto.TrackID
	counters  [numCounters]counter
	group     counter // blocks of one of the groups, if the cache has several
	described int     // lanes
}

// passEnd is what the end of a pass changes.
type passEnd struct {
	waits                     bool // for the end
	started                   []engine.TokenRun
	lost, finished, held, out []engine.RequestID // out are those that can never run
}

func (j *Journal) newWorker(r engine.Role, number int) *worker {
	w := &worker{j: j, role: r, number: number, blocks: j.cfg.Blocks[r]}
	if j.cfg.Series {
		w.series = newSeries(j.cfg.StepMs)
	}
	if j.cfg.Timeline {
		w.describe()
	}
	return w
}

// join begins the stay of a request.
func (w *worker) join(id engine.RequestID, ms float64) {
	s := &stay{id: id, worker: w, sinceMs: ms, phase: queued, phaseMs: ms}
	if w.role == engine.Decode {
		s.phase = wantsRoom
	}
	w.j.lives[id].stays[role(w.role)] = s
	w.lanes.take(s)
	w.count(&w.waiting, true, ms)
}

// leave ends the stay of a request.
func (w *worker) leave(s *stay, ms float64) {
	s.endPhase(ms)
	if s.phase.waits() {
		w.count(&w.waiting, false, ms)
	}
	if s.phase.runs() {
		w.count(&w.running, false, ms)
	}
	w.write(s, ms)
	w.lanes.put(s)
	w.j.lives[s.id].stays[role(w.role)] = nil
}

// stay returns the stay of a request with this worker, nil if it has none.
func (w *worker) stay(id engine.RequestID) *stay { return w.j.lives[id].stays[role(w.role)] }

// count changes a number of requests.
func (w *worker) count(n *int, up bool, ms float64) {
	w.integrate(ms)
	if up {
		*n++
	} else {
		*n--
	}
}

// integrate brings the series up to date: the numbers of requests have been the same since it was called last.
func (w *worker) integrate(ms float64) {
	if w.series == nil || ms <= w.countedMs {
		return
	}
	waiting, running := float64(w.waiting), float64(w.running)
	if waiting > 0 || running > 0 {
		w.series.over(w.countedMs, ms, func(in *window, partMs, _, _ float64) {
			in.waitingMs += float64(waiting * partMs)
			in.runningMs += float64(running * partMs)
		})
	}
	w.countedMs = ms
}

// begin applies what is visible at the start of a pass, and keeps what is at its end.
func (w *worker) begin(e engine.Engine, p *engine.Pass, lastTokenMs func(engine.RequestID) (float64, bool)) {
	w.takesPart(p)
	w.computes(p)
	w.copies(p)
	w.emitted(p, lastTokenMs)
	w.run(p, w.blocksOf(e))
	w.follow(e, p.StartMs, p.EndMs)
	w.keepEnd(p)
}

// hasOwnPool reports whether the groups beside full attention have a pool of their own.
func (w *worker) hasOwnPool() bool { return w.j.cfg.OtherBlocks[w.role] > 0 }

// otherBlocks returns the size of the pool from which the groups beside full attention take their blocks.
func (w *worker) otherBlocks() int {
	if w.hasOwnPool() {
		return w.j.cfg.OtherBlocks[w.role]
	}
	return w.blocks
}

// follow notes how the ranks of an engine waited for each other in passes, and what requests waited for in a cache of
// several groups.
func (w *worker) follow(e engine.Engine, fromMs, toMs float64) {
	if groups, has := e.(engine.GroupReporter); has && w.series != nil && w.j.cfg.Grouped {
		now, _ := groups.Groups()
		w.series.lacks(fromMs, toMs, now.Since(w.groups))
		w.groups = now
	}
	ranks, has := e.(engine.LockstepReporter)
	if !has || w.series == nil {
		return
	}
	now := ranks.Lockstep()
	w.series.waits(fromMs, toMs, now.Since(w.lockstep))
	w.lockstep = now
}

// copies notes what a pass has submitted to be copied to the host, or back.
func (w *worker) copies(p *engine.Pass) {
	if w.series != nil && p.Copied.Found > 0 {
		w.series.at(p.StartMs).hostFound += int64(p.Copied.Found)
	}
	if p.Parts == nil {
		return
	}
	for _, c := range p.Parts.Copies {
		if w.series != nil && !c.Storage {
			w.series.copies(c)
		}
		w.writeCopy(c)
	}
}

// computes notes the parts of prompts that a pass computes.
func (w *worker) computes(p *engine.Pass) {
	if p.Parts == nil {
		return
	}
	for _, c := range p.Parts.Prompts {
		if s := w.stay(c.ID); s != nil {
			s.chunk(c, p.StartMs, p.EndMs)
		}
	}
	w.countRequests(p.StartMs)
}

// takesPart applies what requests begin with at the start of a pass.
func (w *worker) takesPart(p *engine.Pass) {
	w.admit(p)
	if parts := p.Parts; parts != nil {
		for _, id := range parts.LostAtStart {
			w.lose(id, p.StartMs)
		}
		for _, id := range parts.Joined {
			if s := w.stay(id); s != nil {
				s.turn(computing, p.StartMs)
				s.computedMs = p.StartMs
			}
		}
	}
	w.countRequests(p.StartMs)
}

// admit counts what first admissions found in the cache.
func (w *worker) admit(p *engine.Pass) {
	for _, a := range p.Admitted {
		if w.j.lives[a.ID].how != "" { // over, unknown to the worker
			continue
		}
		life := &w.j.lives[w.j.request(a.ID)]
		if life.admitted || w.role == engine.Decode {
			continue
		}
		life.admitted = true
		if w.series != nil {
			in := w.series.at(p.StartMs)
			in.promptTokens += int64(life.promptTokens)
			in.reusedTokens += int64(a.ReusedTokens)
		}
	}
}

// lose makes a request wait again.
func (w *worker) lose(id engine.RequestID, ms float64) {
	s := w.stay(id)
	if s == nil {
		return
	}
	s.turn(displaced, ms)
	s.again = true
	w.preemptions++
	if w.series != nil {
		w.series.at(ms).preemptions++
	}
}

// keepEnd copies what the end of a pass changes.
func (w *worker) keepEnd(p *engine.Pass) {
	end := &w.pending
	*end = passEnd{
		waits: true, started: append(append(end.started[:0], p.Started...), p.Singles...), lost: end.lost[:0],
		finished: append(end.finished[:0], p.Finished...), held: append(end.held[:0], p.Held...), out: end.out[:0],
	}
	if p.Parts != nil {
		end.lost = append(end.lost, p.Parts.LostAtEnd...)
	}
	for _, r := range p.Rejected {
		end.out = append(end.out, r.ID)
	}
	w.endMs = p.EndMs
}

// reach applies the end of the pass that runs, if it has come by ms.
func (w *worker) reach(ms float64) {
	end := &w.pending
	if !end.waits || w.endMs > ms {
		return
	}
	end.waits = false
	at := w.endMs
	for _, t := range end.started {
		w.start(t, at)
	}
	for _, id := range end.lost {
		w.lose(id, at)
	}
	for _, id := range end.held {
		if s := w.stay(id); s != nil {
			s.turn(held, at)
		}
	}
	for _, id := range end.finished {
		if s := w.stay(id); s != nil && s.phase != held {
			w.finish(s, at)
		}
	}
	for _, id := range end.out {
		if s := w.stay(id); s != nil {
			w.leave(s, at)
		}
	}
	w.countRequests(at)
}

// start notes that a request has begun, or gone on, to emit tokens.
func (w *worker) start(t engine.TokenRun, ms float64) {
	s := w.stay(t.ID)
	if s == nil || s.phase != computing {
		return
	}
	s.turn(decoding, s.computedMs)
	if w.role == engine.Prefill || t.Index > 0 {
		return
	}
	life := &w.j.lives[t.ID]
	life.firstMs = ms
	if w.countsTokens() {
		in := w.series.at(ms)
		in.ttftMs = append(in.ttftMs, max(0, ms-life.arrivedMs))
	}
}

// finish ends the stay of a request that has all its tokens.
func (w *worker) finish(s *stay, ms float64) {
	w.leave(s, ms)
	if w.role == engine.Prefill || w.j.totals == nil || w.j.attempts != nil {
		return
	}
	life := &w.j.lives[s.id]
	in := w.j.totals.at(ms)
	in.completions++
	if w.j.cfg.Good != nil && w.j.cfg.Good(max(0, life.firstMs-life.arrivedMs), max(0, ms-life.arrivedMs),
		int(life.outputTokens)) {
		in.good++
	}
}

// close ends everything that is still open when the run ends.
func (w *worker) close(ms float64) {
	w.use(ms, w.used)
	w.integrate(ms)
	for _, s := range w.lanes.stays {
		if s != nil {
			s.endPhase(ms)
			w.write(s, ms)
		}
	}
	w.closeCounters()
}
