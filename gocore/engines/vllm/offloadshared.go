package vllm

import (
	"math"

	"github.com/gammazero/deque"

	"dynosim/gocore/engines/internal/sharing"
	"dynosim/gocore/kvcache"
	"dynosim/gocore/kvcache/chunks"
)

// common is a store that the workers of a pool share, and its link. Ours, not vLLM's: docs/tiers.md has the rules.
type common struct {
	store   *chunks.Store
	members []*offload
	joined  int // so far
	link    *sharing.Link
	evicted int // blocks, as told
	events  []kvcache.Event
}

// nodes are groups of workers that follow each other, each with a store of its own: all in one if workers is 0.
type nodes struct {
	workers int // of a node
	stores  map[int]*common
}

// join makes a worker share the store of its node, which the first one makes.
func (n *nodes) join(o *offload, place int, store func() *common) {
	node := 0
	if n.workers > 0 {
		node = place / n.workers
	}
	if n.stores[node] == nil {
		n.stores[node] = store()
	}
	n.stores[node].join(o)
}

// join makes a worker one of those that share the store.
func (c *common) join(o *offload) {
	o.common, o.host, o.number = c, c.store, c.joined
	c.joined++
	for way := range o.lanes {
		o.lanes[way] = c.link.Lane()
	}
	o.noticeMs = math.Inf(-1)
	c.members = append(c.members, o)
}

// way returns the lane of a copy.
func way(t *transferring) int {
	if t.loading == nil {
		return 0
	}
	return 1
}

// idle reports whether a worker has been without requests since before an instant.
func (o *offload) idle(nowMs float64) bool { return o.s.Requests() == 0 && o.endMs < nowMs }

// catchUpShared brings everything that is shared up to an instant: first the workers without requests submit what their
// empty passes would have submitted, each at the end of its last pass; then everything is copied until now, and what
// has ended is noticed.
func (o *offload) catchUpShared(nowMs float64) {
	for _, other := range o.common.members {
		if other == o && o.endMs < nowMs || other != o && other.idle(nowMs) {
			other.submitLeft(max(other.endMs, o.common.link.Now()))
		}
	}
	o.common.advance(nowMs)
	for _, other := range o.common.members {
		if other != o && other.idle(nowMs) {
			other.noticeUntold(nowMs)
		}
	}
	if o.endMs < nowMs {
		o.noticeMs = nowMs
	}
	o.noticeEnded(o.noticeMs)
	o.noticeMs = math.Inf(-1)
}

// submitLeft makes the last offers of requests that have ended, and submits their stores at an instant.
func (o *offload) submitLeft(atMs float64) {
	for o.outstanding() {
		o.bidFarewell()
		o.submit(atMs)
	}
}

// noticeUntold notices what has ended, outside of a pass.
func (o *offload) noticeUntold(nowMs float64) { o.untellCopies(func() { o.noticeEnded(nowMs) }) }

// untellCopies does something outside of a pass. The next pass reports the copies.
func (o *offload) untellCopies(do func()) {
	parts := o.s.parts
	if parts == nil {
		do()
		return
	}
	told := len(parts.Copies)
	do()
	o.untold = append(o.untold, parts.Copies[told:]...)
	parts.Copies = parts.Copies[:told]
}

// advance lets all copies go on until an instant, and makes known to others what is in the store by then.
func (c *common) advance(nowMs float64) {
	c.link.Advance(nowMs)
	for _, o := range c.members {
		for i := range o.storing.Len() {
			t := o.storing.At(i)
			_, endMs, ended := t.move.Ended()
			if !ended {
				break
			}
			if !t.ready {
				t.ready = true
				c.store.Submitted(t.spans, endMs)
			}
		}
	}
}

// noticeShared takes note of the copies that have ended at an instant, and reports whether there are any. If that is
// when the pass begins that has been waiting for others, it does so when the next one begins.
func (o *offload) noticeShared(atMs float64) (any bool) {
	if atMs > o.common.link.Now() {
		o.noticeMs = atMs
		return false
	}
	return o.noticeEnded(atMs)
}

// noticeEnded takes note of the copies that have ended at an instant, and reports whether there are any.
func (o *offload) noticeEnded(atMs float64) (any bool) {
	for _, queue := range []*deque.Deque[*transferring]{&o.storing, &o.loading} {
		for queue.Len() > 0 {
			t := queue.Front()
			beganMs, endMs, ended := t.move.Ended()
			if !ended || endMs > atMs {
				break
			}
			t.beganMs, t.endMs, any = beganMs, endMs, true
			o.passOn(t, endMs)
			o.count(t, beganMs, endMs-beganMs)
			o.finish(queue.PopFront())
		}
	}
	return any
}

// nextEndShared returns when the next copy ends, as far as is known now.
func (o *offload) nextEndShared() (atMs float64, any bool) {
	for _, queue := range []*deque.Deque[*transferring]{&o.storing, &o.loading} {
		if queue.Len() == 0 {
			continue
		}
		if endMs := o.common.link.Foresee(queue.Front().move); !any || endMs < atMs {
			atMs, any = endMs, true
		}
	}
	return atMs, any
}

// awaitedEnd returns when a copy ends for which a pass waits: copies that others begin later do not slow it down any
// more.
func (o *offload) awaitedEnd(t *transferring) float64 {
	if o.common == nil {
		return t.endMs
	}
	return o.common.link.Keep(o.lanes[way(t)], t.move)
}
