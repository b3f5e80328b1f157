package router

import (
	"math"
	"math/bits"
	"slices"
)

// A decision of a large pool prices only the workers that have blocks of the prompt, cached or active: a worker without
// any costs
//
//	(prefillTokens + promptTokens) / blockSize + activeBlocks + newBlocks
//
// and the order of these does not depend on the prompt. Where this expression is exact in floating point, workers that
// cost the same are those with the same key, prefillTokens + blockSize*activeBlocks, and a ranking by that finds the
// cheapest. Blocks of the prompt only ever make a worker cheaper.

// fewWorkers is up to how many workers it is faster to price all of them.
const fewWorkers = 16

// rankable reports whether decisions can be made by a ranking: they follow from costs alone, which are exact.
func (o *Options) rankable() bool {
	c := &o.Config
	return o.Workers > fewWorkers && !o.LowerTiers && o.Log == nil && o.Pin == nil && o.Estimate == nil &&
		c.Temperature == 0 &&
		c.PrefillLoadScale == 1 && c.OverlapCreditDecay == 0 && c.OverlapCredit >= 0 &&
		bits.OnesCount(uint(o.BlockSize)) == 1
}

// rank notes that the load of a worker has changed.
func (t *tracker) rank(worker int32) {
	if t.ranking == nil {
		return
	}
	key := t.activeBlocks[worker] * t.blockSize
	if t.trackPrefill {
		key += t.prefillTokens[worker]
	}
	t.ranking.set(int(worker), key)
}

// pickRanked chooses one of the cheapest workers as pickCheapest does after price. The candidates have the matches of
// the prompt scattered over them. It reports false if pricing all workers is faster, as many of them have blocks of the
// prompt.
func (k *KV) pickRanked(promptTokens, newBlocks int, overlaps, shared []match) (worker int, ok bool) {
	if 4*(len(overlaps)+len(shared)) > len(k.candidates.cost) {
		return 0, false
	}
	c, ranking := &k.candidates, k.tracker.ranking
	key, ranked := ranking.least()
	added := int64(newBlocks) * int64(k.blockSize)
	if k.config.TrackPrefillTokens {
		added += int64(promptTokens)
	}
	cheapest := float64(key+added) / float64(k.blockSize)

	// special are the cheapest workers that the ranking does not count, by ascending id.
	special := c.special[:0]
	priced := pricing{config: &k.config, blockSize: k.blockSize, promptTokens: promptTokens, newBlocks: newBlocks}
	least := math.Inf(1)
	for _, matches := range [...][]match{overlaps, shared} {
		for _, m := range matches {
			cost := priced.cost(c, int(m.worker))
			if cost < least {
				least, special = cost, special[:0]
			}
			if cost == least && !(cost == cheapest && ranking.key(int(m.worker)) == key) {
				special = append(special, m.worker)
			}
		}
	}
	c.special = special
	slices.Sort(special)
	special = slices.Compact(special) // a worker can have cached and active blocks
	switch {
	case least > cheapest:
		special = nil
	case least < cheapest:
		ranked = 0
	}
	skip := 0
	if tied := ranked + len(special); tied > 1 {
		skip = k.rng.IntN(tied)
	}
	return ranking.merged(skip, ranked, special), true
}

// merged returns the worker before which, by id, skip others are among the ranked ones with the least key and the
// special ones, which are none of these. ranked is the number of the former, 0 if they do not count.
func (r *ranking) merged(skip, ranked int, special []int32) int {
	if ranked == 0 {
		return int(special[skip])
	}
	for i, worker := range special {
		switch place := r.before(int(worker)) + i; {
		case place == skip:
			return int(worker)
		case place > skip:
			return r.pick(skip - i)
		}
	}
	return r.pick(skip - len(special))
}
