package policies

import (
	"math/rand/v2"
	"slices"
	"testing"

	"dynosim/gocore/kvcache"
)

// naiveSent is a sentIndex that keeps lists and looks through them.
type naiveSent struct {
	capacity int
	lists    [][]naiveSegment // by worker, those sent last first
}

type naiveSegment struct {
	segment uint32
	blocks  int
}

func (n *naiveSent) at(worker int, segment uint32) int {
	return slices.IndexFunc(n.lists[worker], func(s naiveSegment) bool { return s.segment == segment })
}

func (n *naiveSent) match(p kvcache.Prompt, blocks, worker int) (matched int) {
	for s := 0; s < len(p.Segments) && matched == s*p.PerSegment && matched < blocks; s++ {
		if i := n.at(worker, p.Segments[s]); i >= 0 {
			matched += min(n.lists[worker][i].blocks, blocks-matched)
		}
	}
	return matched
}

func (n *naiveSent) enter(p kvcache.Prompt, blocks, worker int) {
	for s := (blocks+p.PerSegment-1)/p.PerSegment - 1; s >= 0; s-- {
		entry := naiveSegment{p.Segments[s], min(p.PerSegment, blocks-s*p.PerSegment)}
		if i := n.at(worker, p.Segments[s]); i >= 0 {
			entry.blocks = max(entry.blocks, n.lists[worker][i].blocks)
			n.lists[worker] = slices.Delete(n.lists[worker], i, i+1)
		}
		n.lists[worker] = slices.Insert(n.lists[worker], 0, entry)
	}
	for {
		all := 0
		for _, s := range n.lists[worker] {
			all += s.blocks
		}
		if all <= n.capacity {
			return
		}
		n.lists[worker] = n.lists[worker][:len(n.lists[worker])-1]
	}
}

// TestSentIndexRandom compares random prompts on 70 workers, some of which go, with the naive index.
func TestSentIndexRandom(t *testing.T) {
	const workers, per = 70, 4
	for seed := range uint64(20) {
		draw := rand.New(rand.NewPCG(seed, 1))
		x, n := newSentIndex(30), &naiveSent{30, make([][]naiveSegment, workers)}
		x.growTo(workers)
		for step := range 600 {
			p := kvcache.Prompt{PerSegment: per}
			for s := range uint32(1 + draw.IntN(5)) {
				p.Segments = append(p.Segments, 10*s+uint32(draw.IntN(2)))
			}
			blocks := 1 + draw.IntN(per*len(p.Segments))
			matched := make([]int, workers)
			x.match(p, blocks, matched)
			for w := range workers {
				if want := n.match(p, blocks, w); matched[w] != want {
					t.Fatalf("seed %d, step %d, worker %d: got %d of %d blocks, want %d", seed, step, w, matched[w],
						blocks, want)
				}
			}
			switch worker := draw.IntN(workers); {
			case draw.IntN(50) == 0:
				x.forget(worker)
				n.lists[worker] = nil
			case draw.IntN(3) == 0: // not the prompt that was matched
				other := kvcache.Prompt{PerSegment: per, Segments: []uint32{p.Segments[0], 99}}
				x.enter(other, 5, worker)
				n.enter(other, 5, worker)
			default:
				x.enter(p, blocks, worker)
				n.enter(p, blocks, worker)
			}
		}
	}
}
