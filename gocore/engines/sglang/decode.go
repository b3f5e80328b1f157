package sglang

import (
	"cmp"
	"slices"
)

// composeDecode gives every running request one token, but those whose last one is in flight: they stop running. If
// pages are short, requests are retracted; while a last token is in flight, no batch is composed instead, as that
// request is about to give its pages back.
func (s *Scheduler) composeDecode(b *batch) {
	if s.stepwise {
		s.recount()
	}
	if s.roll.ending == len(s.running) {
		return
	}
	switch {
	case s.pool.MakeRoom(s.opening()):
		s.ratio.decay()
	case s.roll.ending > 0:
		return
	default:
		s.retract(b)
		// Copies to the host lock what the last request needs, or window parts of long nodes that it sees the end of.
		if (s.pool.Tiered() || s.pool.Windowed()) && !s.pool.MakeRoom(s.opening()) {
			b.stuck = true
			return
		}
	}
	s.stopEnding()
	s.moveWindows()
	s.giveTokens(b)
}

// mixIn lets the running requests get a token from a prefill batch, if mixed chunks are asked for and there are pages
// for all of them; otherwise they sit it out.
func (s *Scheduler) mixIn(b *batch) {
	if !s.rules.MixedChunk || len(s.running) == 0 {
		return
	}
	if s.stepwise {
		s.recount()
	}
	s.stopEnding()
	if len(s.running) == 0 || !s.pool.MakeRoom(s.opening()) {
		return
	}
	s.giveTokens(b)
	s.mixed = true
}

// giveTokens gives every running request a token. The pages that these tokens open must be free.
func (s *Scheduler) giveTokens(b *batch) {
	s.pool.MakeRoom(len(s.running) * s.pageSize)
	s.pool.Take(s.opening())
	s.decodeOnce(b)
}

// stopEnding stops the requests whose last token is in flight.
func (s *Scheduler) stopEnding() {
	if s.roll.ending == 0 {
		return
	}
	s.full = false
	s.running = slices.DeleteFunc(s.running, func(r *sequence) bool {
		if r.ending {
			s.stop(r)
			r.listed = false
			return true
		}
		return false
	})
}

// perSurvivor is how many tokens are kept free, after a retraction, for each request that goes on.
const perSurvivor = 20

// retract takes the pages of requests of the batch, at least of one, until the others can go on: the request with the
// fewest tokens first, among equals the one with the longest prompt, then the last of the batch.
func (s *Scheduler) retract(b *batch) {
	slices.SortStableFunc(s.running, func(x, y *sequence) int {
		return cmp.Or(s.generated(y)-s.generated(x), x.promptTokens-y.promptTokens)
	})
	for len(s.running) > 1 && (b.retracted == 0 || !s.pool.MakeRoom(s.opening())) {
		last := len(s.running) - 1
		s.retractOne(b, s.running[last])
		s.running = s.running[:last]
		b.retracted++
		s.pool.MakeRoom(perSurvivor * last)
	}
	if b.retracted > 0 {
		s.full = false
	}
	s.expect()
}

// retractOne puts a request at the end of the waiting queue. Its tokens stay, but for one that is in flight, which it
// will have to make again.
func (s *Scheduler) retractOne(b *batch, r *sequence) {
	if f := s.flying; f.takesPart(r) {
		f.without(r)
	}
	s.detach(r)
	s.stop(r)
	s.pool.Close(&r.lease)
	s.rows--
	r.status, r.computed, r.scheduled = retracted, 0, r.generated
	r.listed = false
	s.waiting.PushBack(r)
	s.out.Preempted++
	if s.parts != nil {
		b.lost = append(b.lost, r.id)
	}
}

// expect sets the new-token ratio after a retraction.
func (s *Scheduler) expect() {
	have, want := perSurvivor*len(s.running), 1
	for _, r := range s.running {
		have += s.generated(r)
		want += r.maxOutput
	}
	s.ratio.value = min(1, float64(have)/float64(want))
}

// newTokenRatio is the part of their future output that running requests are expected to generate before one of them
// ends. It starts pessimistic, decays batch by batch, and jumps when a retraction has shown that it was too low.
type newTokenRatio struct {
	value, initial, lowest, step float64
}

func newRatio(conservativeness float64) newTokenRatio {
	initial := min(0.7*conservativeness, 1)
	lowest := initial * 0.14
	return newTokenRatio{value: initial, initial: initial, lowest: lowest, step: (initial - lowest) / 600}
}

func (n *newTokenRatio) decay() { n.value = max(n.value-n.step, n.lowest) }

// moveWindows lets running requests give up what has left their windows, but not right after their prefill: with
// overlapping batches their prompts have not entered the tree yet.
func (s *Scheduler) moveWindows() {
	if !s.pool.Windowed() {
		return
	}
	for _, r := range s.running {
		if r.computed > r.entered {
			s.pool.Pass(&r.lease, r.computed)
		}
	}
}
