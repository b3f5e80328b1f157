package tracestats

import (
	"cmp"
	"slices"
	"sort"

	"dynosim/gocore/workload"
)

// Reuse says how many prompt tokens caches of all sizes find, if requests run one after another in the order of the
// trace and blocks are evicted by least recent use. A request uses its first block last, as engines have it, so that a
// block never outlives the one before it.
//
// The sizes are all found in one pass (R. L. Mattson et al., Evaluation techniques for storage hierarchies, 1970): a
// block is found by all caches that are larger than the number of other blocks that were used since its own last use.
//
//	most recent                                   oldest
//	[c0 c1] [a0 a1 a2] [b0 b1]              a look-up of b0, b1: found by caches of 6 and 7 blocks and more
type Reuse struct {
	InputTokens int64
	Blocks      int // different ones
	blockSize   int64
	corners     []corner
}

// corner is a size from which on each more block of the cache finds slope more blocks, and how many blocks it finds.
type corner struct{ size, found, slope int64 }

// run is a number of blocks that were found one after another: the first by caches larger than distance, each next one
// by those that are larger by one.
type run struct{ distance, blocks int64 }

// NewReuse looks at a workload that was read for an engine with blocks of blockSize tokens.
func NewReuse(w *workload.Workload, blockSize int) *Reuse {
	r := &Reuse{blockSize: int64(blockSize)}
	uses := 1
	for i := range w.Turns {
		if t := &w.Turns[i]; t.Prompt.PerSegment > 0 {
			uses += (max(t.InputTokens/blockSize, t.NamedBlocks)-1)/t.Prompt.PerSegment + 1
		}
	}
	var runs []run
	s := stack{uses: newFenwick(uses), pieces: map[uint32][]piece{}}
	for i := range w.Turns {
		t := &w.Turns[i]
		r.InputTokens += int64(t.InputTokens)
		full, per := t.InputTokens/blockSize, t.Prompt.PerSegment
		for at, left := 0, max(0, t.InputTokens-1)/blockSize; left > 0; at++ { // engines compute the last token
			known := s.find(t.Prompt.Segments[at], min(left, per), &runs)
			if known < min(left, per) {
				break
			}
			left -= per
		}
		used := max(full, t.NamedBlocks)
		for at := (used+per-1)/max(per, 1) - 1; at >= 0; at-- {
			r.Blocks += s.use(t.Prompt.Segments[at], min(used-at*per, per))
		}
	}
	r.corners = corners(runs)
	return r
}

// corners adds up runs.
func corners(runs []run) []corner {
	bends := make([]run, 0, 2*len(runs)) // by how much the slope changes behind a distance
	for _, u := range runs {
		bends = append(bends, run{u.distance, 1}, run{u.distance + u.blocks, -1})
	}
	slices.SortFunc(bends, func(a, b run) int { return cmp.Compare(a.distance, b.distance) })
	all := []corner{{}}
	for _, bend := range bends {
		last := &all[len(all)-1]
		if bend.distance > last.size {
			all = append(all, corner{bend.distance, last.found + last.slope*(bend.distance-last.size), last.slope})
			last = &all[len(all)-1]
		}
		last.slope += bend.blocks
	}
	return all
}

// Found returns the number of prompt tokens that a cache of the given number of blocks finds.
func (r *Reuse) Found(blocks int) int64 {
	size := int64(blocks)
	i := sort.Search(len(r.corners), func(i int) bool { return r.corners[i].size > size }) - 1
	return (r.corners[i].found + r.corners[i].slope*(size-r.corners[i].size)) * r.blockSize
}

// Enough returns the least size in blocks that finds all that any finds.
func (r *Reuse) Enough() int { return int(r.corners[len(r.corners)-1].size) }

// Most returns the least size in blocks that finds nine tenths of what any finds.
func (r *Reuse) Most() int {
	all := r.Found(r.Enough())
	return sort.Search(r.Enough(), func(blocks int) bool { return r.Found(blocks)*10 >= all*9 })
}

// Knee returns the size in blocks behind which more is worth least: where the curve is highest above the line from
// nothing to Enough (V. Satopaa et al., Finding a kneedle in a haystack, 2011). It is Enough if the curve is never
// above the line.
func (r *Reuse) Knee() int {
	last := r.corners[len(r.corners)-1]
	knee, best := last.size, int64(0)
	for _, c := range r.corners {
		if height := c.found*last.size - last.found*c.size; height > best {
			knee, best = c.size, height
		}
	}
	return int(knee)
}

// stack is the order in which blocks were used last. Positions count uses; a position has the blocks that one use of a
// segment still has.
type stack struct {
	uses   fenwick
	now    int
	live   int64
	pieces map[uint32][]piece // of a segment, the first blocks first
}

// piece is a number of blocks of a segment that were last used together.
type piece struct {
	at     int
	blocks int
}

// find adds the runs of the leading count blocks of a segment that are known, and returns how many these are.
func (s *stack) find(segment uint32, count int, runs *[]run) (known int) {
	for _, p := range s.pieces[segment] {
		if known == count {
			break
		}
		blocks := min(p.blocks, count-known)
		*runs = append(*runs, run{distance: s.live - s.uses.sum(p.at), blocks: int64(blocks)})
		known += blocks
	}
	return known
}

// use makes the leading count blocks of a segment the most recent, and returns how many of them are new.
func (s *stack) use(segment uint32, count int) (fresh int) {
	if count <= 0 {
		return 0
	}
	s.now++
	old := s.pieces[segment]
	left := count
	for len(old) > 0 && left > 0 {
		p := &old[0]
		taken := min(p.blocks, left)
		s.uses.add(p.at, -taken)
		left -= taken
		if p.blocks -= taken; p.blocks == 0 {
			old = old[1:]
		}
	}
	s.live += int64(left)
	s.uses.add(s.now, count)
	if len(old) == 0 {
		s.pieces[segment] = append(s.pieces[segment][:0], piece{s.now, count})
	} else {
		s.pieces[segment] = append([]piece{{s.now, count}}, old...)
	}
	return left
}

// fenwick has sums of leading entries; entries count from 1.
type fenwick []int32

func newFenwick(entries int) fenwick { return make(fenwick, entries+1) }

func (f fenwick) add(at, more int) {
	for ; at < len(f); at += at & -at {
		f[at] += int32(more)
	}
}

func (f fenwick) sum(to int) (sum int64) {
	for ; to > 0; to -= to & -to {
		sum += int64(f[to])
	}
	return sum
}
