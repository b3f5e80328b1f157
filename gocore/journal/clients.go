package journal

import (
	"math"

	"dynosim/gocore/engine"
)

// What the series of a run with faults have besides: what became of requests, which workers work, and tokens as clients
// got them, which is not when workers emit them.

// KeepsSeries reports whether series are kept.
func (j *Journal) KeepsSeries() bool { return j != nil && j.cfg.Series }

// Tokens are tokens that clients got at one instant.
type Tokens struct {
	AtMs   float64
	N      int64
	GapMs  float64 // since the token before each of them, NaN for first tokens
	TTFTMs float64 // since the request was sent, NaN for other tokens
	Lost   bool    // clients could not use them
}

// Got records tokens that worker i has emitted, in any order.
func (j *Journal) Got(r engine.Role, i int, t Tokens) {
	in := j.worker(r, i).series.at(t.AtMs)
	if t.Lost {
		in.lostTokens += t.N
		return
	}
	in.tokens += t.N
	if !math.IsNaN(t.GapMs) {
		in.itl.add(t.GapMs, t.N)
	}
	if !math.IsNaN(t.TTFTMs) {
		in.ttftMs = append(in.ttftMs, t.TTFTMs)
	}
}

// Failed records a request that has failed for good.
func (j *Journal) Failed(ms float64) {
	if j.KeepsSeries() {
		j.nowMs = max(j.nowMs, ms)
		j.totals.at(ms).failures++
	}
}

// Migrated records a request that goes on at another worker.
func (j *Journal) Migrated(ms float64) {
	if j.KeepsSeries() {
		j.nowMs = max(j.nowMs, ms)
		j.totals.at(ms).migrations++
	}
}

// Retried records a request that its client begins anew.
func (j *Journal) Retried(ms float64) {
	if j.KeepsSeries() {
		j.nowMs = max(j.nowMs, ms)
		j.totals.at(ms).retries++
	}
}

// Recomputes records tokens that worker i has to compute although another one had computed them.
func (j *Journal) Recomputes(r engine.Role, i, tokens int, ms float64) {
	if j.KeepsSeries() {
		j.worker(r, i).series.at(ms).recomputedTokens += int64(tokens)
	}
}

// stint is a time in which a worker works.
type stint struct {
	role         engine.Role
	number       int
	fromMs, toMs float64 // +Inf while it lasts
}

// Works records that a worker begins or ends to work: whether it has started, can be reached and does not stand still.
func (j *Journal) Works(r engine.Role, number int, works bool, ms float64) {
	if !j.KeepsSeries() {
		return
	}
	open := -1
	for i := range j.stints {
		if s := &j.stints[i]; s.role == r && s.number == number && math.IsInf(s.toMs, 1) {
			open = i
		}
	}
	switch {
	case works && open < 0:
		j.stints = append(j.stints, stint{r, number, ms, math.Inf(1)})
	case !works && open >= 0:
		j.stints[open].toMs = ms
	}
}

// integrateStints adds the times in which workers worked to the series. A worker that was never heard of has none of
// its own.
func (j *Journal) integrateStints() {
	for _, s := range j.stints {
		all := []*series{j.totals}
		if w := j.known(s.role, s.number); w != nil {
			all = append(all, w.series)
		}
		for _, in := range all {
			in.over(s.fromMs, min(s.toMs, j.nowMs), func(in *window, partMs, _, _ float64) { in.worksMs += partMs })
		}
	}
}
