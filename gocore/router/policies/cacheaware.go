package policies

import (
	"math"

	"dynosim/gocore/router"
	"dynosim/gocore/strictjson"
)

func treeFields(evictionSecs float64) []strictjson.Field {
	return []strictjson.Field{
		number("cache_threshold", fraction, 0.3, "A prompt is a hit only if more than this part of it is in the tree."),
		integer("balance_abs_threshold", 0, 64,
			"The load is out of balance only if the requests in flight differ by more than this."),
		number("balance_rel_threshold", strictjson.Number{Min: 1}, 1.5,
			"It is only if one worker has more than this times the requests of another."),
		number("eviction_interval_secs", positive, evictionSecs, "Seconds between two looks at the size of the tree."),
		integer("max_tree_size", 1, 67108864,
			"Tokens that the tree may hold of each worker; the least recently used ends of prompts go first."),
	}
}

var (
	sglangTreeFields = treeFields(60)
	vllmTreeFields   = vllmFields()
	smgTreeFields    = smgFields()
)

// vllmFields returns the settings of the tree of vLLM's router.
func vllmFields() []strictjson.Field {
	fields := treeFields(120)
	fields[4].Doc = "What the tree may hold of each worker, where a token counts 8; the least recently used ends of " +
		"prompts go first."
	return fields
}

// smgFields returns the settings of Shepherd's tree, whose thresholds mean something else.
func smgFields() []strictjson.Field {
	fields := treeFields(60)
	fields[1].Doc = "A worker is skipped only if it has more requests in flight than the mean by more than this, or " +
		"by more than max(4, 2 sqrt(mean)) where that is less."
	fields[2].Doc = "It is skipped only above this times the mean."
	return fields[:3] // how its tree is bounded is not known
}

// cacheAware is what the three cache-aware rules share: the tree, and its eviction.
type cacheAware struct {
	tree      *tree
	blockSize int
	threshold float64
	abs       int
	rel       float64
	everyMs   float64 // between evictions, 0 for none
	nextMs    float64
	limit     int // blocks of a worker
}

func newCacheAware(o router.Options) cacheAware {
	return cacheAware{
		tree: newTree(), blockSize: o.BlockSize,
		threshold: o.Settings.Float("cache_threshold"), abs: o.Settings.Int("balance_abs_threshold"),
		rel: o.Settings.Float("balance_rel_threshold"),
	}
}

func (c *cacheAware) evictEvery(o router.Options, tokensPerUnit int) {
	c.everyMs = 1000 * o.Settings.Float("eviction_interval_secs")
	c.nextMs = c.everyMs
	c.limit = o.Settings.Int("max_tree_size") / (o.BlockSize * tokensPerUnit)
}

// due evicts if it is time to. The tree has not changed since the last request, so that evictions in between would have
// done the same.
func (c *cacheAware) due(nowMs float64) {
	if c.everyMs == 0 || nowMs < c.nextMs {
		return
	}
	c.tree.evict(c.limit)
	c.nextMs = (math.Floor(nowMs/c.everyMs) + 1) * c.everyMs
}

func (c *cacheAware) blocks(r *router.Request) int {
	return min(r.PromptTokens/c.blockSize, len(r.Prompt.Segments)*r.Prompt.PerSegment)
}

// sent implements [rule]: the whole prompt is entered, whatever the reason of the choice was.
func (c *cacheAware) sent(_ *view, r *router.Request, worker int) {
	c.tree.enter(r.Prompt, c.blocks(r), worker)
}

func (*cacheAware) ended(string, int) {}

func (c *cacheAware) forget(worker int) { c.tree.forget(worker) }

// imbalanced reports whether the load is out of balance as SGLang's gateway and vLLM's router see it; relaxed is the
// worker that has the least then.
func (c *cacheAware) imbalanced(v *view) (relaxed int, unbalanced bool) {
	relaxed = least(v.workers, v.requests)
	low, high := v.requests[relaxed], 0
	for _, w := range v.workers {
		high = max(high, v.requests[w])
	}
	return relaxed, high-low > c.abs && float32(high) > float32(low)*float32(c.rel)
}

// balance returns the worker with the fewest requests in flight; and, while the load is balanced, how many blocks of
// the prompt are in the tree, and who holds them.
func (c *cacheAware) balance(v *view, r *router.Request) (relaxed, matched int, holders []holder) {
	c.due(v.nowMs)
	relaxed, unbalanced := c.imbalanced(v)
	if unbalanced {
		return relaxed, 0, nil
	}
	matched, holders = c.tree.match(r.Prompt, c.blocks(r))
	return relaxed, matched, holders
}

// leastOf returns the first by number of the holders with the fewest requests in flight that get requests, false for
// none.
func leastOf(v *view, holders []holder) (best int, found bool) {
	for _, h := range holders {
		if !v.has(h.worker) {
			continue
		}
		better := v.requests[h.worker] < loadOf(v, best, found) ||
			found && v.requests[h.worker] == v.requests[best] && h.worker < best
		if better {
			best, found = h.worker, true
		}
	}
	return best, found
}

func loadOf(v *view, worker int, found bool) int {
	if !found {
		return math.MaxInt
	}
	return v.requests[worker]
}

// sglangCacheAware takes the worker that was first given the prefix, whatever its load, as long as the load is
// balanced.
type sglangCacheAware struct{ cacheAware }

func newSGLangCacheAware(o router.Options) rule {
	c := &sglangCacheAware{newCacheAware(o)}
	c.evictEvery(o, 1)
	return c
}

func (c *sglangCacheAware) choose(v *view, r *router.Request, _ chance) int {
	relaxed, matched, holders := c.balance(v, r)
	if float32(matched*c.blockSize)/float32(r.PromptTokens) > float32(c.threshold) {
		for _, h := range holders {
			if v.has(h.worker) {
				return h.worker
			}
		}
	}
	return relaxed
}

// vllmCacheAware takes the least loaded worker that holds the prefix, as long as the load is balanced.
type vllmCacheAware struct{ cacheAware }

// vllmTokenSize is what a token counts against the size of the tree in vLLM's router.
const vllmTokenSize = 8

func newVLLMCacheAware(o router.Options) rule {
	c := &vllmCacheAware{newCacheAware(o)}
	c.evictEvery(o, vllmTokenSize)
	return c
}

func (c *vllmCacheAware) choose(v *view, r *router.Request, _ chance) int {
	relaxed, matched, holders := c.balance(v, r)
	// the threshold alone has 32 bits
	if float64(matched*c.blockSize)/float64(r.PromptTokens) > float64(float32(c.threshold)) {
		if w, found := leastOf(v, holders); found {
			return w
		}
	}
	return relaxed
}

// smgCacheAware takes the least loaded worker that holds the prefix, unless that has clearly more to do than the mean.
// Ties are drawn.
type smgCacheAware struct {
	cacheAware
	holders []int // room that is used again
}

func newSMGCacheAware(o router.Options) rule { return &smgCacheAware{cacheAware: newCacheAware(o)} }

func (c *smgCacheAware) choose(v *view, r *router.Request, draw chance) int {
	matched, holders := c.tree.match(r.Prompt, c.blocks(r))
	if float32(matched*c.blockSize)/float32(r.PromptTokens) > float32(c.threshold) {
		c.holders = c.holders[:0]
		for _, h := range holders {
			if v.has(h.worker) {
				c.holders = append(c.holders, h.worker)
			}
		}
		if len(c.holders) > 0 {
			mean, load := v.mean(), float64(v.requests[least(c.holders, v.requests)])
			if margin := min(float64(c.abs), max(4, 2*math.Sqrt(mean))); load-mean <= margin || load <= mean*c.rel {
				return drawLeast(c.holders, v.requests, draw)
			}
		}
	}
	return drawLeast(v.workers, v.requests, draw)
}
