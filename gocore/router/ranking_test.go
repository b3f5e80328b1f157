package router

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"dynosim/gocore/kvcache"
)

// TestRanking compares a ranking with a list of keys.
func TestRanking(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, workers := range []int{1, 2, 3, 17, 64, 100} {
		r, keys := newRanking(workers), make([]int64, workers)
		for range 500 {
			worker := rng.IntN(workers)
			keys[worker] = int64(rng.IntN(4))
			r.set(worker, keys[worker])
			least := slices.Min(keys)
			var tied []int
			for w, key := range keys {
				if r.before(w) != len(tied) {
					t.Fatalf("%v: %d workers with the least key before %d, want %d", keys, r.before(w), w, len(tied))
				}
				if key == least {
					tied = append(tied, w)
				}
			}
			if key, count := r.least(); key != least || count != len(tied) || r.key(worker) != keys[worker] {
				t.Fatalf("%v: the least key is %d, %d times", keys, key, count)
			}
			for skip, want := range tied {
				if got := r.pick(skip); got != want {
					t.Fatalf("%v: number %d of the tied ones is %d, want %d", keys, skip, got, want)
				}
			}
		}
	}
}

// TestRanked runs random requests through a router that ranks its workers and one that prices all of them, because it
// has a log. They must choose alike, ties and draws included.
func TestRanked(t *testing.T) {
	ties, matched := 0, 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		o := Options{
			Config: Config{
				OverlapCredit: []float64{1, 0.3, 0}[rng.IntN(3)], PrefillLoadScale: 1,
				TrackActiveBlocks: rng.IntN(4) > 0, AssumeKVReuse: rng.IntN(4) > 0, TrackPrefillTokens: rng.IntN(4) > 0,
				Queueing: rng.IntN(3) == 0, QueueThreshold: 0.5,
			},
			Workers: fewWorkers + 1 + rng.IntN(80), BlockSize: 4, MaxNumBatchedTokens: 64,
		}
		o.Rand = rand.New(rand.NewPCG(seed, 2))
		fast := New(o)
		o.Rand = rand.New(rand.NewPCG(seed, 2))
		o.Log = func(d Decision) {
			if chosen := d.Candidates[d.Chosen]; d.Tied > 1 && chosen.OverlapBlocks > 0 {
				matched++
			} else if d.Tied > 1 {
				ties++
			}
		}
		slow := New(o)
		if fast.tracker.ranking == nil || slow.tracker.ranking != nil {
			t.Fatal("the wrong router ranks its workers")
		}
		compareRouters(t, rng, fast, slow, o.Workers)
	}
	if ties < 1000 || matched < 100 {
		t.Errorf("only %d ties, %d of workers that had blocks cached", ties, matched)
	}
}

// compareRouters gives both routers the same requests and events.
func compareRouters(t *testing.T, rng *rand.Rand, fast, slow *KV, workers int) {
	t.Helper()
	var active, started []int32
	take := func(list *[]int32) int32 {
		i := rng.IntN(len(*list))
		id := (*list)[i]
		*list = slices.Delete(*list, i, i+1)
		return id
	}
	for id := range int32(600) {
		nowMs := float64(id)
		same := func(call func(*KV) ([]Admission, error)) {
			got, err := call(fast)
			want, wantErr := call(slow)
			if err != nil || wantErr != nil || !reflect.DeepEqual(slices.Clone(got), slices.Clone(want)) {
				t.Fatalf("request %d: got %+v (%v), want %+v (%v)", id, got, err, want, wantErr)
			}
			for _, a := range got {
				active = append(active, a.ID)
			}
		}
		r := randomRequest(rng, id)
		same(func(k *KV) ([]Admission, error) { return k.Submit(r, nowMs) })
		if len(active) > 0 && rng.IntN(3) > 0 {
			prefilled := take(&active)
			started = append(started, prefilled)
			same(func(k *KV) ([]Admission, error) { return k.PrefillCompleted(prefilled, nowMs) })
		}
		if len(started) > rng.IntN(40) {
			ended := take(&started)
			same(func(k *KV) ([]Admission, error) { return k.Free(ended, nowMs) })
		}
		worker, blocks := rng.IntN(workers), r.PromptTokens/4
		event := kvcache.Event{Kind: kvcache.EventKind(rng.IntN(5) / 4), Blocks: r.Prompt.Blocks(0, blocks)}
		fast.Apply(worker, []kvcache.Event{event})
		slow.Apply(worker, []kvcache.Event{event})
	}
}

// randomRequest has a prompt of few blocks, of which requests share the first ones.
func randomRequest(rng *rand.Rand, id int32) Request {
	p := kvcache.Prompt{PerSegment: 1}
	family := uint32(rng.IntN(6)) * 100
	for block := range uint32(1 + rng.IntN(4)) {
		p.Segments = append(p.Segments, family+block)
	}
	return Request{ID: id, Prompt: p, PromptTokens: 4*len(p.Segments) - rng.IntN(2)*3}
}

// BenchmarkLoadDecision measures the life of requests that no worker has anything of, in the middle of many others.
func BenchmarkLoadDecision(b *testing.B) {
	for _, workers := range []int{4, 64, 1024, 4096} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			k := New(Options{
				Config: DefaultConfig(), Workers: workers, BlockSize: 64, MaxNumBatchedTokens: math.MaxInt,
				Rand: naiveRand(0),
			})
			p := kvcache.Prompt{Segments: []uint32{0}, PerSegment: 32}
			b.ReportAllocs()
			for id := int32(0); b.Loop(); id++ {
				p.Segments[0] = uint32(id)
				request := Request{ID: id, Prompt: kvcache.Prompt{Segments: slices.Clone(p.Segments), PerSegment: 32},
					PromptTokens: 2048}
				if _, err := k.Submit(request, float64(id)); err != nil {
					b.Fatal(err)
				}
				if old := id - int32(4*workers); old >= 0 {
					mustAdmit(b, k.PrefillCompleted)(old, float64(id))
					mustAdmit(b, k.Free)(old, float64(id))
				}
			}
		})
	}
}
