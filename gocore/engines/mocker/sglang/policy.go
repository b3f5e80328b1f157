package sglang

import (
	"cmp"
	"slices"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/kvcache"
)

// Limits of the longest-prefix-match policy.
const (
	lpmQueueLimit = 128 // longer queues are not sorted
	// A request that has at most the given number of tokens in the cache, and shares at least as many with one before
	// it in the queue that is in the same situation, goes behind: it will find them when that one has run.
	demotionTokens = 32
)

// lpm is what longest-prefix-match remembers from pass to pass, and scratch.
type lpm struct {
	// sorted tells that the queue is as it was after it had been sorted. Sorting it again would change nothing while
	// the pool has this version: of those that share a beginning, the one that was not demoted still comes first.
	sorted   bool
	version  int
	scores   []score
	demoters map[kvcache.BlockID]struct{}
}

type score struct {
	request *sequence
	hit     int
	demoted bool
}

// orderQueue sorts the waiting queue by policy; FCFS leaves it alone.
func (s *Scheduler) orderQueue() {
	if s.args.SGLang.Policy != engineargs.LPM || s.waiting.Len() > lpmQueueLimit {
		return
	}
	if s.lpm.sorted && s.lpm.version == s.pool.Version() {
		return
	}
	s.scoreQueue()
	slices.SortStableFunc(s.lpm.scores, compareScores)
	s.lpm.sorted, s.lpm.version = true, s.pool.Version()
	for i, c := range s.lpm.scores {
		s.waiting.Set(i, c.request)
	}
}

func compareScores(a, b score) int {
	if a.demoted != b.demoted {
		if a.demoted {
			return 1
		}
		return -1
	}
	return cmp.Compare(b.hit, a.hit)
}

// scoreQueue finds out how much of each waiting sequence is in the cache, and which are demoted. Two sequences share
// this many tokens exactly when they agree in the page where those end.
func (s *Scheduler) scoreQueue() {
	last := ceilDiv(demotionTokens, s.pageSize) - 1
	s.lpm.scores = s.lpm.scores[:0]
	clear(s.lpm.demoters)
	for i := range s.waiting.Len() {
		r := s.waiting.At(i)
		tokens := s.tokens(r)
		c := score{request: r, hit: s.pool.CachedTokens(&r.holding.Key, tokens)}
		if c.hit <= demotionTokens && tokens/s.pageSize > last {
			id := r.holding.Key.Block(last)
			_, c.demoted = s.lpm.demoters[id]
			s.lpm.demoters[id] = struct{}{}
		}
		s.lpm.scores = append(s.lpm.scores, c)
	}
}
