package report

import (
	"math"

	"dynosim/gocore/engine"
)

// Collector records one run. Times are milliseconds of simulated time, NaN where something did not happen.
type Collector struct {
	records  []record
	workers  []timeline
	gaps     []weighted // inter-token latencies between two runs of one request
	zeroGaps int64      // those between two tokens of one burst
	arrived  int
	finished int // completed, rejected, failed or canceled
	rejected []engine.Rejection
	handoffs []handoff // by request, nil in an aggregated run
}

// Status says how a request ended.
type Status uint8

const (
	unfinished Status = iota
	Completed
	Rejected // can never run
	Failed   // can never run on the worker that should have generated its output
	Canceled
)

// record is what is known about one request.
type record struct {
	arrivalMs, firstAdmitMs              float64
	firstTokenMs, secondTokenMs, lastMs  float64
	inputTokens, outputTokens, tokens    int
	reusedTokens, firstAdmitReusedTokens int   // the maximum over all admissions, and that of the first
	worker                               int32 // that emits its tokens, or noWorker
	status                               Status

	run     run
	emits   bool // run is open
	earlier []run
}

// run is an unbroken series of tokens, at least one in each emitting pass of the worker.
type run struct {
	pass  int // of the first token
	index int // of the first token in the output
	extra int // tokens beyond one in each pass
	last  int // pass of the last token, once the run is closed
}

// timeline is the emitting passes of one worker.
type timeline struct {
	endsMs []float64
	// change[p] is by how much the number of requests with a gap that ends with pass p differs from that of p-1. It has
	// one entry more than endsMs.
	change []int32
}

// NewCollector returns a collector for a run of requests requests on workers workers.
func NewCollector(requests, workers int) *Collector {
	c := &Collector{records: make([]record, requests), workers: make([]timeline, workers)}
	nan := math.NaN()
	for i := range c.workers {
		c.workers[i].change = make([]int32, 1)
	}
	for i := range c.records {
		c.records[i] = record{
			arrivalMs: nan, firstAdmitMs: nan, firstTokenMs: nan, secondTokenMs: nan, lastMs: nan, worker: noWorker,
		}
	}
	return c
}

// noWorker stands for the worker that a request has not been given to yet.
const noWorker = -1

// Arrival records that a request was sent at ms.
func (c *Collector) Arrival(req engine.Request, ms float64) {
	r := &c.records[req.ID]
	r.arrivalMs = ms
	r.inputTokens, r.outputTokens = req.PromptTokens, req.OutputTokens
	c.arrived++
}

// Worker records which worker emits the tokens of a request.
func (c *Collector) Worker(id engine.RequestID, worker int) { c.records[id].worker = int32(worker) }

// Pass records a pass of a worker that emits tokens.
func (c *Collector) Pass(worker int, p *engine.Pass) {
	for _, a := range p.Admitted {
		c.records[a.ID].admit(p.StartMs, a.ReusedTokens)
		if c.handoffs != nil {
			c.handoffs[a.ID].decode.admit(p.StartMs, a.ReusedTokens)
		}
	}
	if p.Tokens == 0 {
		return
	}
	line := &c.workers[worker]
	pass := len(line.endsMs)
	line.endsMs = append(line.endsMs, p.EndMs)
	line.change = append(line.change, 0)
	for _, s := range p.Started {
		r := &c.records[s.ID]
		r.close(s.Index)
		r.run, r.emits = run{pass: pass, index: s.Index}, true
	}
	for _, b := range p.Bursts {
		c.records[b.ID].burst(b.Tokens, pass, p.EndMs)
	}
	for _, id := range p.Finished {
		r := &c.records[id]
		r.close(r.outputTokens)
		c.settle(r)
	}
}

// Terminal records that a request is over, and why if it was rejected or has failed. Only the first call for a request
// counts.
func (c *Collector) Terminal(id engine.RequestID, status Status, reason string) {
	r := &c.records[id]
	if r.status != unfinished {
		return
	}
	r.status = status
	if status == Rejected || status == Failed {
		c.rejected = append(c.rejected, engine.Rejection{ID: id, Reason: reason})
	}
	c.finished++
}

// Cut records that the run ended while a request had emitted only tokens tokens.
func (c *Collector) Cut(id engine.RequestID, tokens int) {
	r := &c.records[id]
	r.close(tokens)
	c.settle(r)
}

// Finished is the number of requests that are over.
func (c *Collector) Finished() int { return c.finished }

// Rejected lists the requests that could never run, failed ones included, in the order in which that was found out.
func (c *Collector) Rejected() []engine.Rejection { return c.rejected }

func (r *record) admit(ms float64, reused int) {
	if math.IsNaN(r.firstAdmitMs) {
		r.firstAdmitMs, r.firstAdmitReusedTokens = ms, reused
	}
	r.reusedTokens = max(r.reusedTokens, reused)
}

// burst notes that the open run got tokens tokens in a pass that ends at ms.
func (r *record) burst(tokens, pass int, ms float64) {
	r.run.extra += tokens - 1
	if r.run.index == 0 && r.run.pass == pass {
		r.secondTokenMs = ms
	}
}

// close ends the open run, if any, now that the request is known to have emitted tokens tokens.
func (r *record) close(tokens int) {
	if !r.emits {
		return
	}
	r.emits = false
	r.run.last = r.run.pass + tokens - r.run.extra - r.run.index - 1
	r.earlier = append(r.earlier, r.run)
	r.tokens = tokens
}

// settle counts the gaps of a request that emits no more and takes its token times from its runs. A request that is
// rejected after it had emitted tokens is never settled, and counts nowhere.
func (c *Collector) settle(r *record) {
	line := &c.workers[r.worker]
	for i, n := range r.earlier {
		first, last := line.endsMs[n.pass], line.endsMs[n.last]
		switch {
		case n.index == 0:
			r.firstTokenMs = first
		case n.index == 1:
			r.secondTokenMs = first
		}
		if n.index == 0 && n.last > n.pass && math.IsNaN(r.secondTokenMs) {
			r.secondTokenMs = line.endsMs[n.pass+1]
		}
		c.zeroGaps += int64(n.extra)
		if i > 0 {
			c.gaps = append(c.gaps, weighted{value: gap(r.lastMs, first), weight: 1})
		}
		r.lastMs = last
		line.add(n)
	}
	r.earlier = nil
}

// add counts the gaps inside a run.
func (t *timeline) add(n run) {
	t.change[n.pass+1]++
	t.change[n.last+1]--
}

// gap is the time from one token to a later one; rounding must not make it negative.
func gap(fromMs, toMs float64) float64 { return max(toMs-fromMs, 0) }

// tokenGaps lists all inter-token latencies of the run.
func (c *Collector) tokenGaps() []weighted {
	passes := 0
	for i := range c.workers {
		passes += len(c.workers[i].endsMs)
	}
	all := make([]weighted, len(c.gaps), len(c.gaps)+passes+1)
	copy(all, c.gaps)
	if c.zeroGaps > 0 {
		all = append(all, weighted{value: 0, weight: c.zeroGaps})
	}
	for i := range c.workers {
		line := &c.workers[i]
		requests := int64(0)
		for p := 1; p < len(line.endsMs); p++ {
			requests += int64(line.change[p])
			if requests > 0 {
				all = append(all, weighted{value: gap(line.endsMs[p-1], line.endsMs[p]), weight: requests})
			}
		}
	}
	return all
}

// counts reports whether the metrics include the request: it was admitted and emitted at least one token. It need not
// have finished.
func (r *record) counts() bool {
	return r.status != Rejected && !math.IsNaN(r.firstAdmitMs) && !math.IsNaN(r.firstTokenMs)
}

// The latencies of a request that counts.
func (r *record) ttftMs() float64 { return gap(r.arrivalMs, r.firstTokenMs) }
func (r *record) e2eMs() float64  { return gap(r.arrivalMs, r.lastMs) }
func (r *record) ttstMs() float64 { return gap(r.firstTokenMs, r.secondTokenMs) }
func (r *record) tpotMs() float64 { return gap(r.firstTokenMs, r.lastMs) / float64(r.tokens-1) }
