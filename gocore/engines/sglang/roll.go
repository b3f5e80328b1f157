package sglang

import (
	"math"
	"slices"
)

// roll counts the requests that decode, so that a decode costs the same however many they are. Each decode gives all of
// them one token; only one in which a request joins or gets its last token has to look at any:
//
//	decode         7     8     9    10    11    12
//	looked at      A     -     A,B   -     -     C       A joins with decode 7 and gets its last token from decode 9
//	on the roll    3     3     3     2     2     2       when the decode has been composed, B joined
//
// A running request is on the roll until its last token is in flight; from then on it is ending, until it stops
// running. The counters of a request on the roll stand still; its place says since when, and catchUp brings them up to
// date.
type roll struct {
	context int         // computed tokens
	phases  []int       // requests by place.phase
	fresh   []*sequence // those that have not been in a decode
	nextEnd int         // no request gets its last token from an earlier decode
	ending  int         // running requests that are off the roll again
	owed    int         // what running requests, those that are ending included, are still going to get
	long    int         // of these requests, those that may owe more than counts, see clipped
}

// place is the place of a request on the roll. Numbers are those of decodes, see Scheduler.composed.
type place struct {
	on       bool
	composed int // the last one that the counters include as composed
	given    int // the last one that they include as delivered; at first, the last one without the request
	end      int // the one that gives the last token
	phase    int // the request opens a page in each one that follows a multiple of the page size plus phase
}

func newRoll(pageSize int) roll { return roll{phases: make([]int, pageSize), nextEnd: math.MaxInt} }

// join makes r, whose prompt is computed, a running request.
func (s *Scheduler) join(r *sequence) {
	s.running = append(s.running, r)
	r.place, r.runs, r.entered = place{}, true, r.computed
	s.countOwed(r, +1)
	if r.scheduled == r.maxOutput {
		r.ending = true
		s.roll.ending++
		return
	}
	r.place.given = s.composed
	s.enter(r)
	s.roll.fresh = append(s.roll.fresh, r)
}

// enter counts r, whose counters are up to date.
func (s *Scheduler) enter(r *sequence) {
	p := &r.place
	p.on, p.composed, p.end = true, s.composed, s.composed+r.maxOutput-r.scheduled
	if p.phase = (s.composed - r.computed) % s.pageSize; p.phase < 0 {
		p.phase += s.pageSize
	}
	s.roll.context += r.computed
	s.roll.phases[p.phase]++
	s.roll.nextEnd = min(s.roll.nextEnd, p.end)
}

// leaveRoll undoes enter. The tokens that r still gets go on to count.
func (s *Scheduler) leaveRoll(r *sequence) {
	s.catchUp(r)
	r.place.on = false
	s.roll.context -= r.computed
	s.roll.phases[r.place.phase]--
}

// detach takes r off the roll: it is to get no more tokens from batches composed so far.
func (s *Scheduler) detach(r *sequence) {
	s.catchUp(r)
	if r.place.on {
		s.leaveRoll(r)
		s.roll.fresh = without(s.roll.fresh, r)
	}
	r.place = place{}
}

// stop notes that r is about to leave the running requests, if it is one.
func (s *Scheduler) stop(r *sequence) {
	if r.runs {
		r.runs = false
		s.countOwed(r, -1)
	}
	if r.ending {
		r.ending = false
		s.roll.ending--
	}
}

// countOwed counts what r owes in or out.
func (s *Scheduler) countOwed(r *sequence, sign int) {
	s.roll.owed += sign * (r.maxOutput - s.generated(r))
	if r.maxOutput > s.rules.ClipMaxNewTokens {
		s.roll.long += sign
	}
}

// opening returns the number of slots of the pages that the next decode opens.
func (s *Scheduler) opening() int { return s.roll.phases[s.composed%s.pageSize] * s.pageSize }

// decodeOnce makes b give all running requests one token. Pages have been taken.
func (s *Scheduler) decodeOnce(b *batch) {
	t := &s.roll
	s.composed++
	t.context += len(s.running)
	b.number, b.decodes, b.tokens, b.context = s.composed, len(s.running), len(s.running), t.context
	b.fresh = append(b.fresh, t.fresh...)
	t.fresh = t.fresh[:0]
	s.takeEnds(b)
}

// takeEnds takes off the roll the requests to which b, composed last, gives their last token.
func (s *Scheduler) takeEnds(b *batch) {
	t := &s.roll
	if s.composed < t.nextEnd {
		return
	}
	t.nextEnd = math.MaxInt
	for _, r := range s.running {
		if r.place.end > s.composed {
			t.nextEnd = min(t.nextEnd, r.place.end)
			continue
		}
		s.leaveRoll(r)
		r.ending = true
		t.ending++
		b.ends = append(b.ends, r)
	}
}

// takesPart reports whether r is to get a token from a batch that has been composed and not delivered.
func (b *batch) takesPart(r *sequence) bool {
	return b != nil && b.decodes > 0 && r.place.given < b.number && b.number <= r.place.end
}

// takingPart lists the requests that are to get a token from a decode that is about to be delivered.
func (s *Scheduler) takingPart(b *batch) []*sequence {
	var all []*sequence
	for _, r := range s.running {
		if b.takesPart(r) {
			all = append(all, r)
		}
	}
	for _, r := range b.ends {
		if !r.runs { // its last token is in flight, and it has stopped running
			all = append(all, r)
		}
	}
	return all
}

// without takes a token away from r that b would have given it.
func (b *batch) without(r *sequence) {
	b.tokens--
	b.fresh, b.ends = without(b.fresh, r), without(b.ends, r)
}

func without(list []*sequence, r *sequence) []*sequence {
	return slices.DeleteFunc(list, func(q *sequence) bool { return q == r })
}

// computed returns r.computed, brought up to date.
func (s *Scheduler) computed(r *sequence) int {
	return r.computed + min(s.composed, r.place.end) - r.place.composed
}

// generated returns r.generated, brought up to date.
func (s *Scheduler) generated(r *sequence) int {
	return r.generated + max(0, min(s.delivered, r.place.end)-r.place.given)
}

// catchUp brings the counters of a request up to date.
func (s *Scheduler) catchUp(r *sequence) {
	p := &r.place
	if computed := s.computed(r); computed > r.computed {
		r.scheduled += computed - r.computed
		p.composed += computed - r.computed
		r.computed = computed
		s.pool.Fit(&r.lease, computed)
	}
	generated := s.generated(r)
	p.given += generated - r.generated
	r.generated = generated
}

// recount counts all requests on the roll anew, as an engine does that works stepwise.
func (s *Scheduler) recount() {
	t := &s.roll
	t.context, t.nextEnd, t.owed = 0, math.MaxInt, 0
	clear(t.phases)
	for _, r := range s.running {
		s.catchUp(r)
		t.owed += r.maxOutput - r.generated
		if r.place.on {
			s.enter(r)
		}
	}
}
