package policies

import (
	"maps"
	"math"
	"slices"

	"dynosim/gocore/router"
	"dynosim/gocore/strictjson"
)

var bucketFields = []strictjson.Field{
	integer("balance_abs_threshold", 0, 64,
		"Prompts are spread unevenly only if the tokens sent to two workers differ by more than this."),
	number("balance_rel_threshold", strictjson.Number{Min: 1}, 1.5,
		"They are only if one worker was sent more than this times the tokens of another."),
	number("bucket_adjust_interval_secs", positive, 5,
		"Seconds between two adjustments of the ranges of lengths to the prompts seen."),
}

// bucket sends prompts of about the same length to the same worker, as the prefill policy of that name of SGLang's
// gateway and Shepherd does. The gateways count characters, we count tokens.
type bucket struct {
	memoryless
	abs       int64
	rel       float64
	everyMs   float64
	nextMs    float64
	sums      []int64     // of prompt tokens ever sent, by worker
	prompts   map[int]int // that were seen, by length
	upTo      []int       // where ranges end, all but the last one's
	adjustFor int         // workers for which upTo was made
}

func newBucket(o router.Options) rule {
	every := 1000 * o.Settings.Float("bucket_adjust_interval_secs")
	return &bucket{
		abs: int64(o.Settings.Int("balance_abs_threshold")), rel: o.Settings.Float("balance_rel_threshold"),
		everyMs: every, nextMs: every, prompts: map[int]int{},
	}
}

func (b *bucket) choose(v *view, r *router.Request, _ chance) int {
	b.growTo(len(v.active))
	if v.nowMs >= b.nextMs {
		b.adjust(len(v.workers))
		b.nextMs = (math.Floor(v.nowMs/b.everyMs) + 1) * b.everyMs
	}
	low := least(v.workers, b.sums)
	high := low
	for _, w := range v.workers {
		if b.sums[w] > b.sums[high] {
			high = w
		}
	}
	if b.sums[high]-b.sums[low] > b.abs && float64(b.sums[high]) > float64(b.sums[low])*b.rel {
		return low
	}
	place := 0
	// before the first adjustment all lengths are in the first range
	if len(b.upTo) > 0 && b.adjustFor == len(v.workers) {
		place, _ = slices.BinarySearch(b.upTo, r.PromptTokens)
		place = min(place, len(v.workers)-1)
	}
	return v.workers[place]
}

func (b *bucket) sent(v *view, r *router.Request, worker int) {
	b.growTo(len(v.active))
	b.sums[worker] += int64(r.PromptTokens)
	b.prompts[r.PromptTokens]++
}

// adjust makes ranges of lengths whose prompts have about as many tokens together. A range ends, inclusively, with the
// length at which the sum since the last end reaches the fair share.
func (b *bucket) adjust(workers int) {
	lengths, total := slices.Sorted(maps.Keys(b.prompts)), 0
	for length, n := range b.prompts {
		total += n * length
	}
	b.upTo, b.adjustFor = b.upTo[:0], workers
	sum := 0
	for _, length := range lengths {
		for range b.prompts[length] {
			if sum += length; len(b.upTo) < workers-1 && sum*workers >= total {
				b.upTo = append(b.upTo, length)
				sum = 0
			}
		}
	}
}

func (b *bucket) growTo(workers int) {
	for len(b.sums) < workers {
		b.sums = append(b.sums, 0)
	}
}
