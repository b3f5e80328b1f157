package chunks

import (
	"math/rand/v2"
	"slices"
	"testing"

	"dynosim/gocore/kvcache"
)

// TestBooks runs random requests that offer, load and end, and checks after each step that what was stored is there or was
// evicted, that no more is there than fits, and that nothing goes that is being copied or offered.
func TestBooks(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		capacity, threshold := 1+rng.IntN(12), rng.IntN(3)
		s := New(capacity, threshold, Policy(rng.IntN(2)))
		type running struct {
			*Request
			keys []kvcache.BlockID
		}
		var requests []running
		var storing, loading [][]*Chunk
		for range 300 {
			switch rng.IntN(6) {
			case 0: // a request arrives: prompts of three families have their beginnings in common
				r := running{Request: &Request{}}
				family, own := kvcache.BlockID(1+rng.IntN(3))*100, kvcache.BlockID(1000+100*rng.IntN(20))
				for i := range kvcache.BlockID(1 + rng.IntN(8)) {
					if int(i) < 3 {
						r.keys = append(r.keys, family+i)
					} else {
						r.keys = append(r.keys, own+family*100+i)
					}
				}
				requests = append(requests, r)
			case 1, 2: // offers some of its chunks
				if len(requests) == 0 {
					continue
				}
				r := requests[rng.IntN(len(requests))]
				first := rng.IntN(len(r.keys))
				before := s.Use()
				var kept []kvcache.BlockID
				for _, key := range r.keys[first:] {
					if present, _, _ := s.Find(key); present {
						kept = append(kept, key)
					}
				}
				for _, copies := range [][][]*Chunk{storing, loading} {
					for _, c := range slices.Concat(copies...) {
						kept = append(kept, c.key)
					}
				}
				stored, taken := s.Offer(r.Request, first, r.keys[first:])
				if !taken && s.Use() != before {
					t.Fatalf("seed %d: a refused offer changed %+v to %+v", seed, before, s.Use())
				}
				for _, key := range kept {
					if present, _, _ := s.Find(key); !present {
						t.Fatalf("seed %d: chunk %d went while it was offered or copied", seed, key)
					}
				}
				if len(stored) > 0 {
					storing = append(storing, slices.Clone(stored))
				}
			case 3: // a store ends
				if len(storing) > 0 {
					s.Stored(storing[0])
					storing = storing[1:]
				}
			case 4: // a load begins, or ends
				if len(loading) > 0 && rng.IntN(2) == 0 {
					s.Loaded(loading[0])
					loading = loading[1:]
				} else if len(requests) > 0 {
					r := requests[rng.IntN(len(requests))]
					to := 0
					for ; to < len(r.keys); to++ {
						if present, busy, _ := s.Find(r.keys[to]); !present || busy {
							break
						}
					}
					if to > 0 {
						loading = append(loading, s.Load(r.Request, 0, r.keys[:to]))
					}
				}
			case 5: // a request ends
				if len(requests) > 0 {
					i := rng.IntN(len(requests))
					s.Farewell(requests[i].Request)
					requests = slices.Delete(requests, i, i+1)
				}
			}
			idle := 0
			for _, c := range s.chunks {
				if c.idle() {
					idle++
				}
			}
			if use := s.Use(); use.Stored != use.Evicted+use.Resident || use.Resident > capacity || idle != s.idle {
				t.Fatalf("seed %d: %+v in a store of %d, %d idle, counted %d", seed, use, capacity, idle, s.idle)
			}
			if a, isARC := s.order.(*arc); isARC && a.recent.Len()+a.frequent.Len() != len(s.chunks) {
				t.Fatalf("seed %d: %d + %d chunks listed, %d there", seed, a.recent.Len(), a.frequent.Len(), len(s.chunks))
			}
		}
	}
}

// TestOrderLRU evicts the tail of what was used least recently: a request's chunks rank together until it ends.
func TestOrderLRU(t *testing.T) {
	s := New(4, 0, LRU)
	a, b := &Request{}, &Request{}
	offer := func(r *Request, first int, keys ...kvcache.BlockID) {
		t.Helper()
		stored, taken := s.Offer(r, first, keys)
		if !taken {
			t.Fatalf("%v refused", keys)
		}
		s.Stored(stored)
	}
	offer(a, 0, 1, 2)
	offer(b, 0, 3, 4)
	s.Farewell(a) // a's chunks are younger than b's now
	c := &Request{}
	offer(c, 0, 5)
	if present, _, _ := s.Find(4); present {
		t.Error("the last chunk of the request that ended before is still there")
	}
	offer(c, 1, 6)
	if present, _, _ := s.Find(3); present {
		t.Error("its first chunk is still there")
	}
	offer(c, 2, 7)
	if present, _, _ := s.Find(2); present {
		t.Error("the last chunk of the request that ended later is still there")
	}
	if present, _, _ := s.Find(1); !present {
		t.Error("its first chunk went before its last one")
	}
}
