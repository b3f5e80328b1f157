package report

import (
	"math"
	"slices"

	"dynosim/gocore/engine"
)

// passing is what a collector without rows keeps of requests that are over: the values that the statistics need.
// A record exists from the arrival of its request to its end, and is then used again.
type passing struct {
	sla   SLA
	slots []int32 // by request: 1 + the index of its record, 0 before it arrives, over afterwards
	// By request, NaN where it has none. Parts share these lists and slots.
	ttftMs, ttstMs, tpotMs, e2eMs []float64

	requests []engine.RequestID // by record, noRequest if it is free
	free     []int32            // records
	totals   totals
	lastMs   float64 // of the requests that count
}

const (
	over      = -1
	noRequest = engine.RequestID(math.MaxInt32)
)

// NewPassingCollector returns a collector that has no rows: it takes much less memory. Summarise must be given the same
// service level.
func NewPassingCollector(requests, workers int, sla SLA) *Collector {
	return &Collector{
		workers: make([]timeline, workers),
		earlier: map[engine.RequestID][]placedRun{},
		folding: requests >= foldFrom,
		passing: &passing{
			sla: sla, slots: make([]int32, requests),
			ttftMs: missing(requests), ttstMs: missing(requests), tpotMs: missing(requests), e2eMs: missing(requests),
		},
	}
}

// foldFrom is from how many requests on passes are folded. Smaller runs do so with all of them at the end, which takes
// less time.
const foldFrom = 1 << 18

// missing returns a list of n times NaN.
func missing(n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = math.NaN()
	}
	return values
}

// passingPart does what Part does, for a collector without rows.
func (c *Collector) passingPart(worker int) *Collector {
	p := c.passing
	return &Collector{
		workers:     c.workers[worker : worker+1],
		first:       worker,
		earlier:     map[engine.RequestID][]placedRun{},
		attribution: c.attribution.part(worker),
		folding:     c.folding,
		passing: &passing{sla: p.sla, slots: p.slots, ttftMs: p.ttftMs, ttstMs: p.ttstMs, tpotMs: p.tpotMs,
			e2eMs: p.e2eMs},
	}
}

func (p *passing) gone(id engine.RequestID) bool { return p.slots[id] == over }

// openRecord makes a record for a request that has arrived.
func (c *Collector) openRecord(id engine.RequestID) {
	p := c.passing
	slot := int32(len(c.records))
	if n := len(p.free); n > 0 {
		slot, p.free = p.free[n-1], p.free[:n-1]
		c.records[slot], p.requests[slot] = newRecord(), id
	} else {
		c.records, p.requests = append(c.records, newRecord()), append(p.requests, id)
	}
	p.slots[id] = slot + 1
}

// closeRecord adds a request that is over to the statistics, and frees its record.
func (c *Collector) closeRecord(id engine.RequestID) {
	p := c.passing
	slot := p.slots[id] - 1
	r := &c.records[slot]
	p.totals.add(r, p.sla)
	if r.state != noRun { // the run ended before it did
		c.dropRuns(id)
	}
	if r.counts() {
		p.lastMs = max(p.lastMs, r.lastMs)
		p.ttftMs[id], p.e2eMs[id] = r.ttftMs(), r.e2eMs()
		if c.attribution != nil {
			c.attribution.divide(id, r.ttftMs(), r.e2eMs())
		}
		if r.tokens >= 2 {
			p.ttstMs[id], p.tpotMs[id] = r.ttstMs(), r.tpotMs()
		}
	}
	p.slots[id], p.requests[slot] = over, noRequest
	p.free = append(p.free, slot)
}

// leave ends the requests that are left when the run ends.
func (c *Collector) leave() {
	for _, id := range c.passing.requests {
		if id != noRequest {
			c.closeRecord(id)
		}
	}
	c.records, c.passing.requests, c.passing.free = nil, nil, nil
}

// Leave tells a part that its run has ended, so that its records are not kept until all other parts are over, too.
func (c *Collector) Leave() {
	if c.passing != nil {
		c.leave()
	}
	if !c.folds() {
		return
	}
	for i := range c.workers {
		c.workers[i].foldAll(&c.past)
	}
}

// TakeGaps takes over the gaps between tokens from parts whose runs have ended, so that those of all parts are never
// there at once. Merge takes the rest.
func (c *Collector) TakeGaps(parts []*Collector) {
	if !c.folds() {
		return
	}
	for _, part := range parts {
		c.past.all = append(c.past.all, part.past.all...)
		part.past = gapList{}
		c.past.settle()
	}
}

// folds reports whether passes are forgotten: requests of runs with faults may need any of them again.
func (c *Collector) folds() bool { return c.folding && c.trials == nil }

// dropRuns forgets the runs of a request that will never be counted.
func (c *Collector) dropRuns(id engine.RequestID) {
	for _, n := range c.earlier[id] {
		c.endRun(n)
	}
	delete(c.earlier, id)
	r := c.record(id)
	c.endRun(placedRun{r.run, r.worker})
	r.state = noRun
}

// beginRun notes that a run of a request begins with a pass of a worker.
func (c *Collector) beginRun(line *timeline, pass int32) {
	if c.folds() {
		line.stretch(pass).open++
	}
}

// endRun notes that a run has been counted, or never will be.
func (c *Collector) endRun(n placedRun) {
	if c.folds() {
		c.workers[int(n.worker)-c.first].stretch(n.pass).open--
	}
}

// foldGaps forgets passes of a worker that no request needs any more.
func (c *Collector) foldGaps(worker int) {
	if line := &c.workers[worker]; c.folds() && line.passes/stretchPasses > line.folded {
		line.fold(&c.past)
	}
}

// take adds the counts of a part.
func (p *passing) take(part *Collector) {
	part.leave()
	p.totals.merge(part.passing.totals)
	p.lastMs = max(p.lastMs, part.passing.lastMs)
}

// existing moves the numbers among values to its front.
func existing(values []float64) []float64 {
	return slices.DeleteFunc(values, math.IsNaN)
}

// add counts a request.
func (t *totals) add(r *record, sla SLA) {
	if r.status == Completed {
		t.finished++
	}
	if !r.counts() {
		return
	}
	t.requests++
	t.input += r.inputTokens
	t.output += int(r.outputTokens)
	t.reused += r.reusedTokens
	t.firstReused += r.firstAdmitReusedTokens
	if sla.met(r) {
		t.good++
		t.goodOutput += int(r.outputTokens)
	}
}

func (t *totals) merge(other totals) {
	t.finished += other.finished
	t.requests += other.requests
	t.input += other.input
	t.output += other.output
	t.reused += other.reused
	t.firstReused += other.firstReused
	t.good += other.good
	t.goodOutput += other.goodOutput
}
