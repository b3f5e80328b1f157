package chunks

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"dynosim/gocore/kvcache"
)

// model is what a store with LRU does, chunk by chunk: a list of chunks with their ranks, sorted when something has to
// go.
type model struct {
	capacity, threshold int
	chunks              []*chunk
	offers              map[kvcache.BlockID]int
	counter             int
	use                 Use
}

type chunk struct {
	key          kvcache.BlockID
	major, minor int
	storing      bool
	loads        int
}

type client struct {
	number int
	seen   map[int]kvcache.BlockID // by index
}

func (m *model) find(key kvcache.BlockID) *chunk {
	for _, c := range m.chunks {
		if c.key == key {
			return c
		}
	}
	return nil
}

func (m *model) access(r *client, key kvcache.BlockID, index int) {
	if r.number == 0 {
		m.counter++
		r.number = m.counter
	}
	if _, known := r.seen[index]; known {
		return
	}
	r.seen[index] = key
	if c := m.find(key); c != nil && c.major < r.number {
		c.major, c.minor = r.number, -index
	}
}

func (m *model) offer(r *client, first int, keys []kvcache.BlockID) (stored []int, taken bool) {
	for i, key := range keys {
		m.offers[key]++
		c := m.find(key)
		if c == nil && m.offers[key] >= m.threshold {
			stored = append(stored, first+i)
			m.access(r, key, first+i)
		}
		if c != nil && !c.storing {
			m.access(r, key, first+i)
		}
	}
	var evictable []*chunk
	for _, c := range m.chunks {
		if !c.storing && c.loads == 0 && !slices.Contains(keys, c.key) {
			evictable = append(evictable, c)
		}
	}
	short := len(m.chunks) + len(stored) - m.capacity
	if len(stored) == 0 {
		return nil, true
	}
	if short > len(evictable) {
		return nil, false
	}
	slices.SortFunc(evictable, func(a, b *chunk) int {
		return cmp.Or(cmp.Compare(a.major, b.major), cmp.Compare(a.minor, b.minor))
	})
	for _, c := range evictable[:max(0, short)] {
		m.chunks = slices.DeleteFunc(m.chunks, func(d *chunk) bool { return c == d })
		m.use.Evicted++
	}
	for _, index := range stored {
		m.chunks = append(m.chunks, &chunk{key: keys[index-first], major: r.number, minor: -index, storing: true})
		m.use.Stored++
	}
	return stored, true
}

func (m *model) farewell(r *client) {
	for index := 99; index >= 0; index-- {
		if key, known := r.seen[index]; known {
			if c := m.find(key); c != nil {
				m.counter++
				c.major, c.minor = m.counter, 0
			}
		}
	}
}

// spansOf lists chunks of a prompt as long spans as there are.
func spansOf(keys []kvcache.BlockID, first int, stride kvcache.BlockID) (spans []Span) {
	for i, key := range keys {
		if i > 0 && key == keys[i-1]+stride {
			spans[len(spans)-1].Count++
		} else {
			spans = append(spans, Span{Key: key, Index: first + i, Count: 1})
		}
	}
	return spans
}

// TestStore runs random requests that offer, load and end, and checks after each step that what was stored is there or
// was evicted, that no more is there than fits, that nothing goes that is being copied or offered, and with LRU that
// chunk by chunk the same is done.
func TestStore(t *testing.T) {
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 1))
		capacity, stride, threshold, policy := 1+rng.IntN(200), kvcache.BlockID(1+rng.IntN(3)), rng.IntN(3),
			Policy(rng.IntN(2))
		if seed%2 == 0 {
			capacity = 1 + rng.IntN(20)
		}
		s := New(capacity, int(stride), threshold, policy)
		m := &model{capacity: capacity, threshold: threshold, offers: map[kvcache.BlockID]int{}}
		type running struct {
			*Request
			client
			keys []kvcache.BlockID
		}
		type copying struct {
			spans []Span
			keys  []kvcache.BlockID
		}
		var requests []*running
		var storing, loading []copying
		for range 200 {
			switch rng.IntN(6) {
			case 0: // a request arrives: prompts of three families have their beginnings in common
				r := &running{Request: &Request{}, client: client{seen: map[int]kvcache.BlockID{}}}
				family, own := kvcache.BlockID(rng.IntN(3))*1000, kvcache.BlockID(10000+1000*rng.IntN(20))
				shared := 1 + rng.IntN(30)
				for i := range 1 + rng.IntN(60) {
					if i < shared {
						r.keys = append(r.keys, family+kvcache.BlockID(i)*stride)
					} else {
						r.keys = append(r.keys, own+kvcache.BlockID(40*shared)*20000+kvcache.BlockID(i)*stride)
					}
				}
				requests = append(requests, r)
			case 1, 2: // offers some of its chunks
				if len(requests) == 0 {
					continue
				}
				r := requests[rng.IntN(len(requests))]
				first := rng.IntN(len(r.keys))
				keys := r.keys[first : first+1+rng.IntN(len(r.keys)-first)]
				before := s.Use()
				var kept []kvcache.BlockID
				for _, key := range keys {
					if present, _, _ := s.Find(Span{Key: key, Count: 1}); present == 1 {
						kept = append(kept, key)
					}
				}
				for _, copies := range [][]copying{storing, loading} {
					for _, c := range copies {
						kept = append(kept, c.keys...)
					}
				}
				stored, taken := s.Offer(r.Request, spansOf(keys, first, stride)...)
				if !taken && s.Use() != before {
					t.Fatalf("seed %d: a refused offer changed %+v to %+v", seed, before, s.Use())
				}
				for _, key := range kept {
					if present, _, _ := s.Find(Span{Key: key, Count: 1}); present == 0 {
						t.Fatalf("seed %d: chunk %d went while it was offered or copied", seed, key)
					}
				}
				var c copying
				var indexes []int
				for _, span := range stored {
					c.spans = append(c.spans, span)
					for i := range span.Count {
						indexes = append(indexes, span.Index+i)
						c.keys = append(c.keys, r.keys[span.Index+i])
					}
				}
				if policy == LRU {
					if want, took := m.offer(&r.client, first, keys); took != taken || !slices.Equal(want, indexes) {
						t.Fatalf("seed %d: stored %v, %v, want %v, %v", seed, indexes, taken, want, took)
					}
				}
				if len(stored) > 0 {
					storing = append(storing, c)
				}
			case 3: // a store ends
				if len(storing) > 0 {
					s.Stored(storing[0].spans)
					for _, key := range storing[0].keys {
						if c := m.find(key); c != nil {
							c.storing = false
						}
					}
					storing = storing[1:]
				}
			case 4: // a load begins, or ends
				if len(loading) > 0 && rng.IntN(2) == 0 {
					s.Loaded(loading[0].spans)
					for _, key := range loading[0].keys {
						if c := m.find(key); c != nil {
							c.loads--
						}
					}
					loading = loading[1:]
				} else if len(requests) > 0 {
					r := requests[rng.IntN(len(requests))]
					first, to := rng.IntN(len(r.keys)), 0
					for to = first; to < len(r.keys); to++ {
						if present, busy, _ := s.Find(Span{Key: r.keys[to], Count: 1}); present == 0 || busy {
							break
						}
					}
					if to > first {
						spans := spansOf(r.keys[first:to], first, stride)
						if n, busy, _ := s.Find(spans[0]); n != spans[0].Count || busy {
							t.Fatalf("seed %d: found %d of %d, storing %v", seed, n, spans[0].Count, busy)
						}
						s.Load(r.Request, spans...)
						loading = append(loading, copying{spans, r.keys[first:to]})
						for i := first; i < to && policy == LRU; i++ {
							m.find(r.keys[i]).loads++
							m.access(&r.client, r.keys[i], i)
						}
					}
				}
			case 5: // a request ends
				if len(requests) > 0 {
					i := rng.IntN(len(requests))
					s.Farewell(requests[i].Request)
					m.farewell(&requests[i].client)
					requests = slices.Delete(requests, i, i+1)
				}
			}
			check(t, seed, s, capacity)
			if use := s.Use(); policy == LRU &&
				(use.Evicted != m.use.Evicted || use.Stored != m.use.Stored || use.Resident != len(m.chunks)) {
				t.Fatalf("seed %d: %+v, want %+v and %d", seed, use, m.use, len(m.chunks))
			}
			for _, c := range m.chunks {
				present, busy, loading := s.Find(Span{Key: c.key, Count: 1})
				if present == 0 || busy != c.storing || loading != (c.loads > 0) {
					t.Fatalf("seed %d: %+v is there: %d, storing %v, loading %v", seed, *c, present, busy, loading)
				}
			}
		}
	}
}

// check counts what is there.
func check(t *testing.T, seed uint64, s *Store, capacity int) {
	t.Helper()
	counted := map[*run]int{}
	for number, p := range s.index.pages {
		for place := range p.runs {
			if p.taken>>place&1 == 1 {
				key := number*pageSize + kvcache.BlockID(place)
				e, offset := s.at(key)
				if counted[e]++; e.key+kvcache.BlockID(offset)*s.stride != key {
					t.Fatalf("seed %d: key %d is said to be chunk %d of %d", seed, key, offset, e.key)
				}
			}
		}
	}
	idle, resident := 0, 0
	for e, count := range counted {
		if count != e.count {
			t.Fatalf("seed %d: run %d of %d chunks has %d", seed, e.number, e.count, count)
		}
		if resident += count; e.idle() {
			idle += count
		}
	}
	if use := s.Use(); use.Stored != use.Evicted+use.Resident || use.Resident != resident || resident > capacity ||
		idle != s.idle {
		t.Fatalf("seed %d: %+v in a store of %d, %d there, %d idle, counted %d", seed, use, capacity, resident, idle,
			s.idle)
	}
	if a, isARC := s.order.(*arc); isARC && a.recent.Len()+a.frequent.Len() != resident {
		t.Fatalf("seed %d: %d + %d chunks listed, %d there", seed, a.recent.Len(), a.frequent.Len(), resident)
	}
	if len(s.runs)-len(s.spares) != len(counted) {
		t.Fatalf("seed %d: %d runs, %d spare, %d in use", seed, len(s.runs), len(s.spares), len(counted))
	}
}

// TestOrderLRU evicts the tail of what was used least recently: a request's chunks rank together until it ends.
func TestOrderLRU(t *testing.T) {
	s := New(4, 1, 0, LRU)
	a, b := &Request{}, &Request{}
	offer := func(r *Request, first int, key kvcache.BlockID, count int) {
		t.Helper()
		stored, taken := s.Offer(r, Span{Key: key, Index: first, Count: count})
		if !taken {
			t.Fatalf("%v refused", key)
		}
		s.Stored(stored)
	}
	has := func(key kvcache.BlockID) bool {
		present, _, _ := s.Find(Span{Key: key, Count: 1})
		return present == 1
	}
	offer(a, 0, 1, 2)
	offer(b, 0, 3, 2)
	s.Farewell(a) // a's chunks are younger than b's now
	c := &Request{}
	offer(c, 0, 5, 1)
	if has(4) {
		t.Error("the last chunk of the request that ended before is still there")
	}
	offer(c, 1, 6, 1)
	if has(3) {
		t.Error("its first chunk is still there")
	}
	offer(c, 2, 7, 1)
	if has(2) {
		t.Error("the last chunk of the request that ended later is still there")
	}
	if !has(1) {
		t.Error("its first chunk went before its last one")
	}
}
