package planner

import (
	"fmt"
	"math"
)

// hpa is the rule of Kubernetes' horizontal pod autoscaler, after its documentation: a proposal from each metric,
// stabilised over time, then limited in its rate.
type hpa struct {
	clock     every
	ofPrefill bool
	min, max  int
	tolerance float64
	targets   []target
	up, down  behavior

	proposals []proposal // recent ones
	changes   []change   // of the number of workers
}

// target is what a metric is to be.
type target struct {
	metric Metric
	kind   targetKind
	value  int64 // in thousandths
}

// targetKind says how the metric of the workers is compared with the target.
type targetKind string

const (
	averageTarget targetKind = "average" // the mean over workers
	totalTarget   targetKind = "total"   // the sum over workers, for each worker
	valueTarget   targetKind = "value"   // one value for all workers
)

// behavior limits how fast a pool grows or shrinks.
type behavior struct {
	stabilizationMs float64
	limits          []limit
	least           bool // the limit that allows the smallest change counts, instead of the largest
	disabled        bool
}

// limit is a change that is allowed within a period.
type limit struct {
	percent  bool // of the workers at its beginning
	value    float64
	periodMs float64
}

type proposal struct {
	atMs  float64
	count int
}

type change struct {
	atMs  float64
	delta int
}

func (h *hpa) prefill() bool   { return h.ofPrefill }
func (h *hpa) nextMs() float64 { return h.clock.nextMs() }

func (h *hpa) decide(p *Pool, ttftsMs []float64, nowMs float64) (int, string) {
	h.clock.due(nowMs)
	return h.decideNow(p, ttftsMs, nowMs)
}

func (h *hpa) decideNow(p *Pool, ttftsMs []float64, nowMs float64) (int, string) {
	current := p.Active + p.Starting
	switch {
	case current == 0: // autoscaling is disabled
		return Unchanged, ""
	case current > h.max:
		return h.changed(current, h.max, nowMs), "hpa: above max"
	case current < h.min:
		return h.changed(current, h.min, nowMs), "hpa: below min"
	}
	wanted, reason := h.propose(p, ttftsMs, current)
	if wanted == Unchanged {
		return Unchanged, ""
	}
	wanted = min(max(wanted, h.min), h.max)
	return h.changed(current, h.limited(current, h.stabilized(current, wanted, nowMs), nowMs), nowMs), reason
}

// propose returns the largest proposal of all targets. If one has no value, none may shrink the pool.
func (h *hpa) propose(p *Pool, ttftsMs []float64, current int) (int, string) {
	best, reason, missing := Unchanged, "", false
	for _, t := range h.targets {
		count, ok := t.propose(p, ttftsMs, current, h.tolerance)
		if !ok {
			missing = true
			continue
		}
		if count > best {
			best, reason = count, fmt.Sprintf("hpa: %s", t.metric)
		}
	}
	if missing && best < current {
		return Unchanged, ""
	}
	return best, reason
}

// propose returns the number of workers that brings the metric to the target, false if there is no value.
func (t target) propose(p *Pool, ttftsMs []float64, current int, tolerance float64) (int, bool) {
	perWorker, extra := t.metric.values(p, ttftsMs)
	n := len(perWorker)
	if n == 0 && (t.kind != totalTarget || t.metric == TTFTP95) {
		return 0, false
	}
	within := func(r float64) bool { return math.Abs(1-r) <= tolerance }
	switch t.kind {
	case totalTarget:
		sum := total(perWorker, extra)
		if within(float64(sum) / float64(t.value*int64(current))) {
			return current, true
		}
		return int(math.Ceil(float64(sum) / float64(t.value))), true
	case valueTarget:
		r := float64(t.one(perWorker, extra)) / float64(t.value)
		if within(r) {
			return current, true
		}
		return int(math.Ceil(r * float64(n))), true
	}
	return t.average(total(perWorker, extra), n, p.Starting, current, within), true
}

// one returns the single value that all workers have in common.
func (t target) one(perWorker []int64, extra int64) int64 {
	switch t.metric {
	case TTFTP95:
		return perWorker[0]
	case CacheUse:
		return total(perWorker, 0) / int64(len(perWorker))
	}
	return total(perWorker, extra)
}

// average returns a proposal from the sum over n workers. Of those that have no metric yet, the start-up is taken to
// bring what speaks against a change: the target when the pool would shrink, nothing when it would grow.
func (t target) average(sum int64, n, missing, current int, within func(float64) bool) int {
	r := float64(sum/int64(n)) / float64(t.value)
	if missing == 0 {
		if within(r) {
			return current
		}
		return int(math.Ceil(r * float64(n)))
	}
	if r < 1 {
		sum += int64(missing) * t.value
	}
	all := n + missing
	again := float64(sum/int64(all)) / float64(t.value)
	if within(again) || r < 1 && again > 1 || r > 1 && again < 1 {
		return current
	}
	count := int(math.Ceil(again * float64(all)))
	if again < 1 && count > current || again > 1 && count < current {
		return current
	}
	return count
}

// stabilized follows the least of the recent proposals up, and the largest down.
func (h *hpa) stabilized(current, wanted int, nowMs float64) int {
	if h.proposals == nil {
		h.proposals = []proposal{{0, current}}
	}
	up, down := wanted, wanted
	kept := h.proposals[:0]
	for _, p := range h.proposals {
		if p.atMs > nowMs-h.up.stabilizationMs {
			up = min(up, p.count)
		}
		if p.atMs > nowMs-h.down.stabilizationMs {
			down = max(down, p.count)
		}
		if p.atMs > nowMs-max(h.up.stabilizationMs, h.down.stabilizationMs) {
			kept = append(kept, p)
		}
	}
	h.proposals = append(kept, proposal{nowMs, wanted})
	return min(max(current, up), max(down, up))
}

// limited bounds a change by what the limits of its direction allow.
func (h *hpa) limited(current, wanted int, nowMs float64) int {
	switch {
	case wanted > current:
		if h.up.disabled {
			return current
		}
		return min(wanted, max(h.reach(&h.up, current, 1, nowMs), current))
	case wanted < current:
		if h.down.disabled {
			return current
		}
		return max(wanted, min(h.reach(&h.down, current, -1, nowMs), current))
	}
	return current
}

// reach returns the number of workers that the limits of a direction (1 up, -1 down) allow.
func (h *hpa) reach(b *behavior, current, direction int, nowMs float64) int {
	farthest := Unchanged
	for _, l := range b.limits {
		start := current
		for _, c := range h.changes {
			if c.atMs > nowMs-l.periodMs {
				start -= c.delta
			}
		}
		bound := start + direction*int(l.value)
		switch {
		case l.percent && direction > 0:
			bound = int(math.Ceil(float64(start) * (1 + l.value/100)))
		case l.percent:
			bound = int(float64(start) * (1 - l.value/100))
		}
		if farthest == Unchanged || (bound > farthest) == (direction > 0) != b.least {
			farthest = bound
		}
	}
	return max(farthest, 0)
}

// changed remembers a change of the number of workers.
func (h *hpa) changed(from, to int, nowMs float64) int {
	if to == from {
		return to
	}
	longest := 0.0
	for _, b := range []*behavior{&h.up, &h.down} {
		for _, l := range b.limits {
			longest = max(longest, l.periodMs)
		}
	}
	kept := h.changes[:0]
	for _, c := range h.changes {
		if c.atMs > nowMs-longest {
			kept = append(kept, c)
		}
	}
	h.changes = append(kept, change{nowMs, to - from})
	return to
}
