package sglang

import (
	"slices"

	"dynosim/gocore/engine"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/engines/internal/storage"
	"dynosim/gocore/kvcache"
)

// prefetches fetch the beginnings of waiting prompts from storage behind the host (docs/tiers.md has the rules, which
// are ours but for the names of the policies):
//
//	a prompt comes: look-up on the device, the host and in the storage      it is at the head: wait, or go on
//	|--- storage -> host, page by page, in order of arrival ----------------|---> load from the host, as ever
type prefetches struct {
	client *storage.Client
	rules  engineargs.StorageArgs
	unseen []*sequence // that have come and were not looked up in the storage
	under  []*sequence // whose prompts are being fetched
}

// fetch is the pages from..from+Read.Blocks()-1 of a prompt on their way.
type fetch struct {
	storage.Fetch
	from int
}

// addStorage puts storage behind the host, which other workers read, too, and write.
func (s *Scheduler) addStorage(commons *engine.Commons) {
	rules := s.args.HostCache.Storage
	if commons == nil {
		commons = &engine.Commons{}
	}
	s.prefetches = &prefetches{client: storage.ClientOf(commons, rules), rules: rules}
	s.pool.PassOn(func(atMs float64, key *kvcache.Key, from, to int) { s.prefetches.client.Write(atMs, key, from, to) })
}

// leaveFetch gives up the fetch of a request that waits no more.
func (s *Scheduler) leaveFetch(r *sequence) {
	p := s.prefetches
	if p == nil {
		return
	}
	p.unseen = without(p.unseen, r)
	if r.fetch != nil {
		r.fetch.Read.Stop()
		s.arrive(r)
	}
}

// seek begins to fetch what the storage has of the prompts that have come.
func (s *Scheduler) seek() {
	p := s.prefetches
	for _, r := range p.unseen {
		limit := min((r.promptTokens-1)/s.pageSize, r.lease.Key.Shareable)
		known := s.pool.Known(&r.lease.Key, limit)
		pages := p.client.Find(&r.lease.Key, known, limit)
		if pages == 0 || pages*s.pageSize < p.rules.Threshold || !s.pool.Fetch(&r.lease.Key, known, pages) {
			continue
		}
		nowMs := s.pool.Clock()
		r.fetch = &fetch{
			Fetch: storage.Fetch{
				Read:    p.client.Read(nowMs, &r.lease.Key, known, known+pages),
				UntilMs: nowMs + p.rules.WaitMs(pages*s.pageSize),
			},
			from: known,
		}
		p.under = append(p.under, r)
	}
	if len(p.unseen) > 0 {
		p.unseen = p.unseen[:0]
		p.client.Advance(p.client.Now()) // what takes no time is there
		s.fetched()
	}
}

// fetched puts what has arrived whole into the tree.
func (s *Scheduler) fetched() {
	for i := 0; i < len(s.prefetches.under); {
		if r := s.prefetches.under[i]; r.fetch.Read.Over() {
			s.arrive(r)
		} else {
			i++
		}
	}
}

// arrive ends a fetch with the pages that have come.
func (s *Scheduler) arrive(r *sequence) {
	f := r.fetch
	r.fetch = nil
	s.prefetches.under = without(s.prefetches.under, r)
	s.pool.Arrive(&r.lease.Key, f.from, f.from+f.Read.Arrived(), f.Read.Blocks())
}

// awaitsFetch reports whether a request that could be admitted is passed over, as its prompt is being fetched.
func (s *Scheduler) awaitsFetch(r *sequence) bool {
	if r.fetch == nil {
		return false
	}
	if s.pool.Clock() < r.fetch.UntilMs {
		return true
	}
	r.fetch.Read.Stop()
	s.arrive(r)
	return false
}

// next returns where in the waiting queue the first request is that need not wait for its prompt, the length of the
// queue if there is none.
func (s *Scheduler) next() (place int) {
	if s.prefetches == nil || len(s.prefetches.under) == 0 {
		return 0
	}
	for place < s.waiting.Len() && s.awaitsFetch(s.waiting.At(place)) {
		place++
	}
	return place
}

// nextFetched returns when the next fetch ends, or the wait for it.
func (s *Scheduler) nextFetched() (ms float64, ok bool) {
	if s.prefetches == nil {
		return 0, false
	}
	for _, r := range s.prefetches.under {
		if atMs := r.fetch.NextMs(s.pool.Clock()); !ok || atMs < ms {
			ms, ok = atMs, true
		}
	}
	return ms, ok
}

// tellStorage reports with a pass single transfers between the host and the storage, and what routers can know of it.
func (s *Scheduler) tellStorage() {
	client := s.prefetches.client
	for _, c := range client.TakeCopies() {
		s.parts.Copy(c)
	}
	if s.observed && s.lowerTiers {
		s.out.KVEvents = append(slices.Clone(s.out.KVEvents), client.TakeEvents()...)
	}
}
