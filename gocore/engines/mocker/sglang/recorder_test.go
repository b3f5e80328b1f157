package sglang

import (
	"fmt"

	"dynosim/gocore/engine"
)

// fate is what a user learns about one request.
type fate struct {
	AdmitMs  float64 // first admission
	Reused   []int   // at each admission
	TokenMs  []float64
	Finished bool
	Rejected string // why
}

func (o *fate) over() bool { return o.Finished || o.Rejected != "" }

// recorder follows passes and rebuilds from them, by the contract of engine.Pass alone, when every token was emitted.
type recorder struct {
	fates  []fate
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

func newRecorder(requests int) *recorder {
	return &recorder{fates: make([]fate, requests), runs: make([][]tokenRun, requests), bursts: map[burstPlace]int{}}
}

func (r *recorder) see(p *engine.Pass) error {
	if p.EndMs < p.StartMs {
		return fmt.Errorf("time goes back to %v", p.EndMs)
	}
	for _, a := range p.Admitted {
		o := &r.fates[a.ID]
		if o.over() {
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
		if r.fates[id].over() {
			return fmt.Errorf("request %d ends twice", id)
		}
		r.fates[id].Finished = true
		if err := r.noteTokens(id); err != nil {
			return err
		}
	}
	for _, rejected := range p.Rejected {
		if r.fates[rejected.ID].over() {
			return fmt.Errorf("request %d ends twice", rejected.ID)
		}
		r.fates[rejected.ID].Rejected = rejected.Reason
	}
	return nil
}

// noteTokens lays the runs of a request that finishes in the last emitting pass end to end.
func (r *recorder) noteTokens(id engine.RequestID) error {
	runs := r.runs[id]
	if len(runs) == 0 || runs[0].index != 0 {
		return fmt.Errorf("request %d finishes, its runs are %v", id, runs)
	}
	o := &r.fates[id]
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

// unclaimed is an error if a pass emitted other tokens than those of the finished requests; right when no request was
// rejected after its first token.
func (r *recorder) unclaimed() error {
	for pass, left := range r.tokens {
		if left != 0 {
			return fmt.Errorf("emitting pass %d has %d tokens that no request got", pass, left)
		}
	}
	return nil
}

// copyPass returns a pass that stays as it is, without what only an observed engine reports; empty slices are nil.
func copyPass(p *engine.Pass) engine.Pass {
	c := *p
	c.KVEvents, c.KVEventsAtMs, c.Signals = nil, 0, nil
	c.Admitted, c.Started, c.Finished, c.Rejected = copyOf(c.Admitted), copyOf(c.Started), copyOf(c.Finished), copyOf(c.Rejected)
	c.Bursts, c.Held = copyOf(c.Bursts), copyOf(c.Held)
	return c
}

// copyOf returns nil for every empty slice.
func copyOf[T any](s []T) []T { return append([]T(nil), s...) }
