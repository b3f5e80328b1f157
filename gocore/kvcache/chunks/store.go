package chunks

import (
	"math"
	"slices"

	"dynosim/gocore/kvcache"
)

// Policy is an order of eviction.
type Policy uint8

// The orders that vLLM has.
const (
	LRU Policy = iota
	ARC
)

// Span is some chunks of a request that follow each other. The keys of no two chunks of a request are equal.
type Span struct {
	Key   kvcache.BlockID // of the first one; each further one has a key that is larger by the stride of the store
	Index int             // which chunk of the request the first one is
	Count int
}

// Store is the memory of the host. It is not safe for concurrent use.
type Store struct {
	capacity  int
	threshold int
	stride    kvcache.BlockID
	longest   int // chunks of a run

	index    index
	runs     []*run // by number
	spares   []*run
	resident int // chunks
	idle     int // chunks
	order    order
	offers   map[kvcache.BlockID]int // of a key so far, with a threshold
	number   int                     // of the last offer
	records  bool
	evicted  []Span // since TakeEvicted, if records
	use      Use

	fresh, stored []Span // scratch
}

// Use is what a store has done so far, in chunks.
type Use struct{ Stored, Loaded, Evicted, Resident int }

// run is some chunks that the store has, whose keys follow each other and to which the same has happened. Their order
// of eviction is from the last one to the first.
type run struct {
	number  int32
	key     kvcache.BlockID // of the first chunk
	count   int
	storing bool
	owner   int     // whose request stores it, or has
	readyMs float64 // when its copy to the host ends, +Inf as long as that is not known
	loads   int     // that are under way
	offer   int     // the last one that it was part of
	ranked
	place
}

func (e *run) idle() bool { return !e.storing && e.loads == 0 }

// order says which chunks go first.
type order interface {
	// learn sees the fresh chunks of an offer before anything is evicted for them.
	learn(r *Request, s *Store, fresh []Span)
	// evict lets the store drop count idle chunks that are not part of the last offer. There are at least count of
	// them.
	evict(s *Store, count int)
	// add takes a run in that a request stores, from its chunk index on.
	add(r *Request, e *run, index int)
	// join notes that a request uses chunks for the first time, and touch what the store has of them.
	join(r *Request)
	touch(r *Request, e *run, index int)
	// remove takes a run out that was never stored.
	remove(e *run)
	// split puts a run into the order that was the beginning of another one, or its end.
	split(rest, part *run, end bool)
	// farewell notes that a request has ended that used e. It is called for the last chunks of the request first.
	farewell(a *access, e *run)
	// forget notes that a request has ended.
	forget(r *Request)
}

// Request is what a store remembers of a request.
type Request struct {
	Owner int // of those that share the store, the one that has the request

	seen []access // by index
	group
	missed map[kvcache.BlockID]bool
}

// access is some chunks that a request has used.
type access struct {
	Span
	stored, reused bool
}

func (a *access) end() int { return a.Index + a.Count }

// New returns an empty store of capacity chunks, whose keys are stride apart in a request as a rule. A chunk is stored
// when it is offered for the threshold-th time.
func New(capacity, stride, threshold int, policy Policy) *Store {
	s := &Store{capacity: capacity, stride: kvcache.BlockID(stride), threshold: threshold, longest: capacity,
		index: newIndex()}
	if threshold > 1 {
		s.offers = map[kvcache.BlockID]int{}
	}
	if policy == ARC {
		s.order, s.longest = newARC(capacity), 1 // it weighs chunks one by one
	} else {
		s.order = newLRU()
	}
	return s
}

// Group makes a store take chunks of several groups of layers, one at a time: the index of a chunk is that of
// its tokens, times the number of groups, plus the number of its group.
func (s *Store) Group(groups int) {
	s.longest = 1
	if l, isLRU := s.order.(*lru); isLRU {
		l.groups = groups
	}
}

// Use returns what the store has done so far.
func (s *Store) Use() Use {
	s.use.Resident = s.resident
	return s.use
}

// Find counts the leading chunks that the store has, and reports whether any of those is still being stored, or being
// loaded.
func (s *Store) Find(span Span) (present int, storing, loading bool) {
	for present < span.Count {
		e, offset := s.at(s.key(span, present))
		if e == nil {
			break
		}
		present += min(e.count-offset, span.Count-present)
		storing = storing || e.storing
		loading = loading || e.loads > 0
	}
	return present, storing, loading
}

// FindFor does what Find does, for one of those that share the store, at an instant: what others are storing is there
// once its copy has ended. Whose loads run is not told.
func (s *Store) FindFor(owner int, span Span, nowMs float64) (present int, storing bool) {
	for present < span.Count {
		e, offset := s.at(s.key(span, present))
		if e == nil || e.storing && e.owner != owner && e.readyMs > nowMs {
			break
		}
		present += min(e.count-offset, span.Count-present)
		storing = storing || e.storing && e.owner == owner
	}
	return present, storing
}

// Submitted tells when the copies of chunks to the host end.
func (s *Store) Submitted(spans []Span, endMs float64) {
	for _, span := range spans {
		s.each(span, func(e *run, _ int) { e.readyMs = endMs })
	}
}

// key returns the key of chunk i of a span.
func (s *Store) key(span Span, i int) kvcache.BlockID { return span.Key + kvcache.BlockID(i)*s.stride }

// part returns count chunks of a span from its chunk i on.
func (s *Store) part(span Span, i, count int) Span {
	return Span{Key: s.key(span, i), Index: span.Index + i, Count: count}
}

// at returns the run of a key, and which of its chunks that is.
func (s *Store) at(key kvcache.BlockID) (e *run, offset int) {
	number, any := s.index.at(key)
	if !any {
		return nil, 0
	}
	e = s.runs[number]
	return e, int((key - e.key) / s.stride)
}

// cut makes chunks of a run, from offset on, a run of their own.
func (s *Store) cut(e *run, offset, count int) *run {
	if rest := e.count - offset - count; rest > 0 {
		e = s.split(e, e.count-rest)[0]
	}
	if offset > 0 {
		e = s.split(e, offset)[1]
	}
	return e
}

// split makes two runs of one, the first of which has count chunks.
func (s *Store) split(e *run, count int) [2]*run {
	rest := e.count - count
	key := e.key + kvcache.BlockID(count)*s.stride
	part := s.newRun()
	part.storing, part.loads, part.offer = e.storing, e.loads, e.offer
	part.owner, part.readyMs = e.owner, e.readyMs
	if count < rest {
		part.key, part.count = e.key, count
		e.key, e.count = key, rest
		s.order.split(e, part, false)
	} else {
		part.key, part.count = key, rest
		e.count = count
		s.order.split(e, part, true)
	}
	s.index.set(part.key, s.stride, part.count, part.number)
	if count < rest {
		return [2]*run{part, e}
	}
	return [2]*run{e, part}
}

// Offer offers chunks of a request. It returns those that are to be stored, and whether the store took the offer: if
// there is no room for all of them, it stores none. The slice is valid until the next call.
func (s *Store) Offer(r *Request, spans ...Span) (stored []Span, taken bool) {
	s.number++
	s.fresh = s.fresh[:0]
	fresh, idle := 0, 0 // idle are chunks of the offer that are idle
	for _, span := range spans {
		for i := 0; i < span.Count; {
			e, offset := s.at(s.key(span, i))
			if e == nil {
				n := s.index.absent(s.key(span, i), s.stride, span.Count-i)
				fresh += s.miss(r, s.part(span, i, n))
				i += n
				continue
			}
			n := min(e.count-offset, span.Count-i)
			e = s.cut(e, offset, n)
			e.offer = s.number
			s.count(e.key, n)
			if !e.storing {
				if e.idle() {
					idle += n
				}
				s.access(r, s.part(span, i, n), true)
			}
			i += n
		}
	}
	if fresh == 0 {
		return nil, true
	}
	return s.admit(r, fresh, idle)
}

// Fetch takes room for the leading ones of chunks of a request that the store does not have: they are being stored,
// though from behind it, until Stored or Drop tells of them. It returns those, none if there is no room. The store has
// the chunks before them, which do not leave it for that. The slice is valid until the next call.
func (s *Store) Fetch(r *Request, before, spans []Span) (fetched []Span) {
	s.number++
	s.fresh = s.fresh[:0]
	fresh, idle := 0, 0
	for _, span := range before {
		s.each(span, func(e *run, index int) {
			e.offer = s.number
			if e.idle() {
				idle += e.count
			}
		})
		s.access(r, span, true)
	}
	for _, span := range spans {
		n := s.index.absent(span.Key, s.stride, span.Count)
		if n > 0 {
			s.fresh = append(s.fresh, s.part(span, 0, n))
			s.access(r, s.part(span, 0, n), false)
			fresh += n
		}
		if n < span.Count {
			break
		}
	}
	if fresh == 0 {
		return nil
	}
	fetched, _ = s.admit(r, fresh, idle)
	return fetched
}

// Drop gives up chunks that were to be stored, as Fetch had it.
func (s *Store) Drop(span Span) {
	for i := 0; i < span.Count; {
		e, offset := s.at(s.key(span, i))
		e = s.cut(e, offset, min(e.count-offset, span.Count-i))
		n := e.count
		i += n
		s.order.remove(e)
		records := s.records
		s.records = false // it never was there
		s.idle += n
		s.shorten(e, n)
		s.records = records
		s.use.Evicted -= n
		s.use.Stored -= n
	}
}

// admit makes fresh chunks be stored, for which it evicts others, but none of the idle ones of the offer. If there is
// no room for all of them, it stores none.
func (s *Store) admit(r *Request, fresh, idle int) (stored []Span, taken bool) {
	s.order.learn(r, s, s.fresh)
	if short := fresh - (s.capacity - s.resident); short > 0 {
		if short > s.idle-idle {
			return nil, false
		}
		s.order.evict(s, short)
	}
	s.stored = s.stored[:0]
	for _, span := range s.fresh {
		for i := 0; i < span.Count; i += s.longest {
			s.add(r, s.part(span, i, min(s.longest, span.Count-i)))
		}
	}
	s.resident += fresh
	s.use.Stored += fresh
	return s.stored, true
}

// miss notes that chunks are offered that the store does not have, and counts those that it is to have.
func (s *Store) miss(r *Request, span Span) (fresh int) {
	if s.offers == nil {
		s.fresh = append(s.fresh, span)
		s.access(r, span, false)
		return span.Count
	}
	s.count(span.Key, span.Count)
	for i := 0; i < span.Count; {
		n := 0
		for i+n < span.Count && s.offers[s.key(span, i+n)] >= s.threshold {
			n++
		}
		if n > 0 {
			s.fresh = append(s.fresh, s.part(span, i, n))
			s.access(r, s.part(span, i, n), false)
			fresh += n
		}
		i += n + 1
	}
	return fresh
}

// count counts offers of keys, with a threshold.
func (s *Store) count(key kvcache.BlockID, count int) {
	if s.offers == nil {
		return
	}
	for range count {
		s.offers[key]++
		key += s.stride
	}
}

// add makes chunks a run that is being stored.
func (s *Store) add(r *Request, span Span) {
	e := s.newRun()
	e.key, e.count, e.storing, e.offer = span.Key, span.Count, true, s.number
	e.owner, e.readyMs = r.Owner, math.Inf(1)
	s.index.set(e.key, s.stride, e.count, e.number)
	s.order.add(r, e, span.Index)
	for i := range r.within(span.Index, span.Index+span.Count, s.stride) {
		r.seen[i].stored = true
	}
	s.stored = append(s.stored, span)
}

func (s *Store) newRun() *run {
	if last := len(s.spares) - 1; last >= 0 {
		e := s.spares[last]
		s.spares = s.spares[:last]
		*e = run{number: e.number}
		return e
	}
	e := &run{number: int32(len(s.runs))}
	s.runs = append(s.runs, e)
	return e
}

// shorten drops the last chunks of a run, and reports whether that is all of it.
func (s *Store) shorten(e *run, count int) (all bool) {
	e.count -= count
	s.index.clear(e.key+kvcache.BlockID(e.count)*s.stride, s.stride, count)
	s.resident -= count
	s.idle -= count
	s.use.Evicted += count
	if s.records {
		s.evicted = append(s.evicted, Span{Key: e.key + kvcache.BlockID(e.count)*s.stride, Count: count})
	}
	if e.count == 0 {
		s.spares = append(s.spares, e)
	}
	return e.count == 0
}

// Record makes the store keep what it evicts until TakeEvicted fetches it.
func (s *Store) Record() { s.records = true }

// TakeEvicted returns what has been evicted since the last call. It is valid until the store changes.
func (s *Store) TakeEvicted() []Span {
	gone := s.evicted
	s.evicted = s.evicted[:0]
	return gone
}

// access notes that a request uses chunks, the first time with an effect on the order of eviction. The store has them,
// or not.
func (s *Store) access(r *Request, span Span, present bool) {
	at := r.place(span.Index, s.stride)
	for i, end := span.Index, span.Index+span.Count; i < end; at++ {
		if at == len(r.seen) || r.seen[at].Index > i {
			to := end
			if at < len(r.seen) {
				to = min(to, r.seen[at].Index)
			}
			used := s.part(span, i-span.Index, to-i)
			r.seen = slices.Insert(r.seen, at, access{Span: used})
			s.order.join(r)
			if present {
				s.touch(r, used)
			}
		} else if r.seen[at].end() > end {
			r.divide(at, end, s.stride)
		}
		if a := &r.seen[at]; present && !a.stored {
			a.reused = true
		}
		i = r.seen[at].end()
	}
}

// touch makes chunks those of a request in the order of eviction.
func (s *Store) touch(r *Request, span Span) {
	s.each(span, func(e *run, index int) { s.order.touch(r, e, index) })
}

// each calls a function for the runs of chunks that the store has, made to begin and end with them.
func (s *Store) each(span Span, do func(e *run, index int)) {
	for i := 0; i < span.Count; {
		e, offset := s.at(s.key(span, i))
		e = s.cut(e, offset, min(e.count-offset, span.Count-i))
		do(e, span.Index+i)
		i += e.count
	}
}

// place returns where in seen the first access is that ends behind chunk index; it begins there, or behind it.
func (r *Request) place(index int, stride kvcache.BlockID) int {
	at := len(r.seen)
	for at > 0 && r.seen[at-1].end() > index {
		at--
	}
	if at < len(r.seen) && r.seen[at].Index < index {
		r.divide(at, index, stride)
		at++
	}
	return at
}

// divide makes two of an access, the second of which begins with chunk index.
func (r *Request) divide(at, index int, stride kvcache.BlockID) {
	first := &r.seen[at]
	second, count := *first, index-first.Index
	second.Key += kvcache.BlockID(count) * stride
	second.Index, second.Count = index, second.Count-count
	first.Count = count
	r.seen = slices.Insert(r.seen, at+1, second)
}

// within yields the places in seen of chunks from..to-1, all of which were used, and makes accesses begin and end
// there.
func (r *Request) within(from, to int, stride kvcache.BlockID) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for at := r.place(from, stride); from < to; at++ {
			if r.seen[at].end() > to {
				r.divide(at, to, stride)
			}
			from = r.seen[at].end()
			if !yield(at) {
				return
			}
		}
	}
}

// Stored tells that chunks have been copied to the host.
func (s *Store) Stored(copied []Span) {
	for _, span := range copied {
		s.each(span, func(e *run, _ int) {
			if e.storing = false; e.idle() {
				s.idle += e.count
			}
		})
	}
}

// Load begins to load chunks of a request. The store has them, and none is being stored.
func (s *Store) Load(r *Request, spans ...Span) {
	for _, span := range spans {
		s.each(span, func(e *run, _ int) {
			if e.idle() {
				s.idle -= e.count
			}
			e.loads++
		})
		s.access(r, span, true)
	}
}

// Loaded tells that chunks have been loaded.
func (s *Store) Loaded(loaded []Span) {
	for _, span := range loaded {
		s.each(span, func(e *run, _ int) {
			if e.loads--; e.idle() {
				s.idle += e.count
			}
		})
		s.use.Loaded += span.Count
	}
}

// Farewell tells that a request has ended and makes no more offers.
func (s *Store) Farewell(r *Request) {
	for i := len(r.seen) - 1; i >= 0; i-- {
		a := &r.seen[i]
		for left := a.Count; left > 0; {
			if left -= s.index.absentLast(a.Key, s.stride, left); left == 0 {
				break
			}
			e, offset := s.at(s.key(a.Span, left-1))
			n := min(offset+1, left)
			s.order.farewell(a, s.cut(e, offset+1-n, n))
			left -= n
		}
	}
	s.order.forget(r)
	*r = Request{}
}
