package sglangsrt

import (
	"cmp"
	"slices"
)

// composeDecode gives every running request one token, but those whose last one is in flight: they stop running. If pages
// are short, requests are retracted; while a last token is in flight, no batch is composed instead, as that request is about
// to give its pages back.
func (s *Scheduler) composeDecode(b *batch) {
	opening := 0
	for _, r := range s.running {
		if r.ends() {
			continue
		}
		b.decodes = append(b.decodes, r)
		if r.computed%s.pageSize == 0 {
			opening++
		}
	}
	if len(b.decodes) == 0 {
		return
	}
	switch {
	case s.pool.MakeRoom(opening * s.pageSize):
		s.ratio.decay()
	case len(b.decodes) < len(s.running):
		b.decodes = b.decodes[:0]
		return
	default:
		s.retract(b)
	}
	s.runOnly(b.decodes)
	s.pool.MakeRoom(len(s.running) * s.pageSize)
	for _, r := range s.running {
		if r.computed%s.pageSize == 0 {
			s.pool.Grow(&r.lease, r.computed+1)
		}
		r.computed++
		r.scheduled++
		b.context += r.computed
	}
}

// runOnly lets some of the running requests stop running.
func (s *Scheduler) runOnly(others []*sequence) {
	if len(others) < len(s.running) {
		s.full = false
		for _, r := range s.running {
			r.listed = false
		}
		for _, r := range others {
			r.listed = true
		}
	}
	s.running = append(s.running[:0], others...)
}

// perSurvivor is how many tokens are kept free, after a retraction, for each request that goes on.
const perSurvivor = 20

// retract takes the pages of requests of the batch, at least of one, until the others can go on: the request with the fewest
// tokens first, among equals the one with the longest prompt, then the last of the batch.
func (s *Scheduler) retract(b *batch) {
	slices.SortStableFunc(b.decodes, func(x, y *sequence) int {
		return cmp.Or(y.generated-x.generated, x.promptTokens-y.promptTokens)
	})
	for len(b.decodes) > 1 && (b.retracted == 0 || !s.pool.MakeRoom(s.opening(b.decodes))) {
		last := len(b.decodes) - 1
		s.retractOne(b, b.decodes[last])
		b.decodes = b.decodes[:last]
		b.retracted++
		s.pool.MakeRoom(perSurvivor * last)
	}
	s.ratio.expect(b.decodes)
}

// opening is the number of slots of the pages that the next tokens of requests open.
func (s *Scheduler) opening(requests []*sequence) (slots int) {
	for _, r := range requests {
		if r.computed%s.pageSize == 0 {
			slots += s.pageSize
		}
	}
	return slots
}

// retractOne puts a request at the end of the waiting queue. Its tokens stay, but for one that is in flight, which it will
// have to make again.
func (s *Scheduler) retractOne(b *batch, r *sequence) {
	s.pool.Close(&r.lease)
	s.rows--
	r.status, r.computed, r.scheduled = retracted, 0, r.generated
	s.waiting.PushBack(r)
	s.out.Preempted++
	if s.parts != nil {
		b.lost = append(b.lost, r.id)
	}
}

// newTokenRatio is the part of their future output that running requests are expected to generate before one of them ends.
// It starts pessimistic, decays batch by batch, and jumps when a retraction has shown that it was too low.
type newTokenRatio struct {
	value, initial, lowest, step float64
}

func newRatio(conservativeness float64) newTokenRatio {
	initial := min(0.7*conservativeness, 1)
	lowest := initial * 0.14
	return newTokenRatio{value: initial, initial: initial, lowest: lowest, step: (initial - lowest) / 600}
}

func (n *newTokenRatio) decay() { n.value = max(n.value-n.step, n.lowest) }

// expect sets the ratio after a retraction: survivors will need what they have generated so far, and a little more.
func (n *newTokenRatio) expect(survivors []*sequence) {
	have, want := perSurvivor*len(survivors), 1
	for _, r := range survivors {
		have += r.generated
		want += r.maxOutput
	}
	n.value = min(1, float64(have)/float64(want))
}
