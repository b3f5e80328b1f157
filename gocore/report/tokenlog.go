package report

import (
	"math"

	"dynosim/gocore/engine"
)

// Which tokens clients got when, for the series over time of a run with faults. There a client may get tokens long
// after a worker has emitted them, or never, and may have to throw away those that it got; so a series cannot count
// them as they are emitted.

// Tokens are tokens that clients got at one instant from one worker.
type Tokens struct {
	Worker int
	AtMs   float64
	N      int64
	GapMs  float64 // since the token before each of them, NaN for first tokens
	TTFTMs float64 // since the arrival of the request, NaN for other tokens
	Lost   bool    // clients could not use them
}

// tokenLog is what a collector keeps for Tokens. A nil one keeps nothing.
type tokenLog struct {
	pieces map[engine.RequestID][]piece // of the try of its client that goes on, in order
	lost   []piece                      // of tries that have failed
}

// piece is tokens of a request that follow each other.
type piece struct {
	placedRun
	kind   pieceKind
	atMs   float64 // when they came, unless it is a run
	tokens int64   // of a burst
}

type pieceKind uint8

const (
	ofRun    pieceKind = iota
	ofSingle           // one token that came by itself
	ofBurst            // tokens that came beside one of a run
)

// LogTokens makes the collector keep what Tokens needs.
func (c *Collector) LogTokens() { c.tokens = &tokenLog{pieces: map[engine.RequestID][]piece{}} }

// runs keeps the runs of a request that are about to be counted or forgotten.
func (l *tokenLog) runs(id engine.RequestID, earlier []placedRun, r *record) {
	if l == nil {
		return
	}
	for _, n := range earlier {
		l.pieces[id] = append(l.pieces[id], piece{placedRun: n})
	}
	if r.state != noRun {
		l.pieces[id] = append(l.pieces[id], piece{placedRun: placedRun{r.run, r.worker}})
	}
}

// single keeps a token that came by itself.
func (l *tokenLog) single(t engine.TokenRun, worker int32, ms float64) {
	if l != nil {
		l.pieces[t.ID] = append(l.pieces[t.ID],
			piece{kind: ofSingle, placedRun: placedRun{run{index: int32(t.Index)}, worker}, atMs: ms})
	}
}

// burst keeps tokens that came beside one of a run.
func (l *tokenLog) burst(id engine.RequestID, tokens int, worker int32, ms float64) {
	if l != nil {
		l.pieces[id] = append(l.pieces[id],
			piece{kind: ofBurst, placedRun: placedRun{worker: worker}, atMs: ms, tokens: int64(tokens)})
	}
}

// loses notes that all tokens of a request are lost.
func (l *tokenLog) loses(id engine.RequestID) {
	if l != nil {
		l.lost = append(l.lost, l.pieces[id]...)
		delete(l.pieces, id)
	}
}

// Tokens tells of all tokens that clients got from requests that count, and of those that were lost. The run must have
// ended.
func (c *Collector) Tokens(tell func(Tokens)) {
	passes := make([]passTokens, len(c.workers))
	for i := range c.records {
		if r := &c.records[i]; r.counts() {
			c.tellRequest(r, c.tokens.pieces[engine.RequestID(i)], passes, tell)
		}
	}
	for _, p := range c.tokens.lost {
		if p.kind == ofRun {
			passes[p.worker].lost.add(p.pass, p.last)
		} else {
			tell(Tokens{Worker: int(p.worker), AtMs: p.atMs, N: max(1, p.tokens), GapMs: math.NaN(), TTFTMs: math.NaN(),
				Lost: true})
		}
	}
	for i := range passes {
		passes[i].tell(i, &c.workers[i], tell)
	}
}

// tellRequest tells of the first token of each run of a request, and of tokens beside runs. The other tokens are left
// to the passes.
func (c *Collector) tellRequest(r *record, pieces []piece, passes []passTokens, tell func(Tokens)) {
	nan := math.NaN()
	lastMs := nan
	for _, p := range pieces {
		if p.kind == ofBurst {
			tell(Tokens{Worker: int(p.worker), AtMs: p.atMs, N: p.tokens, GapMs: 0, TTFTMs: nan})
			continue
		}
		first, endMs := p.atMs, p.atMs
		if line := &c.workers[p.worker]; p.kind == ofRun {
			first, endMs = line.endMs(p.pass), line.endMs(p.last)
			passes[p.worker].gaps.add(p.pass+1, p.last)
		}
		event := Tokens{Worker: int(p.worker), AtMs: first, N: 1, GapMs: nan, TTFTMs: nan}
		if p.index == 0 {
			event.TTFTMs = gap(r.arrivalMs, first)
		} else {
			event.GapMs = gap(lastMs, first)
		}
		lastMs = endMs
		tell(event)
	}
}

// passTokens counts the tokens of the passes of a worker.
type passTokens struct{ gaps, lost changes }

// changes is by how much a number differs from that of the pass before.
type changes []int32

// add counts one more from one pass to another, both included.
func (c *changes) add(from, to int32) {
	if to < from {
		return
	}
	for int(to)+1 >= len(*c) {
		*c = append(*c, make([]int32, len(*c)+64)...)
	}
	(*c)[from]++
	(*c)[to+1]--
}

func (c changes) at(pass int) int64 {
	if pass < len(c) {
		return int64(c[pass])
	}
	return 0
}

// tell tells of the tokens of all passes of a worker.
func (p *passTokens) tell(worker int, line *timeline, tell func(Tokens)) {
	nan := math.NaN()
	gaps, lost, beforeMs := int64(0), int64(0), 0.0
	for pass := range line.passes {
		gaps += p.gaps.at(pass)
		lost += p.lost.at(pass)
		atMs := line.endMs(int32(pass))
		if gaps > 0 {
			tell(Tokens{Worker: worker, AtMs: atMs, N: gaps, GapMs: gap(beforeMs, atMs), TTFTMs: nan})
		}
		if lost > 0 {
			tell(Tokens{Worker: worker, AtMs: atMs, N: lost, GapMs: nan, TTFTMs: nan, Lost: true})
		}
		beforeMs = atMs
	}
}
