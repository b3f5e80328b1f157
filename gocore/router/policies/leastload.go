package policies

import "dynosim/gocore/router"

// leastRequests takes the worker with the fewest requests in flight; ties are drawn.
type leastRequests struct{ memoryless }

func newLeastRequests(router.Options) rule { return leastRequests{} }

func (leastRequests) choose(v *view, _ *router.Request, draw chance) int {
	return drawLeast(v.workers, v.requests, draw)
}

// leastTokens takes the worker with the fewest prompt tokens in flight; ties are drawn.
type leastTokens struct{ memoryless }

func newLeastTokens(router.Options) rule { return leastTokens{} }

func (leastTokens) choose(v *view, _ *router.Request, draw chance) int {
	return drawLeast(v.workers, v.tokens, draw)
}

// random takes any worker.
type random struct{ memoryless }

func newRandom(router.Options) rule { return random{} }

func (random) choose(v *view, _ *router.Request, draw chance) int {
	return v.workers[draw.IntN(len(v.workers))]
}
