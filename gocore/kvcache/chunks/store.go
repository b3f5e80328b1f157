package chunks

import "dynosim/gocore/kvcache"

// Policy is an order of eviction.
type Policy uint8

// The orders that vLLM has.
const (
	LRU Policy = iota
	ARC
)

// Store is the memory of the host. It is not safe for concurrent use.
type Store struct {
	capacity  int
	threshold int
	chunks    map[kvcache.BlockID]*Chunk
	idle      int
	order     order
	offers    map[kvcache.BlockID]int // of a key so far, with a threshold
	number    int                     // of the last offer
	use       Use
	spares    []*Chunk
	fresh     []*Chunk // scratch
}

// Use is what a store has done so far, in chunks.
type Use struct{ Stored, Loaded, Evicted, Resident int }

// Chunk is one that the store has.
type Chunk struct {
	key     kvcache.BlockID
	index   int // in the request that stores it
	storing bool
	loads   int // that run
	offer   int // the last one that it was part of
	present bool
	ranked
	place
}

// Index is which chunk it is of the request that stores it.
func (c *Chunk) Index() int { return c.index }

func (c *Chunk) idle() bool { return !c.storing && c.loads == 0 }

// order says which chunks go first.
type order interface {
	// learn sees the fresh chunks of an offer before anything is evicted for them.
	learn(r *Request, fresh []*Chunk)
	// evict chooses count idle chunks that are not part of an offer. There are so many.
	evict(count, offer int) []*Chunk
	// add takes a chunk in that a request stores.
	add(r *Request, c *Chunk)
	// touch notes that a request uses a chunk for the first time.
	touch(r *Request, c *Chunk, index int)
	// farewell notes that a request has ended that used c. It is called for the last chunk of the request first.
	farewell(a *access, c *Chunk)
	// forget notes that a request has ended.
	forget(r *Request)
}

// Request is what a store remembers of a request.
type Request struct {
	seen []access // by index
	group
	missed map[kvcache.BlockID]bool
}

// access is a chunk that a request has used, or not.
type access struct {
	chunk                *Chunk // nil if the store did not have it then
	key                  kvcache.BlockID
	used, stored, reused bool
}

// New returns an empty store of capacity chunks. A chunk is stored when it is offered for the threshold-th time.
func New(capacity, threshold int, policy Policy) *Store {
	s := &Store{capacity: capacity, threshold: threshold, chunks: map[kvcache.BlockID]*Chunk{}}
	if threshold > 1 {
		s.offers = map[kvcache.BlockID]int{}
	}
	if policy == ARC {
		s.order = newARC(capacity)
	} else {
		s.order = newLRU()
	}
	return s
}

// Use returns what the store has done so far.
func (s *Store) Use() Use {
	s.use.Resident = len(s.chunks)
	return s.use
}

// Find reports whether the store has a chunk, whether it is still being stored, and whether it is being loaded.
func (s *Store) Find(key kvcache.BlockID) (present, storing, loading bool) {
	c := s.chunks[key]
	if c == nil {
		return false, false, false
	}
	return true, c.storing, c.loads > 0
}

// Offer offers the chunks of a request from index first on. It returns those that are to be stored, and whether the store took the
// offer: if there is no room for all of them, it stores none. The slice is valid until the next call.
func (s *Store) Offer(r *Request, first int, keys []kvcache.BlockID) (stored []*Chunk, taken bool) {
	s.number++
	s.fresh = s.fresh[:0]
	idle, room := 0, s.capacity-len(s.chunks) // idle are those of the offer
	for i, key := range keys {
		c := s.chunks[key]
		if c != nil && c.offer == s.number {
			continue
		}
		if s.offers != nil {
			s.offers[key]++
		}
		switch {
		case c == nil:
			if s.offers != nil && s.offers[key] < s.threshold {
				continue
			}
			c = s.chunk(key, first+i)
			s.chunks[key] = c
			s.access(r, nil, key, first+i)
			s.fresh = append(s.fresh, c)
		case !c.storing:
			s.access(r, c, key, first+i)
			if c.idle() {
				idle++
			}
		}
		c.offer = s.number
	}
	if len(s.fresh) == 0 {
		return nil, true
	}
	s.order.learn(r, s.fresh)
	if short := len(s.fresh) - room; short > 0 {
		if short > s.idle-idle {
			for _, c := range s.fresh {
				s.drop(c)
			}
			return nil, false
		}
		for _, c := range s.order.evict(short, s.number) {
			s.drop(c)
			s.idle--
			s.use.Evicted++
		}
	}
	for _, c := range s.fresh {
		s.order.add(r, c)
		a := &r.seen[c.index]
		a.chunk, a.stored = c, true
	}
	s.use.Stored += len(s.fresh)
	return s.fresh, true
}

func (s *Store) chunk(key kvcache.BlockID, index int) *Chunk {
	c := &Chunk{}
	if last := len(s.spares) - 1; last >= 0 {
		c, s.spares = s.spares[last], s.spares[:last]
	}
	*c = Chunk{key: key, index: index, storing: true, present: true}
	return c
}

func (s *Store) drop(c *Chunk) {
	delete(s.chunks, c.key)
	c.present = false
	s.spares = append(s.spares, c)
}

// access notes that a request uses a chunk, the first time with an effect on the order of eviction. c is nil if the store does not
// have it.
func (s *Store) access(r *Request, c *Chunk, key kvcache.BlockID, index int) {
	for index >= len(r.seen) {
		r.seen = append(r.seen, access{})
	}
	a := &r.seen[index]
	if !a.used {
		*a = access{chunk: c, key: key, used: true}
		s.order.touch(r, c, index)
	}
	if c != nil && !a.stored {
		a.reused = true
	}
}

// Stored tells that chunks have been copied to the host.
func (s *Store) Stored(copied []*Chunk) {
	for _, c := range copied {
		c.storing = false
	}
	s.idle += len(copied)
}

// Load begins to load chunks of a request, from index first on, and returns them. The store has them, and none is being stored.
func (s *Store) Load(r *Request, first int, keys []kvcache.BlockID) []*Chunk {
	loaded := make([]*Chunk, len(keys))
	for i, key := range keys {
		c := s.chunks[key]
		if c.idle() {
			s.idle--
		}
		c.loads++
		s.access(r, c, key, first+i)
		loaded[i] = c
	}
	return loaded
}

// Loaded tells that chunks have been loaded.
func (s *Store) Loaded(loaded []*Chunk) {
	for _, c := range loaded {
		if c.loads--; c.idle() {
			s.idle++
		}
	}
	s.use.Loaded += len(loaded)
}

// Farewell tells that a request has ended and makes no more offers.
func (s *Store) Farewell(r *Request) {
	for i := len(r.seen) - 1; i >= 0; i-- {
		a := &r.seen[i]
		if !a.used {
			continue
		}
		c := a.chunk
		if c == nil || c.key != a.key || !c.present {
			c = s.chunks[a.key]
		}
		if c != nil {
			s.order.farewell(a, c)
		}
	}
	s.order.forget(r)
	*r = Request{}
}
