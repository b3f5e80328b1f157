package router

import (
	"math"
	"math/bits"

	"dynosim/gocore/timing"
)

// Estimate predicts how long a worker computes a prompt of which prefix tokens are cached and uncached tokens are not,
// alone, in nanoseconds. It reports false if it cannot tell.
type Estimate func(uncached, prefix int) (ns int64, ok bool)

// prefillEntry is the part of a prompt that its worker has to compute. It has no tokens once that is done.
type prefillEntry struct {
	tokens     int64
	durationNs int64
	modelled   bool  // durationNs is known
	prev, next int32 // older and younger entry of the worker
}

func (t *tracker) prefillEntry(b booking) prefillEntry {
	e := prefillEntry{tokens: int64(b.uncached)}
	if t.estimate != nil {
		e.durationNs, e.modelled = t.estimate(b.uncached, b.tokens-b.uncached)
	}
	return e
}

// prefillList is the entries of one worker, oldest first. A worker is taken to compute them one after the other, so
// that the load shrinks while time passes:
//
//	load
//	 |\
//	 | \    front: 100 tokens that take 10 ms
//	 |  \_
//	 |    \__
//	 |       \__  next: 60 tokens
//	 +----------+--> time since the front entry became the front
//
// Entries live in the tracker's list of requests and are named by their place in it.
type prefillList struct {
	front, back int32 // when there are entries
	entries     int32
	unmodelled  int32 // entries without a duration
	sinceNs     int64 // when the front entry's computation began
}

// push appends the entry of the request at place.
func (l *prefillList) push(requests []tracked, place int32, nowNs int64) {
	e := &requests[place].prefill
	if l.entries == 0 {
		l.front, l.sinceNs = place, nowNs
	} else {
		e.prev = l.back
		requests[l.back].prefill.next = place
	}
	l.back = place
	l.entries++
	if !e.modelled {
		l.unmodelled++
	}
}

// remove takes an entry out. The next one starts now if it was the front one; otherwise the time that its computation
// was taken to need is given back, for the worker has evidently done it already.
func (l *prefillList) remove(requests []tracked, place int32, nowNs int64) {
	e := &requests[place].prefill
	switch {
	case place == l.front:
		l.front, l.sinceNs = e.next, nowNs
	case e.modelled:
		requests[e.prev].prefill.next = e.next
		l.sinceNs = min(l.sinceNs+e.durationNs, nowNs)
	default:
		requests[e.prev].prefill.next = e.next
	}
	if place == l.back {
		l.back = e.prev
	} else {
		requests[e.next].prefill.prev = e.prev
	}
	l.entries--
	if !e.modelled {
		l.unmodelled--
	}
}

// tokensAt returns the load at an instant; sum is the tokens of all entries. With a duration for every entry it goes on
// shrinking at the pace of the front one after that is through, down to 0. Otherwise only the front entry shrinks.
func (l *prefillList) tokensAt(requests []tracked, sum, nowNs int64) int64 {
	if l.entries == 0 {
		return 0
	}
	front := requests[l.front].prefill
	elapsedNs := max(nowNs-l.sinceNs, 0)
	switch {
	case l.unmodelled == 0:
		return sum - front.done(elapsedNs, sum)
	case !front.modelled:
		return sum
	default:
		return sum - front.tokens + front.remaining(elapsedNs)
	}
}

// done returns how many tokens are computed at the entry's pace, floor(tokens * elapsed / duration), at most limit.
func (e prefillEntry) done(elapsedNs, limit int64) int64 {
	if e.durationNs == 0 {
		return e.tokens
	}
	hi, lo := bits.Mul64(uint64(e.tokens), uint64(elapsedNs))
	if hi >= uint64(e.durationNs) {
		return limit
	}
	done, _ := bits.Div64(hi, lo, uint64(e.durationNs))
	return int64(min(done, uint64(limit)))
}

// remaining returns ceil(tokens * (1 - elapsed/duration)), in seconds and doubles, and not below 0.
func (e prefillEntry) remaining(elapsedNs int64) int64 {
	if e.durationNs == 0 {
		return 0
	}
	left := 1 - timing.Seconds(elapsedNs)/timing.Seconds(e.durationNs)
	return int64(math.Ceil(float64(e.tokens) * min(max(left, 0), 1)))
}
