package report

import (
	"math"

	"dynosim/gocore/engine"
)

// cut ends the time of a request that has tokens left to emit at its last token, which the worker emitted in the
// emitting pass last. What it spent since then is taken back.
func (a *attribution) cut(id engine.RequestID, r *record, worker int) {
	if a == nil || a.attempts != nil {
		return
	}
	if q, emitted := a.atLastToken(id, r, worker); emitted {
		a.requests[id] = q
	}
}

// atLastToken returns what a request that has tokens left to emit had spent when it emitted its last one. It reports
// false if it has emitted none, or all.
func (a *attribution) atLastToken(id engine.RequestID, r *record, worker int) (spent, bool) {
	q := a.requests[id]
	if q.state == ended || !q.decoded {
		return q, false
	}
	if before, lost := a.atLoss[id]; lost && q.state != decoding {
		q = before
	}
	if r.run.last == byItself {
		q.takesPart(a.atSingle[id])
	} else {
		q.takesPart(a.workers[worker].log[r.run.last])
	}
	for i, ms := range q.parts {
		q.parts[i] = max(0, ms)
	}
	q.state = ended
	return q, true
}

// divide fits the parts of a request that counts to its latencies.
func (a *attribution) divide(id engine.RequestID, ttftMs, e2eMs float64) {
	q := &a.requests[id]
	q.ttftMs, q.e2eMs = ttftMs, e2eMs
	q.first.fit(ttftMs)
	q.parts.fit(e2eMs)
}

// fit makes the parts add up to the whole. Both are differences and sums of rounded times, so they may differ in the
// last digits; the largest part takes the difference.
func (s *shares) fit(wholeMs float64) {
	const rounds = 3
	for range rounds {
		rest := wholeMs - s.sum()
		if math.Abs(rest) <= wholeMs*0x1p-52 {
			return
		}
		largest := 0
		for i, ms := range s {
			if ms > s[largest] {
				largest = i
			}
		}
		s[largest] = max(0, s[largest]+rest)
	}
}

func (s *shares) sum() float64 {
	sum := 0.0
	for _, ms := range s {
		sum += ms
	}
	return sum
}

// divideAll divides the latencies of all requests that count. The run must have ended.
func (c *Collector) divideAll() {
	a := c.attribution
	if a == nil || c.passing != nil { // divided when each was over
		return
	}
	for i := range c.records {
		if r := &c.records[i]; r.counts() {
			a.divide(engine.RequestID(i), r.ttftMs(), r.e2eMs())
		}
	}
}

// Undivided returns the most by which the parts of a latency differ from it before they are fitted to it, relative to
// the time of the last token: what rounding leaves. It must be asked for before Summarise and Rows.
func (c *Collector) Undivided() float64 {
	worst := 0.0
	for i := range c.records {
		r := &c.records[i]
		if !r.counts() {
			continue
		}
		q := &c.attribution.requests[i]
		worst = max(worst, math.Abs(r.ttftMs()-q.first.sum())/max(1, r.lastMs),
			math.Abs(r.e2eMs()-q.parts.sum())/max(1, r.lastMs))
	}
	return worst
}
