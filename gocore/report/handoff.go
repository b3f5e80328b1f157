package report

import (
	"math"

	"dynosim/gocore/engine"
)

// Step is a point in the hand-off of a request from a prefill to a decode worker.
type Step uint8

// The steps, in the order in which they happen when the source comes first.
const (
	SourceHeld Step = iota
	DestinationReserved
	DestinationActivated
	SourceReleased
	numSteps
)

// handoff is the part of a record that only disaggregated runs have. Numbers are -1 and times NaN where something
// did not happen.
type handoff struct {
	worker                        int32 // that computes the prompt
	prefillOverlap, decodeOverlap int   // tokens that the routers took to be cached
	prefill, decode               stage
	stepMs                        [numSteps]float64
}

// stage is what the workers of one kind did with a request.
type stage struct {
	firstMs float64 // first admission
	reused  int     // tokens, the maximum over all admissions
}

func (s *stage) admit(ms float64, reused int) {
	if math.IsNaN(s.firstMs) {
		s.firstMs = ms
	}
	s.reused = max(s.reused, reused)
}

// NewDisaggCollector returns a collector for a run in which prompts and outputs are computed by different workers.
// Tokens come from decodeWorkers workers; the passes of prefill workers emit none that count.
func NewDisaggCollector(requests, decodeWorkers int) *Collector {
	c := NewCollector(requests, decodeWorkers)
	c.handoffs = make([]handoff, requests)
	nan := math.NaN()
	for i := range c.handoffs {
		c.handoffs[i] = handoff{
			worker: noWorker, prefillOverlap: -1, decodeOverlap: -1,
			prefill: stage{nan, -1}, decode: stage{nan, -1}, stepMs: [numSteps]float64{nan, nan, nan, nan},
		}
	}
	return c
}

// PrefillRoute records the worker chosen to compute the prompt, and how many of its tokens were taken to be cached
// there.
func (c *Collector) PrefillRoute(id engine.RequestID, worker, overlapTokens int) {
	h := &c.handoffs[id]
	h.worker, h.prefillOverlap = int32(worker), overlapTokens
}

// DecodeRoute records how many tokens were taken to be cached on the worker chosen to generate the output. The worker
// itself is recorded by Worker when it has accepted.
func (c *Collector) DecodeRoute(id engine.RequestID, overlapTokens int) {
	c.handoffs[id].decodeOverlap = overlapTokens
}

// PrefillPass records a pass of a prefill worker.
func (c *Collector) PrefillPass(worker int, p *engine.Pass) {
	c.attribution.prefillPass(worker, p)
	for _, a := range p.Admitted {
		c.records[a.ID].admit(p.StartMs, a.ReusedTokens)
		c.handoffs[a.ID].prefill.admit(p.StartMs, a.ReusedTokens)
		if c.prefillRanks != nil {
			c.prefillRanks[a.ID] = int32(a.Rank)
		}
	}
}

// Step records that a step of a hand-off happened at ms.
func (c *Collector) Step(id engine.RequestID, step Step, ms float64) {
	c.handoffs[id].stepMs[step] = ms
}

// ofHandoff returns a column of times that only disaggregated runs have.
func ofHandoff(of func(*handoff) float64) func(*Rows, int32, *record) float64 {
	return func(rows *Rows, turn int32, _ *record) float64 {
		if rows.c.handoffs == nil {
			return math.NaN()
		}
		return of(&rows.c.handoffs[turn])
	}
}

// ofHandoffInt returns a column of numbers that only disaggregated runs have.
func ofHandoffInt(of func(*handoff) int) func(*Rows, int32, *record) int {
	return func(rows *Rows, turn int32, _ *record) int {
		if rows.c.handoffs == nil {
			return -1
		}
		return of(&rows.c.handoffs[turn])
	}
}

// reusedInput returns what the prefill worker found in its cache, and without one the maximum over all admissions.
func reusedInput(rows *Rows, turn int32, r *record) int {
	if rows.c.handoffs != nil {
		if h := &rows.c.handoffs[turn]; h.prefill.reused >= 0 {
			return h.prefill.reused
		}
	}
	return r.reusedTokens
}
