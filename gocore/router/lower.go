package router

import (
	"math"

	"dynosim/gocore/kvcache"
)

// lowerTiers knows what workers have below the device, and what a store has that all of them share. As Dynamo's routers do, a
// decision counts each leading block behind those on the device like a part of a cached one:
//
//	device    a b c                 3
//	host      a b c d e             2 more, HostCredit each
//	shared    a b c d e f g         2 more, SharedCredit each
type lowerTiers struct {
	host, shared index // the latter has all blocks as those of worker 0
	query        query
	found        []match
}

// apply takes note of an event of a worker. Without tiers nothing is to be noted.
func (l *lowerTiers) apply(worker int32, e kvcache.Event) {
	switch {
	case l == nil || e.Kind > kvcache.Removed:
	case e.Tier == kvcache.Host:
		l.host.apply(worker, e)
	case e.Tier == kvcache.External:
		l.shared.apply(0, e)
	}
}

// gatherLower sets what the candidates have of the prompt at hand below the device.
func (k *KV) gatherLower() {
	l, c := k.lower, &k.candidates
	if l == nil {
		return
	}
	store := int32(0)
	for _, m := range l.shared.overlaps(&l.query, k.stretches) {
		store = m.blocks
	}
	if cap(c.lower) < len(c.cached) {
		c.lower = make([]float64, len(c.cached))
	}
	c.lower = c.lower[:len(c.cached)]
	for place, cached := range c.cached {
		c.lower[place] = float64(k.config.SharedCredit * float64(max(0, store-cached)))
	}
	l.found = k.own(l.host.overlaps(&l.query, k.stretches), &l.found)
	for _, m := range l.found {
		cached := c.cached[m.worker]
		if more := m.blocks - cached; more > 0 {
			beyond := float64(k.config.SharedCredit * float64(max(0, store-m.blocks)))
			c.lower[m.worker] = float64(k.config.HostCredit*float64(more)) + beyond
		}
	}
}

// lowerTokens returns the tokens that a worker is taken not to compute because of what it has below the device.
func (c *candidates) lowerTokens(place, blockSize int) int {
	if c.lower == nil {
		return 0
	}
	return int(math.Round(c.lower[place] * float64(blockSize)))
}
