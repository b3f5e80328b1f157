// Package emission works out how many tokens each request gets from a pass.
//
// A pass only says how the set of emitting requests changes: which requests join it and which have finished. A
// preempted one leaves without a word, so the number of tokens is too small. Then the engine is asked how many tokens
// each request has.
package emission

import "dynosim/gocore/engine"

// Request is a request of a shell, which owns its State.
type Request interface{ Emission() *State }

// State is what a Set knows of a request. A shell fills ID and Outputs in.
type State struct {
	ID      engine.RequestID
	Outputs int // tokens that the request will have in the end
	Emitted int // tokens so far
	place   int // in the set, from 1; 0 for a request that is not in it
}

// Share is the tokens that a request gets from a pass.
type Share[R Request] struct {
	Request R
	Tokens  int
}

// Set is the requests of one engine that emit tokens. The zero value is an empty one.
type Set[R Request] struct {
	emitting  []R
	generated map[engine.RequestID]int
	shares    []Share[R]
}

// Len returns the number of requests in the set.
func (s *Set[R]) Len() int { return len(s.emitting) }

// Book returns what each request gets from a pass, which must be the last one of the engine. find finds a request of
// the engine, states are those of the engine after the pass. Finished requests stay in the set until Drop. The result
// is valid until the next call.
func (s *Set[R]) Book(pass *engine.Pass, find func(engine.RequestID) R,
	states func() []engine.RequestState) []Share[R] {
	clear(s.shares)
	s.shares = s.shares[:0]
	if pass.Tokens == 0 {
		return nil
	}
	if len(pass.Singles) > 0 {
		for _, single := range pass.Singles {
			r := find(single.ID)
			s.Drop(r) // a request that lost its KV may still be in the set
			s.give(r, 1)
		}
		return s.shares
	}
	for _, run := range pass.Started {
		r := find(run.ID)
		if e := r.Emission(); e.place == 0 {
			s.emitting = append(s.emitting, r)
			e.place = len(s.emitting)
		}
	}
	extra := 0
	for _, b := range pass.Bursts {
		extra += b.Tokens - 1
	}
	if pass.Tokens == len(s.emitting)+extra {
		s.bookAll(pass, find)
	} else {
		s.bookEach(pass, find, states())
	}
	return s.shares
}

// bookAll gives each emitting request one token, and those with bursts more.
func (s *Set[R]) bookAll(pass *engine.Pass, find func(engine.RequestID) R) {
	for _, r := range s.emitting {
		s.give(r, 1)
	}
	for _, b := range pass.Bursts {
		s.give(find(b.ID), b.Tokens-1)
	}
}

// bookEach gives each request the tokens that it has according to the engine, and takes those that got none out of the
// set.
func (s *Set[R]) bookEach(pass *engine.Pass, find func(engine.RequestID) R, states []engine.RequestState) {
	if s.generated == nil {
		s.generated = map[engine.RequestID]int{}
	}
	clear(s.generated)
	for i := range states {
		s.generated[states[i].ID] = states[i].Generated
	}
	for _, id := range pass.Finished {
		s.generated[id] = find(id).Emission().Outputs
	}
	kept := s.emitting[:0]
	for _, r := range s.emitting {
		e := r.Emission()
		if n := s.generated[e.ID] - e.Emitted; n > 0 {
			s.give(r, n)
			kept = append(kept, r)
			e.place = len(kept)
		} else {
			e.place = 0
		}
	}
	clear(s.emitting[len(kept):])
	s.emitting = kept
}

func (s *Set[R]) give(r R, n int) {
	r.Emission().Emitted += n
	s.shares = append(s.shares, Share[R]{r, n})
}

// Drop takes a request that has left its engine out of the set.
func (s *Set[R]) Drop(r R) {
	e := r.Emission()
	if e.place == 0 {
		return
	}
	last := len(s.emitting) - 1
	moved := s.emitting[last]
	s.emitting[e.place-1] = moved
	moved.Emission().place = e.place
	var none R
	s.emitting[last] = none
	s.emitting = s.emitting[:last]
	e.place = 0
}
