package journal

import (
	"fmt"
	"math"

	"dynosim/gocore/engine"
	"dynosim/gocore/perfetto"
)

// What a journal records besides in a run with faults. There requests are attempts, and a pass is recorded in two
// halves, since a fault may change when it ends: what it begins with when it starts, the rest when it ends.

// Fault is a fault that has happened, to workers or something else.
type Fault struct {
	Kind         string
	Workers      []HitWorker
	FromMs, ToMs float64 // +Inf if it is not over
}

// HitWorker is a worker that a fault has hit.
type HitWorker struct {
	Role   engine.Role
	Number int
}

// argument returns what the slice of a fault calls the number of a worker.
func (h HitWorker) argument() string {
	if h.Role == engine.Aggregated {
		return "worker"
	}
	return h.Role.String() + " worker"
}

// ExpectFaults prepares for faults.
func (j *Journal) ExpectFaults() {
	if j != nil {
		j.attempts = map[engine.RequestID]attempt{}
		j.done = map[engine.RequestID]float64{}
	}
}

// attempt is an attempt of a request that is not the first.
type attempt struct {
	request engine.RequestID
	number  int
}

// Again records another attempt, the number-th, of a request. Ids of attempts follow those of requests.
func (j *Journal) Again(id, request engine.RequestID, number int, ms float64) {
	if j == nil {
		return
	}
	for int(id) >= len(j.lives) {
		j.lives = append(j.lives, life{})
	}
	first := &j.lives[request]
	j.lives[id] = life{arrivedMs: ms, firstMs: math.NaN(), promptTokens: first.promptTokens,
		outputTokens: first.outputTokens}
	j.attempts[id] = attempt{request, number}
	j.nowMs = max(j.nowMs, ms)
	j.router.arrived(ms)
}

// request returns that of an attempt.
func (j *Journal) request(id engine.RequestID) engine.RequestID {
	if a, again := j.attempts[id]; again {
		return a.request
	}
	return id
}

// Over records how an attempt has ended that does not complete its request, such as "failed".
func (j *Journal) Over(id engine.RequestID, how string) {
	if j != nil {
		j.lives[id].how = how
	}
}

// label returns what the timeline calls an attempt.
func (j *Journal) label(id engine.RequestID) string {
	text := ""
	if a, again := j.attempts[id]; again {
		text = fmt.Sprintf("%s attempt %d", j.cfg.Name(a.request), a.number)
	} else {
		text = j.cfg.Name(id)
	}
	if how := j.lives[id].how; how != "" {
		text += " " + how
	}
	return text
}

// Begun records a pass that starts.
func (j *Journal) Begun(r engine.Role, i int, p *engine.Pass) {
	if j == nil || p.Idle() {
		return
	}
	j.nowMs = max(j.nowMs, p.StartMs)
	j.worker(r, i).takesPart(p)
}

// Ended records a pass that ends now, as its worker sees it.
func (j *Journal) Ended(r engine.Role, i int, e engine.Engine, p *engine.Pass, ms float64) {
	if j == nil || p.Parts == nil {
		return
	}
	j.nowMs = max(j.nowMs, ms)
	w := j.worker(r, i)
	if p.Scheduled == 0 && p.Tokens > 0 { // of a coast
		w.coast(e, []float64{ms})
		return
	}
	seen := *p
	seen.EndMs = ms
	w.computes(&seen)
	w.copies(&seen)
	w.emitted(&seen, func(engine.RequestID) (float64, bool) { return 0, false })
	w.run(&seen, w.blocksOf(e))
	w.follow(e, seen.StartMs, seen.EndMs)
	w.keepEnd(&seen)
	w.reach(ms)
}

// CoastFrom records that a worker coasts from ms on.
func (j *Journal) CoastFrom(r engine.Role, i int, ms float64) {
	if j != nil {
		w := j.worker(r, i)
		w.endMs = max(w.endMs, ms)
	}
}

// Gone records that a worker is lost, with its requests and the pass that it was busy with, if any.
func (j *Journal) Gone(r engine.Role, i int, p *engine.Pass, ms float64) {
	if j == nil {
		return
	}
	j.nowMs = max(j.nowMs, ms)
	w := j.worker(r, i)
	if p != nil && p.Parts != nil && p.Scheduled > 0 {
		seen := *p
		seen.EndMs, seen.Tokens = ms, 0
		w.computes(&seen)
		w.run(&seen, w.used)
	}
	for _, s := range w.lanes.stays {
		if s != nil {
			w.leave(s, ms)
		}
	}
	w.use(ms, inUse{})
	w.counters[blocksCounter].set(ms, 0)
	w.countGroup(ms, inUse{})
	w.countRequests(ms)
}

// Served records that a client has all tokens of a request.
func (j *Journal) Served(request engine.RequestID, ms float64) {
	if j == nil || j.totals == nil {
		return
	}
	life := &j.lives[request]
	in := j.totals.at(ms)
	in.completions++
	first, emitted := j.done[request]
	if emitted && j.cfg.Good != nil && j.cfg.Good(max(0, first-life.arrivedMs), max(0, ms-life.arrivedMs),
		int(life.outputTokens)) {
		in.good++
	}
}

// First records that a client has the first token of a request.
func (j *Journal) First(request engine.RequestID, ms float64) {
	if j != nil {
		j.done[request] = ms
	}
}

// Tracks of faults: those that overlap have one each.
const faultsTrack perfetto.TrackID = 1 << 9

// writeFaults writes a slice for each fault, and a mark on the track of each worker that it hits.
func (j *Journal) writeFaults(out *perfetto.Sequence, faults []Fault) {
	var lanes slots
	for _, f := range faults {
		toMs := max(f.FromMs, min(f.ToMs, j.nowMs))
		from, to, ok := j.cfg.within(f.FromMs, toMs)
		if !ok {
			continue
		}
		lane, fresh := lanes.take(f.FromMs, toMs)
		track := faultsTrack + perfetto.TrackID(lane)
		if fresh {
			name := "faults"
			if lane > 0 {
				name = fmt.Sprintf("faults %d", lane+1)
			}
			out.Describe(perfetto.Track{ID: track, Parent: clusterTrack, Name: name, Rank: 16 + lane})
		}
		e := perfetto.Event{Track: track, AtNs: from, Name: f.Kind}
		for _, s := range f.Workers {
			e.Args = append(e.Args, perfetto.Arg{Name: s.argument(), Value: int64(s.Number)})
			if w := j.known(s.Role, s.Number); w != nil && f.FromMs >= j.cfg.FromMs {
				w.out.Instant(perfetto.Event{Track: w.base, AtNs: from, Name: f.Kind})
			}
		}
		out.Begin(e)
		out.End(track, to)
	}
}

// known returns a worker that was heard of, nil if none was.
func (j *Journal) known(r engine.Role, i int) *worker {
	if list := j.workers[role(r)]; i < len(list) {
		return list[i]
	}
	return nil
}
