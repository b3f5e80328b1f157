package journal

import (
	"math"

	"dynosim/gocore/engine"
	"dynosim/gocore/perfetto"
)

// Config is what a journal is for.
type Config struct {
	Requests int // of the run
	// Timeline asks for slices, counters and arrows: those between FromMs and ToMs.
	Timeline     bool
	FromMs, ToMs float64
	// Series asks for figures over time, in windows of StepMs. 0 lets the journal choose: windows get twice as long
	// whenever there are too many.
	Series bool
	StepMs float64
	Ranked bool // the series has a column on ranks that wait for each other
	// Hosted tells that there is a tier of host memory, and columns and tracks on its copies. Each worker has HostLinks
	// links to it, one for each rank, at least one.
	Hosted    bool
	HostLinks int
	// Storage tells that there is storage behind it, with tracks of their own.
	Storage bool
	// Grouped tells that caches have several groups: there is a counter of the blocks of full attention, and the series
	// has columns.
	Grouped bool
	// Blocks is the size of the KV pool of a worker, by role, and OtherBlocks that of the pool which the groups beside
	// full attention have; 0 if they share it.
	Blocks, OtherBlocks [3]int
	// Good tells whether the latencies of a completed request are within the service level; nil if there is none.
	Good func(ttftMs, e2eMs float64, outputTokens int) bool
	// Name is what a request is called.
	Name func(engine.RequestID) string

	// Live workers have no router, and ids of requests that count up from 1; Requests is 0 then. Ranks is how many
	// engines each worker has. A worker of whose timeline there are MostBytes keeps no more of it; 0 is for no limit.
	Live      bool
	Ranks     int
	MostBytes int
}

// Journal is the journal of a run, or of a part of it.
type Journal struct {
	cfg   Config
	lives []life // by request; shared by parts
	first int    // the number of the first of workers
	// By role: prefill workers, and those that emit tokens.
	workers [2][]*worker
	parts   []*Journal
	router  router
	totals  *series
	nowMs   float64 // the last moment that was heard of
	full    bool    // there are MostBytes

	// Of a run with faults, nil without: attempts that are not the first of a request, and when clients had first
	// tokens.
	attempts map[engine.RequestID]attempt
	done     map[engine.RequestID]float64
	stints   []stint // in which workers worked
}

// New returns an empty journal.
func New(cfg Config) *Journal {
	if cfg.ToMs == 0 {
		cfg.ToMs = math.Inf(1)
	}
	j := &Journal{cfg: cfg, lives: make([]life, cfg.Requests)}
	j.open(0)
	return j
}

// open prepares what a journal and each of its parts have.
func (j *Journal) open(number int) {
	if j.cfg.Timeline && !j.cfg.Live {
		j.router.out = perfetto.NewSequence(partSequences + number)
		j.router.waits = counter{out: j.router.out, track: routerQueueTrack, fromMs: j.cfg.FromMs, toMs: j.cfg.ToMs}
	}
	j.router.journal = j
	switch {
	case j.cfg.Series:
		j.totals = newSeries(j.cfg.StepMs)
	case j.cfg.Timeline:
		j.totals = newSeries(timelineStepMs)
	}
}

// timelineStepMs is the length of the windows of rates that a timeline shows, if no series is wanted.
const timelineStepMs = 1000

// Part returns a journal for one worker by itself, and for the requests that it gets: to it, the worker has number 0.
// Parts of different workers may be used at the same time.
func (j *Journal) Part(number int) *Journal {
	if j == nil {
		return nil
	}
	part := &Journal{cfg: j.cfg, lives: j.lives, first: number}
	part.open(1 + number)
	return part
}

// Merge takes in parts, in the order of their workers; Close ends them, too.
func (j *Journal) Merge(parts []*Journal) {
	if j == nil {
		return
	}
	j.parts = parts
}

// role returns the index of workers: those that emit tokens have 1.
func role(r engine.Role) int {
	if r == engine.Prefill {
		return 0
	}
	return 1
}

// worker returns the journal of one worker, which begins when it is heard of first.
func (j *Journal) worker(r engine.Role, i int) *worker {
	list := &j.workers[role(r)]
	for len(*list) <= i {
		*list = append(*list, nil)
	}
	w := (*list)[i]
	if w == nil {
		w = j.newWorker(r, j.first+i)
		(*list)[i] = w
	}
	return w
}

// Arrived records a request that a client has sent.
func (j *Journal) Arrived(req engine.Request, ms float64) {
	if j.ended() {
		return
	}
	j.nowMs = max(j.nowMs, ms)
	for j.cfg.Live && int(req.ID) >= len(j.lives) {
		j.lives = append(j.lives, life{})
	}
	nan := math.NaN()
	j.lives[req.ID] = life{arrivedMs: ms, firstMs: nan, promptTokens: int32(req.PromptTokens),
		outputTokens: int32(req.OutputTokens)}
	j.router.arrived(ms)
	if j.totals != nil {
		j.totals.at(ms).arrivals++
	}
}

// Joined records that a request was handed to a worker: to wait for its passes or, on a decode worker, for room.
func (j *Journal) Joined(r engine.Role, i int, id engine.RequestID, ms float64) {
	if j.ended() {
		return
	}
	j.nowMs = max(j.nowMs, ms)
	w := j.worker(r, i)
	w.reach(ms)
	if r != engine.Decode && !j.lives[id].sent {
		j.lives[id].sent = true
		j.router.sent(id, w, ms)
	}
	w.join(id, ms)
	w.countRequests(ms)
}

// Pass records a pass that starts, with its parts (engine.Setup.Explain). It does not keep the slices of the pass.
// lastTokenMs is when a request, which emits again after an interruption, emitted before.
func (j *Journal) Pass(r engine.Role, i int, e engine.Engine, p *engine.Pass,
	lastTokenMs func(engine.RequestID) (float64, bool)) {
	if j.ended() || p.Idle() {
		return
	}
	j.nowMs = max(j.nowMs, p.StartMs)
	w := j.worker(r, i)
	w.reach(p.StartMs)
	w.begin(e, p, lastTokenMs)
	if most := j.cfg.MostBytes; most > 0 && len(w.out.Bytes())+len(w.passes.Bytes()) > most {
		j.full = true
	}
}

// Coast records passes that followed each other from the end of the last pass of a worker on, in which each request
// that emitted a token in the pass before emitted another.
func (j *Journal) Coast(r engine.Role, i int, e engine.Engine, endsMs []float64) {
	if j.ended() || len(endsMs) == 0 {
		return
	}
	w := j.worker(r, i)
	w.reach(w.endMs)
	fromMs := w.endMs
	w.coast(e, endsMs)
	w.follow(e, fromMs, endsMs[len(endsMs)-1])
}

// Transfer records that the KV of a request begins to move from its prefill to its decode worker.
func (j *Journal) Transfer(id engine.RequestID, ms float64) {
	if j.ended() {
		return
	}
	j.turn(id, moving, ms)
}

// Reserved records that a decode worker has room for the prompt of a request.
func (j *Journal) Reserved(id engine.RequestID, ms float64) {
	if j.ended() {
		return
	}
	j.turn(id, wantsKV, ms)
}

// Activated records that the KV of a request has arrived, so that it waits for admission.
func (j *Journal) Activated(id engine.RequestID, ms float64) {
	if j.ended() {
		return
	}
	j.turn(id, queued, ms)
}

// ended reports whether nothing is kept any more.
func (j *Journal) ended() bool { return j == nil || j.full }

// Full reports whether a part has reached its limit, and left out what came later.
func (j *Journal) Full() bool {
	for _, part := range j.withParts() {
		if part.full {
			return true
		}
	}
	return false
}

// turn begins another phase of a request with the worker that emits its tokens.
func (j *Journal) turn(id engine.RequestID, to phase, ms float64) {
	if s := j.stayAt(ms, id, 1); s != nil {
		s.turn(to, ms)
		s.worker.countRequests(ms)
	}
}

// stayAt returns the stay of a request once everything until ms is applied, nil if the request has left by then.
func (j *Journal) stayAt(ms float64, id engine.RequestID, role int) *stay {
	if s := j.lives[id].stays[role]; s != nil {
		s.worker.reach(ms)
	}
	return j.lives[id].stays[role]
}

// Unsent records that a request was given up before it was handed to a worker.
func (j *Journal) Unsent(id engine.RequestID, ms float64) {
	if j != nil && !j.lives[id].sent {
		j.lives[id].sent = true
		j.router.change(ms, -1)
	}
}

// Left records that a request has left a worker otherwise than by the end of a pass: its KV was released, or it was
// given up.
func (j *Journal) Left(r engine.Role, id engine.RequestID, ms float64) {
	if j.ended() {
		return
	}
	j.nowMs = max(j.nowMs, ms)
	if s := j.stayAt(ms, id, role(r)); s != nil {
		if j.attempts != nil && s.phase == decoding { // it emits no more
			s.worker.emitters = max(0, s.worker.emitters-1)
		}
		s.worker.leave(s, ms)
		s.worker.countRequests(ms)
	}
}

// Close ends the journal, with all its parts, at the end of the run. Passes that have started are counted to their
// ends.
func (j *Journal) Close() {
	if j == nil {
		return
	}
	for _, w := range j.all() {
		w.reach(math.Inf(1))
		j.nowMs = max(j.nowMs, w.j.nowMs, w.endMs)
	}
	for _, w := range j.all() {
		if w.j.full {
			w.close(max(w.j.nowMs, w.endMs))
		} else {
			w.close(j.nowMs)
		}
	}
	for _, part := range j.withParts() {
		part.router.close(j.nowMs)
	}
	j.integrateStints()
}

// withParts returns the journal and its parts.
func (j *Journal) withParts() []*Journal { return append([]*Journal{j}, j.parts...) }

// all lists the workers: those that compute prompts for others come first.
func (j *Journal) all() []*worker {
	var all []*worker
	for kind := range j.workers {
		for _, part := range j.withParts() {
			for _, w := range part.workers[kind] {
				if w != nil {
					all = append(all, w)
				}
			}
		}
	}
	return all
}
