package policies

import (
	"dynosim/gocore/router"
	"dynosim/gocore/strictjson"
)

var prefixFields = []strictjson.Field{
	integer("prefix_token_count", 1, 256,
		"Tokens at the beginning of the prompt that make the key, rounded up to whole blocks."),
	number("prefix_hash_load_factor", positive, 1.25,
		"The worker of the key is overloaded only above this times the mean of the requests in flight."),
	number("prefix_hash_balance_abs_threshold", notNegative, 10,
		"It is overloaded only that many requests above the mean."),
	integer("virtual_nodes", 1, 150, "Points of each worker on the ring."),
}

// prefixHash sends prompts that begin alike to the same worker, as Shepherd model gateway does, and to the least loaded
// one while that worker is overloaded.
type prefixHash struct {
	memoryless
	ring        ring
	tokens      int
	blockSize   int
	factor, abs float64
	key         func(*router.Request) uint64 // the place on the ring
}

func newPrefixHash(o router.Options) rule {
	p := &prefixHash{
		ring:   ring{points: o.Settings.Int("virtual_nodes"), name: workerURL},
		tokens: o.Settings.Int("prefix_token_count"), blockSize: o.BlockSize,
		factor: o.Settings.Float("prefix_hash_load_factor"), abs: o.Settings.Float("prefix_hash_balance_abs_threshold"),
	}
	p.key = func(r *router.Request) uint64 { return hashPrefix(r, p.tokens, p.blockSize) }
	return p
}

func (p *prefixHash) choose(v *view, r *router.Request, _ chance) int {
	p.ring.update(v.workers)
	home := p.ring.at[p.ring.find(p.key(r))].worker
	load, mean := float64(v.requests[home]), v.mean()+1/float64(len(v.workers))
	if load > mean*p.factor && load-mean > p.abs {
		return least(v.workers, v.requests)
	}
	return home
}
