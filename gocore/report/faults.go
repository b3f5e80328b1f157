package report

import (
	"math"
	"slices"

	"dynosim/gocore/engine"
)

// What a collector records besides in a run with faults, where a request may be begun several times on several workers.

// Trials is how often a request was begun, and why.
type Trials struct {
	Attempts         int // how often it was given to the deployment
	Migrations       int // of these, to go on elsewhere with the tokens that it had
	Retries          int // of these, because its client began anew
	Hedges           int // of these, beside another one
	RecomputedTokens int // tokens that later attempts computed although an earlier one had
	LostTokens       int // tokens of the output that the client got and threw away
	LostMs           float64
}

// KeepTrials makes rows show trials, which the caller fills in.
func (c *Collector) KeepTrials(trials []Trials) { c.trials = trials }

// AllTrials returns those of KeepTrials.
func (c *Collector) AllTrials() []Trials { return c.trials }

// trialColumns are columns of rows of a run with faults.
var trialColumns = []column{
	{name: "attempts", doc: "How often it was given to the deployment.",
		int: ofTrials(func(t *Trials) int { return t.Attempts })},
	{name: "migrations", doc: "How often it went on elsewhere because its worker was lost.",
		int: ofTrials(func(t *Trials) int { return t.Migrations })},
	{name: "retries", doc: "How often its client began anew.",
		int: ofTrials(func(t *Trials) int { return t.Retries })},
	{name: "hedges", doc: "How often it was sent beside an attempt that had no token yet.",
		int: ofTrials(func(t *Trials) int { return t.Hedges })},
	{name: "recomputed_tokens", doc: "Tokens that later attempts computed although the first one that was admitted " +
		"had them to compute, too.",
		int: ofTrials(func(t *Trials) int { return t.RecomputedTokens })},
	{name: "lost_output_tokens", doc: "Tokens that its client got and could not use.",
		int: ofTrials(func(t *Trials) int { return t.LostTokens })},
	{name: "lost_ms", doc: "Time of attempts that failed, from when they were sent, and of pauses before a client " +
		"began anew.",
		float: func(rows *Rows, turn int32, _ *record) float64 { return rows.c.trials[turn].LostMs }},
	{name: "failure_reason", doc: "Why it failed, if that was for a fault or a time-out.",
		text: func(rows *Rows, turn int32, _ *record) string { return rows.failures[engine.RequestID(turn)] }},
}

func ofTrials(of func(*Trials) int) func(*Rows, int32, *record) int {
	return func(rows *Rows, turn int32, _ *record) int { return of(&rows.c.trials[turn]) }
}

// Emitted returns the number of tokens that a request has emitted at the end of the last pass of its worker on record,
// if it got one in each pass of its run. It emits more if that goes on.
func (c *Collector) Emitted(id engine.RequestID) (tokens int, goesOn bool) {
	r := c.record(id)
	if r.state != openRun {
		return int(r.tokens), false
	}
	return int(r.emitted(int32(c.workers[r.worker].passes - 1))), true
}

// Interrupt ends the run of a request that has emitted tokens tokens. It may go on with the next one on another worker.
func (c *Collector) Interrupt(id engine.RequestID, tokens int) {
	r := c.record(id)
	r.close(int32(tokens))
	if r.state == closedRun {
		c.earlier[id] = append(c.earlier[id], placedRun{r.run, r.worker})
		r.state = noRun
	}
}

// Again forgets the tokens of a request, which has emitted tokens and begins anew.
func (c *Collector) Again(id engine.RequestID, tokens int) {
	r := c.record(id)
	r.close(int32(tokens))
	c.tokens.runs(id, c.earlier[id], r)
	c.tokens.loses(id)
	delete(c.earlier, id)
	if a := c.attribution; a != nil {
		delete(a.attempts.broken, id)
	}
	r.state, r.tokens = noRun, 0
	r.firstTokenMs, r.secondTokenMs, r.lastMs = math.NaN(), math.NaN(), math.NaN()
}

// Lost lists the requests that failed for a fault or a time-out, and why, in the order in which they did.
func (c *Collector) Lost() []engine.Rejection { return c.lost }

// GoodMs returns the times, ascending, at which requests completed within a service level; with none, all that
// completed.
func (c *Collector) GoodMs(sla SLA) []float64 {
	var times []float64
	for i := range c.records {
		if r := &c.records[i]; r.status == Completed && r.counts() && sla.met(r) {
			times = append(times, r.lastMs)
		}
	}
	slices.Sort(times)
	return times
}
