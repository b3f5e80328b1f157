package radix

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"dynosim/gocore/kvcache"
)

// TestRandomScripts lets a few requests at a time do what the scheduler makes requests do, in any order, and checks the
// books after every step.
func TestRandomScripts(t *testing.T) {
	runs := 300
	if testing.Short() {
		runs = 30
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for run := range runs {
		pageSize := 1 + rng.IntN(4)
		s := &randomScript{rng: rng, pool: New((60+rng.IntN(120))/pageSize*pageSize, pageSize, rng.IntN(2) == 0)}
		if rng.IntN(3) == 0 {
			s.pool.Record()
		}
		for step := range 200 {
			what := s.step()
			if err := s.pool.check(s.holdings()); err != nil {
				t.Fatalf("run %d, step %d, %s: %v", run, step, what, err)
			}
		}
		for _, r := range s.requests {
			s.pool.Release(&r.holding)
		}
		s.requests = nil
		s.pool.ReturnLeaked()
		if err := s.pool.check(nil); err != nil || s.pool.protected > 0 {
			t.Fatalf("run %d: at the end %d tokens are protected, error %v", run, s.pool.protected, err)
		}
		if s.pool.Recording() {
			s.checkEvents(t)
		}
	}
}

type randomScript struct {
	rng      *rand.Rand
	pool     *Pool
	requests []*randomRequest
	retired  []*randomRequest // retracted, may come back
	now      Time
	private  kvcache.BlockID
}

type randomRequest struct {
	holding Holding
	tokens  int
	decodes bool
	named   bool // others may have pages of its output
	// Requests whose prompts come from elsewhere reserve room first, and the room is still theirs after the last token.
	reserved, held bool
}

func (s *randomScript) holdings() (all []*Holding) {
	for _, r := range s.requests {
		all = append(all, &r.holding)
	}
	return all
}

// step does one thing and says what.
func (s *randomScript) step() string {
	s.now++
	if len(s.requests) == 0 || len(s.requests) < 5 && s.rng.IntN(3) == 0 {
		s.requests = append(s.requests, s.newRequest())
	}
	i := s.rng.IntN(len(s.requests))
	r := s.requests[i]
	h := &r.holding
	switch choice := s.rng.IntN(10); {
	case r.held:
		s.pool.Finish(h, s.now)
		s.requests = slices.Delete(s.requests, i, i+1)
		return "finish later"
	case r.reserved && choice == 0:
		return s.retire(i, s.pool.Release)
	case r.reserved:
		r.reserved = false
		s.pool.Activate(h, r.tokens, s.now)
		return "activation"
	case h.tokens == 0 && choice < 3:
		_, r.reserved = s.pool.Reserve(h, r.tokens, s.now)
		return "reservation"
	case h.tokens < r.tokens && !r.decodes:
		chunk := min(r.tokens-h.tokens, s.pool.pageSize*(1+s.rng.IntN(8)))
		if s.pool.Available() < chunk {
			return s.retire(i, s.pool.Release)
		}
		s.pool.Prefill(h, h.tokens+chunk, s.now)
		if h.tokens < r.tokens {
			s.pool.Cache(h, s.now)
		} else if choice == 0 {
			return s.retire(i, s.pool.Retract)
		}
		return "prefill"
	case choice == 0:
		return s.retire(i, s.pool.Retract)
	case !r.decodes && s.pool.Take(1):
		r.decodes = true
		s.pool.DecodeOne(h, s.now)
		r.tokens++
		return "first token"
	case choice < 8 && r.named && s.pool.Take(1):
		s.pool.DecodeOne(h, s.now)
		r.tokens++
		return "token"
	case choice < 8 && r.decodes && s.pool.Take(2*choice):
		s.pool.GiveBack(choice)
		s.pool.Decode(h, choice, s.now)
		r.tokens += choice
		return "tokens"
	case s.pool.Take(1):
		s.pool.LastDecode(h)
		if r.held = choice == 9; r.held {
			return "last token"
		}
		s.pool.Finish(h, s.now)
		s.requests = slices.Delete(s.requests, i, i+1)
		return "finish"
	default:
		return s.retire(i, s.pool.Retract)
	}
}

func (s *randomScript) retire(i int, release func(*Holding)) string {
	r := s.requests[i]
	release(&r.holding)
	r.decodes, r.reserved = false, false
	s.requests = slices.Delete(s.requests, i, i+1)
	s.retired = append(s.retired, r)
	return "retraction"
}

// newRequest returns one that has been retracted before, or a new one: it leaves the prompts of its family at some
// segment.
func (s *randomScript) newRequest() *randomRequest {
	if n := len(s.retired); n > 0 && s.rng.IntN(2) == 0 {
		r := s.retired[n-1]
		s.retired = s.retired[:n-1]
		if r.tokens < s.pool.total/2 {
			return r
		}
	}
	const perSegment = 3
	r := &randomRequest{tokens: 1 + s.rng.IntN(40), named: s.rng.IntN(3) == 0}
	shareable := r.tokens / s.pool.pageSize
	if r.named {
		shareable += s.rng.IntN(8)
	}
	key := kvcache.Key{Prompt: kvcache.Prompt{PerSegment: perSegment}, Shareable: shareable,
		Private: kvcache.PrivateIDs + s.private}
	s.private += 1000
	family, leaves := s.rng.IntN(3), s.rng.IntN(8)
	for i := range shareable/perSegment + 1 {
		segment := uint32(family*100 + i)
		if i >= leaves {
			segment = uint32(1000 + int(s.private) + i)
		}
		key.Prompt.Segments = append(key.Prompt.Segments, segment)
	}
	r.holding.Key = key
	return r
}

// checkEvents empties the pool and makes sure that nothing stays announced.
func (s *randomScript) checkEvents(t *testing.T) {
	t.Helper()
	s.pool.Take(s.pool.Available())
	announced := map[kvcache.BlockID]bool{}
	for _, e := range s.pool.TakeEvents() {
		if e.HasParent && !announced[e.Parent] && s.pool.overReturned == 0 {
			t.Errorf("page %d is stored after page %d, which is not", e.Blocks[0].First, e.Parent)
		}
		for id := range e.Blocks.All() {
			if e.Kind == kvcache.Removed && !announced[id] && s.pool.overReturned == 0 {
				t.Errorf("page %d is removed, but not there", id)
			}
			announced[id] = e.Kind == kvcache.Stored
		}
	}
	for id, there := range announced {
		if there {
			t.Errorf("page %d is still there", id)
		}
	}
}

func TestLeafHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var h leafHeap
		var want []Time
		for _, used := range rng.Perm(1 + rng.IntN(50)) {
			h.push(leaf{used: Time(used)})
			want = append(want, Time(used))
		}
		for range rng.IntN(20) { // the oldest has been used again
			slices.Sort(want)
			want[0] += Time(100 + rng.IntN(100)*1000)
			h.replaceTop(leaf{used: want[0]})
		}
		slices.Sort(want)
		for i := range want {
			if h[0].used != want[i] {
				t.Fatalf("got %d as number %d, want %d", h[0].used, i, want[i])
			}
			h.pop()
		}
	}
}

// BenchmarkPool measures the life of a request with a prompt of 8192 tokens, 4096 of them shared with others, and 256
// generated ones, in a pool that holds some ten of them, with and without events for a router.
func BenchmarkPool(b *testing.B) {
	for _, pageSize := range []int{1, 64} {
		for _, recording := range []bool{false, true} {
			b.Run(fmt.Sprintf("page=%d,recording=%t", pageSize, recording), func(b *testing.B) {
				p := New(1<<17, pageSize, true)
				if recording {
					p.Record()
				}
				benchmarkPool(b, p)
			})
		}
	}
}

func benchmarkPool(b *testing.B, p *Pool) {
	const perSegment = 512
	segments := make([]uint32, 16)
	var now Time
	b.ReportAllocs()
	for b.Loop() {
		for i := range segments {
			segments[i] = uint32(i)
			if i >= 8 {
				segments[i] = uint32(int(now)*16 + i)
			}
		}
		now++
		h := Holding{Key: kvcache.Key{
			Prompt:    kvcache.Prompt{Segments: slices.Clone(segments), PerSegment: perSegment / p.pageSize},
			Shareable: 8192 / p.pageSize,
			Private:   kvcache.PrivateIDs + kvcache.BlockID(now)*10000,
		}}
		p.Prefill(&h, 8192, now)
		now++
		p.Take(257)
		p.DecodeOne(&h, now)
		now++
		p.Decode(&h, 255, now)
		now++
		p.LastDecode(&h)
		p.Finish(&h, now)
		p.TakeEvents()
	}
}
