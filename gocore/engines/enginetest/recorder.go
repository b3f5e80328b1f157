package enginetest

import (
	"fmt"
	"slices"

	"dynosim/gocore/engine"
)

// Fate is what a user learns about one request.
type Fate struct {
	AdmitMs  float64 // first admission
	Reused   []int   // prompt tokens, at each admission
	TokenMs  []float64
	Finished bool
	Rejected string // why
}

// Over reports whether the request has finished or was rejected.
func (o *Fate) Over() bool { return o.Finished || o.Rejected != "" }

// MaxReused returns the most prompt tokens that an admission has reused.
func (o *Fate) MaxReused() int { return slices.Max(append([]int{0}, o.Reused...)) }

// Recorder follows passes and rebuilds from them, by the contract of engine.Pass alone, when every token was emitted.
type Recorder struct {
	Fates  []Fate
	runs   [][]tokenRun // by request
	endMs  []float64    // of the emitting passes
	tokens []int        // of the emitting passes, those that no finished request has claimed
	bursts map[burstPlace]int
}

type burstPlace struct {
	id   engine.RequestID
	pass int
}

type tokenRun struct {
	index int // of its first token
	pass  int // emitting pass of its first token
}

// NewRecorder returns a recorder that has seen no pass.
func NewRecorder(requests int) *Recorder {
	return &Recorder{Fates: make([]Fate, requests), runs: make([][]tokenRun, requests), bursts: map[burstPlace]int{}}
}

// See records a pass. It returns what is wrong with it.
func (r *Recorder) See(p *engine.Pass) error {
	if p.EndMs < p.StartMs {
		return fmt.Errorf("time goes back to %v", p.EndMs)
	}
	for _, a := range p.Admitted {
		o := &r.Fates[a.ID]
		if o.Over() {
			return fmt.Errorf("request %d is admitted after its end", a.ID)
		}
		if o.Reused == nil {
			o.AdmitMs = p.StartMs
		}
		o.Reused = append(o.Reused, a.ReusedTokens)
	}
	for _, run := range p.Started {
		r.runs[run.ID] = append(r.runs[run.ID], tokenRun{index: run.Index, pass: len(r.endMs)})
	}
	for _, b := range p.Bursts {
		place := burstPlace{b.ID, len(r.endMs)}
		if b.Tokens < 2 || r.bursts[place] > 0 {
			return fmt.Errorf("bursts %v", p.Bursts)
		}
		r.bursts[place] = b.Tokens
	}
	if p.Tokens > 0 {
		r.endMs = append(r.endMs, p.EndMs)
		r.tokens = append(r.tokens, p.Tokens)
	} else if len(p.Started)+len(p.Bursts)+len(p.Finished) > 0 {
		return fmt.Errorf("started %v, bursts %v and finished %v without a token", p.Started, p.Bursts, p.Finished)
	}
	for _, id := range p.Finished {
		if r.Fates[id].Over() {
			return fmt.Errorf("request %d ends twice", id)
		}
		r.Fates[id].Finished = true
		if err := r.noteTokens(id); err != nil {
			return err
		}
	}
	for _, rejected := range p.Rejected {
		if r.Fates[rejected.ID].Over() {
			return fmt.Errorf("request %d ends twice", rejected.ID)
		}
		r.Fates[rejected.ID].Rejected = rejected.Reason
	}
	return nil
}

// Emitted reports whether a request had a token, even one that was rejected.
func (r *Recorder) Emitted(request int) bool { return len(r.runs[request]) > 0 }

// noteTokens lays the runs of a request that finishes in the last emitting pass end to end.
func (r *Recorder) noteTokens(id engine.RequestID) error {
	runs := r.runs[id]
	if len(runs) == 0 || runs[0].index != 0 {
		return fmt.Errorf("request %d finishes, its runs are %v", id, runs)
	}
	o := &r.Fates[id]
	for i, run := range runs {
		end, last := len(r.endMs), i+1 == len(runs)
		if !last {
			end = runs[i+1].pass
		}
		for pass := run.pass; pass < end && (last || len(o.TokenMs) < runs[i+1].index); pass++ {
			for range max(1, r.bursts[burstPlace{id, pass}]) {
				o.TokenMs = append(o.TokenMs, r.endMs[pass])
				r.tokens[pass]--
			}
		}
		if !last && len(o.TokenMs) != runs[i+1].index || last && len(o.TokenMs) <= run.index {
			return fmt.Errorf("request %d: runs %v do not fit together", id, runs)
		}
	}
	return nil
}

// Unclaimed returns an error if a pass emitted other tokens than those of the finished requests; right when no request
// was rejected after its first token.
func (r *Recorder) Unclaimed() error {
	for pass, left := range r.tokens {
		if left != 0 {
			return fmt.Errorf("emitting pass %d has %d tokens that no request got", pass, left)
		}
	}
	return nil
}

// CopyPass returns a pass that stays as it is, without what only an observed engine reports; empty slices are nil.
func CopyPass(p *engine.Pass) engine.Pass {
	c := *p
	c.KVEvents, c.KVEventsAtMs, c.Signals = nil, 0, nil
	c.Admitted, c.Started, c.Finished, c.Rejected = CopyOf(c.Admitted), CopyOf(c.Started), CopyOf(c.Finished),
		CopyOf(c.Rejected)
	c.Bursts, c.Held = CopyOf(c.Bursts), CopyOf(c.Held)
	return c
}

// CopyOf returns nil for every empty slice.
func CopyOf[T any](s []T) []T { return append([]T(nil), s...) }
