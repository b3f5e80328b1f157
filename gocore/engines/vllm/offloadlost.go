package vllm

import (
	"slices"

	"github.com/gammazero/deque"

	"dynosim/gocore/engine"
	"dynosim/gocore/kvcache/chunks"
)

// What becomes of host memory when its worker is lost. Ours, not vLLM's: docs/tiers.md has the rules.
//
//	memory of its own           gone
//	copies to or from a store   dropped: what was not stored whole is not there, and others share the link
//	a store that workers share  keeps what it has; to it the requests of the worker have ended

var (
	_ engine.Abandoner = (*Scheduler)(nil)
	_ engine.Abandoner = (*Group)(nil)
)

// Abandon implements [engine.Abandoner].
func (s *Scheduler) Abandon(nowMs float64) engine.Copied {
	if s.offload == nil {
		return engine.Copied{}
	}
	return s.offload.abandon(nowMs)
}

// Abandon implements [engine.Abandoner].
func (g *Group) Abandon(nowMs float64) (copied engine.Copied) {
	for i := range g.ranks {
		copied.Add(g.ranks[i].Abandon(nowMs))
	}
	return copied
}

// abandon ends the tier of a worker that is lost.
func (o *offload) abandon(nowMs float64) engine.Copied {
	lost := 0
	if o.common == nil {
		lost = o.host.Use().Resident*o.chunkBlocks - o.unsubmitted()
	} else {
		o.common.advance(nowMs)
		o.noticeEnded(nowMs)
		lost = o.leaveStore()
	}
	if o.prefetches != nil {
		o.prefetches.client.Leave(nowMs)
	}
	copied := o.takeUse()
	copied.Lost = lost
	return copied
}

// unsubmitted returns the number of blocks that the host has room for, and that are not on their way from the device.
func (o *offload) unsubmitted() (blocks int) {
	for _, t := range slices.Concat(o.pending, o.fresh) {
		blocks += t.blocks
	}
	if o.prefetches != nil {
		for _, r := range o.prefetches.under {
			blocks += countOf(r.hosted.fetch.spans) * o.chunkBlocks
		}
	}
	return blocks
}

// leaveStore takes the worker away from those that share the store, with what it is copying, and returns the number of
// blocks that were on their way there.
func (o *offload) leaveStore() (lost int) {
	drop := func(spans []chunks.Span) {
		for _, span := range spans {
			o.host.Drop(span)
		}
	}
	for i := range o.storing.Len() {
		t := o.storing.At(i)
		lost += t.blocks
		drop(t.spans)
	}
	for _, t := range slices.Concat(o.pending, o.fresh) {
		drop(t.spans)
	}
	for i := range o.loading.Len() {
		o.host.Loaded(o.loading.At(i).spans)
	}
	if o.prefetches != nil {
		for len(o.prefetches.under) > 0 {
			o.leaveFetch(o.prefetches.under[0])
		}
	}
	for _, h := range o.leaving {
		o.host.Farewell(&h.Request)
	}
	for _, r := range slices.Concat(o.s.running, o.holding) {
		o.host.Farewell(&r.hosted.Request)
	}
	for i := range o.s.waiting.Len() {
		o.host.Farewell(&o.s.waiting.At(i).hosted.Request)
	}
	o.common.leave(o)
	o.storing, o.loading = deque.Deque[*transferring]{}, deque.Deque[*transferring]{}
	return lost
}

// leave takes a worker away from those that share the store.
func (c *common) leave(o *offload) {
	for _, lane := range o.lanes {
		c.link.Leave(lane)
	}
	c.members = slices.DeleteFunc(c.members, func(other *offload) bool { return other == o })
}
