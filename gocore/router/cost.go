package router

import (
	"math"
	"math/rand/v2"
	"slices"
)

// candidates is what a decision knows about each worker, by ascending id, and what the workers cost.
type candidates struct {
	prefillTokens []int64   // prompt tokens the worker has yet to compute
	activeBlocks  []int64   // blocks its requests fill
	cached        []int32   // leading blocks of the prompt that it has cached
	shared        []int32   // leading blocks of the prompt that its requests fill
	lower         []float64 // what it has below the device counts like cached blocks; nil if workers have no such tiers
	cost          []float64
	cheapest      float64 // cost
	tied          int     // workers that cost exactly that

	weights []float64 // room for weigh
	special []int32   // room for pickRanked
}

func newCandidates(workers int) candidates {
	return candidates{
		cached: make([]int32, workers),
		shared: make([]int32, workers),
		cost:   make([]float64, workers),
	}
}

// price computes the cost of every worker for a prompt of promptTokens tokens.
//
//	raw    = (prefillTokens + promptTokens) / blockSize        0 if prefill tokens are not tracked
//	excess = (prefillTokens - least of all workers) / blockSize
//	k      = 1 / (1 + decay * (excess / ceil(promptTokens / blockSize)))
//	adj    = max(raw - (credit * k) * (cached + lower), 0)
//	cost   = scale * adj + (activeBlocks + newBlocks - shared)
//
// newBlocks is how many blocks the prompt adds to a worker that shares none of them. k is 1 without decay or without
// tracking of prefill tokens. Operations run in the order written, each rounded: ties are decided by exact equality.
func (c *candidates) price(config *Config, blockSize, promptTokens, newBlocks int) {
	p := pricing{config: config, blockSize: blockSize, promptTokens: promptTokens, newBlocks: newBlocks}
	if p.decays() {
		p.least = slices.Min(c.prefillTokens)
	}
	c.cheapest, c.tied = math.Inf(1), 0
	for w := range c.cost {
		cost := p.cost(c, w)
		c.cost[w] = cost
		switch {
		case cost < c.cheapest:
			c.cheapest, c.tied = cost, 1
		case cost == c.cheapest:
			c.tied++
		}
	}
}

// pricing is what the costs of all workers for a prompt have in common.
type pricing struct {
	config                             *Config
	blockSize, promptTokens, newBlocks int
	least                              int64 // prefill tokens of all workers, if decays
}

func (p *pricing) decays() bool {
	return p.config.TrackPrefillTokens && p.config.OverlapCreditDecay > 0
}

// cost returns the cost of worker w.
func (p *pricing) cost(c *candidates, w int) float64 {
	size, raw, credit := float64(p.blockSize), 0.0, p.config.OverlapCredit
	if p.config.TrackPrefillTokens {
		raw = float64(c.prefillTokens[w]+int64(p.promptTokens)) / size
	}
	if p.decays() {
		excess := float64(c.prefillTokens[w]-p.least) / size
		k := 1 / (1 + float64(p.config.OverlapCreditDecay*(excess/float64(ceilDiv(p.promptTokens, p.blockSize)))))
		credit = float64(credit * k)
	}
	cached := float64(c.cached[w])
	if c.lower != nil {
		cached += c.lower[w]
	}
	adj := max(raw-float64(credit*cached), 0)
	decode := c.activeBlocks[w] + int64(p.newBlocks) - int64(c.shared[w])
	return float64(p.config.PrefillLoadScale*adj) + float64(decode)
}

// pickCheapest chooses one of the cheapest workers, each with the same probability. It draws only if there are several.
func (c *candidates) pickCheapest(rng *rand.Rand) int {
	skip := 0
	if c.tied > 1 {
		skip = rng.IntN(c.tied)
	}
	for w, cost := range c.cost {
		if cost != c.cheapest {
			continue
		}
		if skip == 0 {
			return w
		}
		skip--
	}
	panic("router: no worker is the cheapest")
}

// sample chooses a worker with the probabilities of weigh.
func (c *candidates) sample(temperature float64, rng *rand.Rand) int {
	if !c.weigh(temperature) {
		return c.pickCheapest(rng)
	}
	u, cumulative := rng.Float64(), 0.0
	for w, weight := range c.weights {
		cumulative += weight
		if u <= cumulative {
			return w
		}
	}
	return len(c.weights) - 1
}

// weigh sets weights to the probability of every worker at a temperature above 0: a softmax of the costs, scaled to
// their range, so that the temperature does not depend on the size of blocks or prompts.
//
//	weight = exp(scale*cost - scale*low), normalised;  scale = -1 / ((high - low) * temperature)
//
// It reports false if that is not defined, because all costs are equal or the temperature is so low that the scale is
// no finite number; then one of the cheapest workers is to be chosen.
func (c *candidates) weigh(temperature float64) bool {
	low, high := c.cheapest, slices.Max(c.cost)
	scale := -1 / float64((high-low)*temperature)
	offset := float64(low * scale)
	if low == high || isHuge(scale) || isHuge(offset) || isHuge(high*scale) {
		return false
	}
	c.weights = c.weights[:0]
	sum := 0.0
	for _, cost := range c.cost {
		weight := math.Exp(float64(cost*scale) - offset)
		c.weights = append(c.weights, weight)
		sum += weight
	}
	for w := range c.weights {
		c.weights[w] /= sum
	}
	return true
}

// isHuge reports whether x is infinite or not a number.
func isHuge(x float64) bool { return x-x != 0 }

func ceilDiv(a, b int) int { return (a + b - 1) / b }
