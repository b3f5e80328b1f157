package router

import (
	"maps"
	"math"

	"dynosim/gocore/kvcache"
)

// lowerTiers knows what workers have below the device, and what a store has that all of them share. As Dynamo's routers
// do, a decision counts each leading block behind those on the device like a part of a cached one:
//
//	device    a b c                 3
//	host      a b c d e             2 more, HostCredit each
//	shared    a b c d e f g         2 more, SharedCredit each; the store of the node, or storage behind it
type lowerTiers struct {
	host            index
	shared, storage index       // have blocks as those of a node, and all as those of worker 0
	perNode         int         // workers that follow each other and share a store, 0 for all
	places          map[int]int // of workers that replace others
	query           query
	found           []match
	stores          []int32 // blocks found, by node
}

// node returns the number of the node of a worker.
func (l *lowerTiers) node(worker int) int {
	if l.perNode == 0 {
		return 0
	}
	if place, other := l.places[worker]; other {
		worker = place
	}
	return worker / l.perNode
}

// place notes that a worker replaces another one, whose node it has.
func (l *lowerTiers) place(worker, place int) {
	if l.places == nil {
		l.places = map[int]int{}
	}
	l.places[worker] = place
}

// clone returns tiers with the same blocks.
func (l *lowerTiers) clone() *lowerTiers {
	return &lowerTiers{host: l.host.clone(), shared: l.shared.clone(), storage: l.storage.clone(), perNode: l.perNode,
		places: maps.Clone(l.places)}
}

// apply takes note of an event of a worker. Without tiers nothing is to be noted.
func (l *lowerTiers) apply(worker int32, e kvcache.Event) {
	switch {
	case l == nil || e.Kind > kvcache.Removed:
	case e.Tier == kvcache.Host:
		l.host.apply(worker, e)
	case e.Tier == kvcache.External:
		l.shared.apply(int32(l.node(int(worker))), e)
	case e.Tier == kvcache.Disk:
		l.storage.apply(0, e)
	}
}

// gatherLower sets what the candidates have of the prompt at hand below the device.
func (k *KV) gatherLower() {
	l, c := k.lower, &k.candidates
	if l == nil {
		return
	}
	k.gatherStores()
	if cap(c.lower) < len(c.cached) {
		c.lower = make([]float64, len(c.cached))
	}
	c.lower = c.lower[:len(c.cached)]
	for place, cached := range c.cached {
		c.lower[place] = float64(k.config.SharedCredit * float64(max(0, k.storeOf(place)-cached)))
	}
	l.found = k.own(l.host.overlaps(&l.query, k.stretches), &l.found)
	for _, m := range l.found {
		cached := c.cached[m.worker]
		if more := m.blocks - cached; more > 0 {
			beyond := float64(k.config.SharedCredit * float64(max(0, k.storeOf(int(m.worker))-m.blocks)))
			c.lower[m.worker] = float64(k.config.HostCredit*float64(more)) + beyond
		}
	}
}

// gatherStores sets what the stores of nodes, and the storage behind them, have of the prompt at hand.
func (k *KV) gatherStores() {
	l := k.lower
	l.stores = l.stores[:0]
	behind := int32(0)
	for _, m := range l.storage.overlaps(&l.query, k.stretches) {
		behind = m.blocks
	}
	for place := range k.candidates.cached {
		for node := l.node(k.workerAt(place)); len(l.stores) <= node; {
			l.stores = append(l.stores, behind)
		}
	}
	for _, m := range l.shared.overlaps(&l.query, k.stretches) {
		if int(m.worker) < len(l.stores) {
			l.stores[m.worker] = max(behind, m.blocks)
		}
	}
}

// storeOf returns how many leading blocks of the prompt at hand a worker at a place among the candidates can get from a
// store.
func (k *KV) storeOf(place int) int32 { return k.lower.stores[k.lower.node(k.workerAt(place))] }

// lowerTokens returns the tokens that a worker is taken not to compute because of what it has below the device.
func (c *candidates) lowerTokens(place, blockSize int) int {
	if c.lower == nil {
		return 0
	}
	return int(math.Round(c.lower[place] * float64(blockSize)))
}
