package report

import (
	"math"
	"slices"

	"dynosim/gocore/engine"
)

// Collector records one run. Times are milliseconds of simulated time, NaN where something did not happen.
type Collector struct {
	records  []record // by request, or in no order if they are passing
	passing  *passing // nil if all records are kept
	workers  []timeline
	first    int       // the number of the first of workers
	gaps     []float64 // inter-token latencies between two runs of one request
	zeroGaps int64     // those between two tokens of one burst
	folding  bool      // passes that are over for all requests are forgotten, unless something needs them
	past     gapList   // the gaps of these, see timeline.fold
	summed   bool      // past has been used up
	copied   engine.Copied
	lockstep overWorkers[engine.Lockstep]
	groups   overWorkers[engine.GroupUse]
	arrived  int
	finished int // completed, rejected, failed or canceled
	rejected []engine.Rejection
	handoffs []handoff // by request, nil in an aggregated run
	// attribution divides latencies among their parts; nil if that was not asked for.
	attribution *attribution
	again       []again // of the last pass
	// earlier is the runs before the last one of requests that have several and are not counted yet.
	earlier map[engine.RequestID][]placedRun
	trials  []Trials           // by request, nil in a run without faults
	lost    []engine.Rejection // requests that failed for a fault or a time-out, and why
	longest int                // request, see Within
	tokens  *tokenLog          // nil unless LogTokens was called
	ranks   []int32            // by request, -1 before admission; nil unless KeepRanks was called
	late    *lateness          // nil unless CountLate was called
	// prefillRanks are those on the workers that compute prompts, if these are others.
	prefillRanks []int32
}

// Status says how a request ended.
type Status uint8

const (
	unfinished Status = iota
	Completed
	Rejected // can never run
	Failed   // can never run on the worker that should have generated its output
	Canceled
	Lost // by a fault or a time-out, see faults.go
)

// record is what is known about one request. There may be millions, so it is kept small.
type record struct {
	arrivalMs, firstAdmitMs              float64
	firstTokenMs, secondTokenMs, lastMs  float64
	inputTokens                          int
	reusedTokens, firstAdmitReusedTokens int // the maximum over all admissions, and that of the first
	outputTokens, tokens                 int32
	worker                               int32 // that emits its tokens, or noWorker
	run                                  run   // the latest one
	state                                runState
	status                               Status
	preempted                            bool // when the run ended
}

// run is an unbroken series of tokens, at least one in each emitting pass of the worker.
type run struct {
	pass  int32 // of the first token
	index int32 // of the first token in the output
	extra int32 // tokens beyond one in each pass
	last  int32 // pass of the last token, once the run is closed
}

// placedRun is a run on a worker.
type placedRun struct {
	run
	worker int32
}

// runState is what is known of the latest run of a request.
type runState uint8

const (
	noRun runState = iota // or counted
	openRun
	closedRun
)

// NewCollector returns a collector for a run of requests requests on workers workers.
func NewCollector(requests, workers int) *Collector {
	c := &Collector{
		records: make([]record, requests),
		workers: make([]timeline, workers),
		earlier: map[engine.RequestID][]placedRun{},
		folding: requests >= foldFrom,
	}
	for i := range c.records {
		c.records[i] = newRecord()
	}
	return c
}

// Within makes the collector count outputs only up to the longest request that engines allow, in tokens; 0 is any
// length.
func (c *Collector) Within(longest int) *Collector {
	c.longest = longest
	return c
}

// newRecord returns the record of a request that has not arrived.
func newRecord() record {
	nan := math.NaN()
	return record{arrivalMs: nan, firstAdmitMs: nan, firstTokenMs: nan, secondTokenMs: nan, lastMs: nan,
		worker: noWorker}
}

// record returns the record of a request, which must not have been discarded.
func (c *Collector) record(id engine.RequestID) *record {
	if c.passing != nil {
		return &c.records[c.passing.slots[id]-1]
	}
	return &c.records[id]
}

// noWorker stands for the worker that a request has not been given to yet.
const noWorker = -1

// Arrival records that a request was sent at ms.
func (c *Collector) Arrival(req engine.Request, ms float64) {
	if c.passing != nil {
		c.openRecord(req.ID)
	}
	r := c.record(req.ID)
	r.arrivalMs = ms
	r.inputTokens, r.outputTokens = req.PromptTokens, int32(req.OutputTokens)
	if room := c.longest - req.PromptTokens; room > 0 {
		r.outputTokens = min(r.outputTokens, int32(room))
	}
	c.attribution.arrived(req.ID, ms)
	c.arrived++
}

// ArrivalMs returns when a request was sent.
func (c *Collector) ArrivalMs(id engine.RequestID) float64 { return c.record(id).arrivalMs }

// Worker records which worker emits the tokens of a request.
func (c *Collector) Worker(id engine.RequestID, worker int) {
	c.record(id).worker = int32(c.first + worker)
}

// KeepRanks makes rows say on which data-parallel rank of its worker each request ran.
func (c *Collector) KeepRanks() {
	c.ranks = unranked(len(c.records))
	if c.handoffs != nil {
		c.prefillRanks = unranked(len(c.records))
	}
}

// unranked returns the ranks of requests that were not admitted yet.
func unranked(requests int) []int32 {
	ranks := make([]int32, requests)
	for i := range ranks {
		ranks[i] = -1
	}
	return ranks
}

// Copied records what tiers of a cache have done, of which no pass tells.
func (c *Collector) Copied(more engine.Copied) { c.copied.Add(more) }

// Pass records a pass of a worker that emits tokens.
func (c *Collector) Pass(worker int, p *engine.Pass) {
	for _, a := range p.Admitted {
		c.record(a.ID).admit(p.StartMs, a.ReusedTokens)
		if c.ranks != nil {
			c.ranks[a.ID] = int32(a.Rank)
		}
		if c.handoffs != nil {
			c.handoffs[a.ID].decode.admit(p.StartMs, a.ReusedTokens)
		}
	}
	c.copied.Add(p.Copied)
	c.attribution.emittingPass(worker, p)
	c.again = c.again[:0]
	for _, t := range p.Singles {
		c.single(t, p.EndMs)
	}
	if p.Tokens == 0 || len(p.Singles) > 0 {
		return
	}
	pass := int32(c.workers[worker].add(p.EndMs))
	for _, s := range p.Started {
		c.start(s.ID, run{pass: pass, index: int32(s.Index)})
		c.beginRun(&c.workers[worker], pass)
	}
	for _, b := range p.Bursts {
		r := c.record(b.ID)
		r.burst(int32(b.Tokens), pass, p.EndMs)
		c.tokens.burst(b.ID, b.Tokens-1, r.worker, p.EndMs)
	}
	for _, id := range p.Finished {
		r := c.record(id)
		r.close(r.emitted(pass))
		c.countRuns(id)
	}
	c.foldGaps(worker)
}

// Coast records passes of a worker, ending at endsMs, in which each request of the emitting set emits a token.
func (c *Collector) Coast(worker int, endsMs []float64) {
	c.workers[worker].addAll(endsMs)
	c.foldGaps(worker)
}

// Surplus records what requests emitted in passes of the last Coast beyond one token in each. None of their runs began
// in it.
func (c *Collector) Surplus(surplus []engine.Surplus) {
	for _, more := range surplus {
		c.record(more.ID).run.extra += int32(more.Tokens)
	}
}

// Terminal records that a request is over, and why if it was rejected or has failed. Only the first call for a request
// counts.
func (c *Collector) Terminal(id engine.RequestID, status Status, reason string) {
	if c.passing != nil && c.passing.gone(id) {
		return
	}
	r := c.record(id)
	if r.status != unfinished {
		return
	}
	r.status = status
	if status == Rejected || status == Failed {
		c.rejected = append(c.rejected, engine.Rejection{ID: id, Reason: reason})
	}
	if status == Lost {
		c.lost = append(c.lost, engine.Rejection{ID: id, Reason: reason})
	}
	c.finished++
	c.late.ended(r)
	if c.folds() && r.state != noRun { // it was rejected after it had emitted tokens
		c.dropRuns(id)
	}
	if c.passing != nil {
		c.closeRecord(id)
	}
}

// BeforeRun returns when a request that has begun to emit again emitted its last token before that. It reports false
// once the request has emitted its last token.
func (c *Collector) BeforeRun(id engine.RequestID) (ms float64, ok bool) {
	for _, a := range c.again {
		if a.id == id {
			return a.beforeMs, true
		}
	}
	earlier := c.earlier[id]
	if r := c.record(id); len(earlier) == 0 {
		return r.lastMs, r.state == openRun && !math.IsNaN(r.lastMs)
	}
	return c.workers[int(c.record(id).worker)-c.first].endMs(earlier[len(earlier)-1].last), true
}

// Cut records that the run ended while a worker still had a request. Only the first worker's count of tokens counts.
func (c *Collector) Cut(left engine.RequestState) {
	r := c.record(left.ID)
	r.close(int32(left.Generated))
	r.preempted = r.preempted || left.Preempted()
	c.countRuns(left.ID)
	c.attribution.cut(left.ID, r, int(r.worker)-c.first)
}

// Part returns a collector for one worker by itself, and for the requests that it gets: to it, the worker has number 0.
// Parts of different workers may be used at the same time.
func (c *Collector) Part(worker int) *Collector {
	if c.passing != nil {
		return c.passingPart(worker)
	}
	return &Collector{
		records:     c.records,
		workers:     c.workers[worker : worker+1],
		first:       worker,
		earlier:     map[engine.RequestID][]placedRun{},
		attribution: c.attribution.part(worker),
		ranks:       c.ranks, prefillRanks: c.prefillRanks,
		folding: c.folds(),
	}
}

// AddWorker makes room for one more worker.
func (c *Collector) AddWorker() {
	c.workers = append(c.workers, timeline{})
	if a := c.attribution; a != nil {
		a.workers = append(a.workers, progress{})
	}
}

// Latencies returns the time to the first token and the mean inter-token latency, in milliseconds, of a request that
// has emitted its last token and is not over yet. The latter is NaN for one token.
func (c *Collector) Latencies(id engine.RequestID) (ttftMs, itlMs float64) {
	r := c.record(id)
	if r.tokens < 2 {
		return r.ttftMs(), math.NaN()
	}
	return r.ttftMs(), r.tpotMs()
}

// Merge takes in what parts have collected, and ends them. Rejected requests then come in their own order.
func (c *Collector) Merge(parts []*Collector) {
	for _, part := range parts {
		if c.passing != nil {
			c.passing.take(part)
		}
		c.gaps = append(c.gaps, part.gaps...)
		c.zeroGaps += part.zeroGaps
		c.copied.Add(part.copied)
		c.lockstep.add(part.lockstep.sum)
		c.groups.add(part.groups.sum)
		c.arrived += part.arrived
		c.finished += part.finished
		c.rejected = append(c.rejected, part.rejected...)
	}
	slices.SortFunc(c.rejected, func(a, b engine.Rejection) int { return int(a.ID) - int(b.ID) })
}

// Finished returns the number of requests that are over.
func (c *Collector) Finished() int { return c.finished }

// Rejected lists the requests that could never run, failed ones included, in the order in which that was found out
// on each worker.
func (c *Collector) Rejected() []engine.Rejection { return c.rejected }

func (r *record) admit(ms float64, reused int) {
	if math.IsNaN(r.firstAdmitMs) {
		r.firstAdmitMs, r.firstAdmitReusedTokens = ms, reused
	}
	r.reusedTokens = max(r.reusedTokens, reused)
}

// start begins a run of a request.
func (c *Collector) start(id engine.RequestID, next run) {
	r := c.record(id)
	r.close(next.index)
	if r.state == closedRun {
		c.earlier[id] = append(c.earlier[id], placedRun{r.run, r.worker})
	}
	r.run, r.state = next, openRun
}

// single records a token that a request emits by itself at ms. The runs before it are over.
func (c *Collector) single(t engine.TokenRun, ms float64) {
	r := c.record(t.ID)
	r.close(int32(t.Index))
	c.countRuns(t.ID)
	switch t.Index {
	case 0:
		r.firstTokenMs = ms
	case 1:
		r.secondTokenMs = ms
	}
	if t.Index > 0 {
		c.addGap(gap(r.lastMs, ms))
		c.again = append(c.again, again{t.ID, r.lastMs})
	}
	c.tokens.single(t, r.worker, ms)
	r.lastMs, r.tokens = ms, int32(t.Index)+1
	r.run = run{index: int32(t.Index), last: byItself}
}

// again is a request that emitted a token by itself after others, and when it emitted the one before.
type again struct {
	id       engine.RequestID
	beforeMs float64
}

// byItself is the last pass of a request whose last token is in none of its runs.
const byItself = -1

// burst records that the open run got tokens tokens in a pass that ends at ms.
func (r *record) burst(tokens, pass int32, ms float64) {
	r.run.extra += tokens - 1
	if r.run.index == 0 && r.run.pass == pass {
		r.secondTokenMs = ms
	}
}

// close ends the open run, if any, now that the request is known to have emitted tokens tokens.
func (r *record) close(tokens int32) {
	if r.state != openRun {
		return
	}
	r.state = closedRun
	r.run.last = r.run.pass + tokens - r.run.extra - r.run.index - 1
	r.tokens = tokens
}

// emitted returns how many tokens a request with an open run has emitted when pass ends, at most the number it asked
// for.
func (r *record) emitted(pass int32) int32 {
	return r.run.index + pass - r.run.pass + 1 + r.run.extra
}

// countRuns counts the gaps of a request that emits no more and takes its token times from its runs. A request that is
// rejected after it had emitted tokens is never counted.
func (c *Collector) countRuns(id engine.RequestID) {
	r := c.record(id)
	c.tokens.runs(id, c.earlier[id], r)
	if earlier, several := c.earlier[id]; several {
		for _, n := range earlier {
			c.countRun(r, n)
		}
		delete(c.earlier, id)
	}
	if r.state == noRun {
		return
	}
	c.countRun(r, placedRun{r.run, r.worker})
	r.state = noRun
}

func (c *Collector) countRun(r *record, n placedRun) {
	line := &c.workers[int(n.worker)-c.first]
	first, last := line.endMs(n.pass), line.endMs(n.last)
	switch {
	case n.index == 0:
		r.firstTokenMs = first
	case n.index == 1:
		r.secondTokenMs = first
	}
	if n.index == 0 && n.last > n.pass && math.IsNaN(r.secondTokenMs) {
		r.secondTokenMs = line.endMs(n.pass + 1)
	}
	c.zeroGaps += int64(n.extra)
	if n.index > 0 {
		c.addGap(gap(r.lastMs, first))
	}
	r.lastMs = last
	line.count(n.run)
	c.late.gaps(line, n.run)
	c.endRun(n)
}

// gap returns the time from one token to a later one; rounding must not make it negative.
func gap(fromMs, toMs float64) float64 { return max(toMs-fromMs, 0) }

// counts reports whether the metrics include the request: it was admitted and emitted at least one token. It need not
// have finished.
func (r *record) counts() bool {
	return r.status != Rejected && r.status != Lost && !math.IsNaN(r.firstAdmitMs) && !math.IsNaN(r.firstTokenMs)
}

// ttftMs and the functions after it return latencies of a request that counts.
func (r *record) ttftMs() float64 { return gap(r.arrivalMs, r.firstTokenMs) }
func (r *record) e2eMs() float64  { return gap(r.arrivalMs, r.lastMs) }
func (r *record) ttstMs() float64 { return gap(r.firstTokenMs, r.secondTokenMs) }
func (r *record) tpotMs() float64 { return gap(r.firstTokenMs, r.lastMs) / float64(r.tokens-1) }

// addGap records a gap between two tokens.
func (c *Collector) addGap(ms float64) {
	c.gaps = append(c.gaps, ms)
	c.late.gap(ms)
}
