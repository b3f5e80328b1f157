package tracestats

import (
	"math/rand/v2"
	"slices"
	"testing"

	"dynosim/gocore/kvcache"
	"dynosim/gocore/workload"
)

// TestReuse compares all sizes with caches that hold a list of blocks each.
func TestReuse(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 36))
		size := 1 + rnd.IntN(4)
		w := branching(rnd, size)
		r := NewReuse(w, size)
		most := 0
		for blocks := range r.Blocks + 3 {
			want, distinct := bruteReuse(w, size, blocks)
			if got := r.Found(blocks); got != want || distinct != r.Blocks {
				t.Fatalf("seed %d, %d blocks: got %d tokens of %d blocks, want %d of %d", seed, blocks, got, r.Blocks,
					want, distinct)
			}
			if r.Found(blocks) > r.Found(max(0, blocks-1)) {
				most = blocks
			}
		}
		if r.Enough() != most || r.Knee() > most {
			t.Fatalf("seed %d: enough %d, knee %d, want %d", seed, r.Enough(), r.Knee(), most)
		}
		nine := func(blocks int) bool { return 10*r.Found(blocks) >= 9*r.Found(most) }
		if blocks := r.Most(); !nine(blocks) || blocks > 0 && nine(blocks-1) {
			t.Fatalf("seed %d: %d blocks are said to find nine tenths of what %d find", seed, blocks, most)
		}
	}
}

// TestKnee has one conversation that comes back at once and one that comes back after a long time.
func TestKnee(t *testing.T) {
	turn := func(first uint32, blocks int) workload.Turn {
		p := kvcache.Prompt{PerSegment: 1}
		for i := range blocks {
			p.Segments = append(p.Segments, first+uint32(i))
		}
		return workload.Turn{InputTokens: 16*blocks + 1, OutputTokens: 1, Prompt: p, NamedBlocks: blocks}
	}
	w := &workload.Workload{Turns: []workload.Turn{
		turn(0, 10), turn(0, 10), turn(0, 10), turn(1000, 500), turn(2000, 400), turn(1000, 1),
	}}
	r := NewReuse(w, 16)
	if r.Knee() != 10 || r.Enough() != 401 || r.Found(9) != 16*18 {
		t.Errorf("got knee %d, enough %d, %d tokens", r.Knee(), r.Enough(), r.Found(9))
	}
}

// branching draws prompts that begin as earlier ones do, in segments of several blocks. Segments have one place in a
// prompt.
func branching(rnd *rand.Rand, size int) *workload.Workload {
	w := &workload.Workload{}
	per, next := 1+rnd.IntN(5), uint32(1)
	for range 2 + rnd.IntN(40) {
		var p kvcache.Prompt
		p.PerSegment = per
		if len(w.Turns) > 0 && rnd.IntN(4) > 0 {
			of := w.Turns[rnd.IntN(len(w.Turns))].Prompt.Segments
			p.Segments = slices.Clone(of[:rnd.IntN(len(of)+1)])
		}
		for range rnd.IntN(5) {
			p.Segments = append(p.Segments, next)
			next++
		}
		w.Turns = append(w.Turns, workload.Turn{
			Prompt: p, NamedBlocks: rnd.IntN(len(p.Segments)*per + 1),
			InputTokens: rnd.IntN((len(p.Segments)*per + 1) * size),
		})
	}
	return w
}

func bruteReuse(w *workload.Workload, size, capacity int) (found int64, distinct int) {
	var recent []kvcache.BlockID // the oldest first
	seen := map[kvcache.BlockID]bool{}
	for i := range w.Turns {
		t := &w.Turns[i]
		for j := range max(0, t.InputTokens-1) / size {
			if !slices.Contains(recent, t.Prompt.Block(j)) {
				break
			}
			found += int64(size)
		}
		for j := max(t.InputTokens/size, t.NamedBlocks) - 1; j >= 0; j-- {
			id := t.Prompt.Block(j)
			seen[id] = true
			recent = append(slices.DeleteFunc(recent, func(b kvcache.BlockID) bool { return b == id }), id)
		}
		recent = recent[max(0, len(recent)-capacity):]
	}
	return found, len(seen)
}
