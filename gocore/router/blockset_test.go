package router

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// members lists the blocks of a set.
func (s *blockSet) members() (list []int) {
	for n := range unitBlocks {
		if s[n/64]>>(n%64)&1 == 1 {
			list = append(list, n)
		}
	}
	return list
}

// TestBlockSet compares sets with lists of their blocks.
func TestBlockSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 0))
	for range 2000 {
		var sets [2]blockSet
		var lists [2][]int
		for i := range sets {
			for range rng.IntN(4) {
				first := rng.IntN(unitBlocks)
				n := 1 + rng.IntN(unitBlocks-first)
				sets[i].add(first, n)
				for b := first; b < first+n; b++ {
					lists[i] = append(lists[i], b)
				}
			}
			slices.Sort(lists[i])
			lists[i] = slices.Compact(lists[i])
			if got := sets[i].members(); !slices.Equal(got, lists[i]) {
				t.Fatalf("got %v, want %v", got, lists[i])
			}
		}
		s, other, list := sets[0], sets[1], lists[0]
		in := func(b int) bool { return slices.Contains(lists[1], b) }
		without := slices.DeleteFunc(slices.Clone(list), in)
		leading, end := len(list), 0
		if len(list) > 0 {
			end = list[len(list)-1] + 1
		}
		if len(without) > 0 {
			leading = slices.Index(list, without[0])
		}
		if int(s.len()) != len(list) || s.empty() != (len(list) == 0) || s.end() != end ||
			s.without(&other) != len(without) || int(s.leading(&other)) != leading {
			t.Fatalf("%v and %v: %d blocks, empty %t, end %d, %d without the others, %d before the first of them", list,
				lists[1], s.len(), s.empty(), s.end(), s.without(&other), s.leading(&other))
		}
		few := rng.IntN(len(list) + 1)
		if kept := s.first(int32(few)); !slices.Equal(kept.members(), list[:few]) {
			t.Fatalf("first %d of %v: got %v", few, list, kept.members())
		}
		both, none, all := s, s, s
		both.keep(&other)
		none.exclude(&other)
		all.include(&other)
		if !slices.Equal(none.members(), without) || both.len()+none.len() != s.len() ||
			all.len() != other.len()+none.len() || both.without(&other) != 0 {
			t.Fatalf("%v and %v: %v, %v, %v", list, lists[1], both.members(), none.members(), all.members())
		}
	}
}
