package sglang

import (
	"cmp"
	"slices"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/kvcache"
)

const (
	// lpmQueueLimit is the longest queue that is sorted.
	lpmQueueLimit = 128
	// Of several waiting requests whose prompts begin alike, and of which at most demotionTokens tokens are cached, only
	// the first keeps its turn. The others are demoted: they will find the beginning in the cache when it has run.
	demotionTokens = 32
	// refreshEvery is how often a queue in order of arrival is looked up, counted in attempts to admit requests.
	refreshEvery = 32
)

// lpm is scratch of longest-prefix-match.
type lpm struct {
	scores         []score
	seenBeginnings map[kvcache.BlockID]struct{}
}

type score struct {
	request *sequence
	hit     int
	demoted bool
}

// orderQueue sorts the waiting queue by policy. Its look-ups make what they find the youngest.
func (s *Scheduler) orderQueue() {
	if s.waiting.Len() == 0 {
		return
	}
	if s.rules.Policy != engineargs.LPM || s.waiting.Len() > lpmQueueLimit {
		s.refreshQueue()
		return
	}
	s.scoreQueue()
	slices.SortStableFunc(s.lpm.scores, compareScores)
	for i, c := range s.lpm.scores {
		s.waiting.Set(i, c.request)
	}
}

// refreshQueue looks up the front of a queue in order of arrival now and then.
func (s *Scheduler) refreshQueue() {
	if s.attempts%refreshEvery == 0 {
		for i := min(s.waiting.Len(), lpmQueueLimit) - 1; i >= 0; i-- {
			r := s.waiting.At(i)
			s.pool.Refresh(&r.lease.Key, r.tokens())
		}
	}
	s.attempts++
}

// compareScores puts the longest hit first, and demoted requests last, which keep their order.
func compareScores(a, b score) int {
	switch {
	case a.demoted && b.demoted:
		return 0
	case a.demoted:
		return 1
	case b.demoted:
		return -1
	}
	return cmp.Compare(b.hit, a.hit)
}

// scoreQueue finds out how much of each waiting sequence is in the cache, and which requests are demoted. Two prompts
// share the first demotionTokens tokens exactly when they agree in the page where those end, be it whole or not.
func (s *Scheduler) scoreQueue() {
	last := (demotionTokens - 1) / s.pageSize
	s.lpm.scores = s.lpm.scores[:0]
	clear(s.lpm.seenBeginnings)
	for i := range s.waiting.Len() {
		r := s.waiting.At(i)
		key := &r.lease.Key
		found, device := s.pool.Refresh(key, r.tokens())
		c := score{request: r, hit: min(found, r.tokens()-1)}
		if named := len(key.Prompt.Segments) * key.Prompt.PerSegment; device <= demotionTokens &&
			r.promptTokens >= demotionTokens && last < named {
			id := key.Prompt.Block(last)
			_, c.demoted = s.lpm.seenBeginnings[id]
			s.lpm.seenBeginnings[id] = struct{}{}
		}
		s.lpm.scores = append(s.lpm.scores, c)
	}
}
