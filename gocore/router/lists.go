package router

import (
	"math/bits"
	"slices"
)

// listStore keeps many short lists of holders without an allocation for each. A list of n lives in a place for the next
// power of two; places of one size lie side by side, and those given back are used again.
type listStore struct {
	sizes []listSize // by log2 of the number of holders in a place
}

type listSize struct {
	places []holder
	spare  []uint32 // numbers of unused places
}

// listRef names a list. The zero value is the empty list, which has no place.
type listRef struct {
	place uint32
	len   uint32
}

// size returns the log2 of the place of n holders, n > 0.
func size(n uint32) int { return bits.Len32(n - 1) }

// view returns the list itself, valid until the next insert.
func (s *listStore) view(r listRef) []holder {
	if r.len == 0 {
		return nil
	}
	log := size(r.len)
	start := int(r.place) << log
	return s.sizes[log].places[start : start+int(r.len)]
}

func (s *listStore) insert(r *listRef, i int, h holder) {
	s.resize(r, r.len+1)
	list := s.view(*r)
	copy(list[i+1:], list[i:])
	list[i] = h
}

func (s *listStore) remove(r *listRef, i int) {
	list := s.view(*r)
	copy(list[i:], list[i+1:])
	s.resize(r, r.len-1)
}

// resize moves the list to another place if it no longer belongs where it is. What is beyond the old length is
// arbitrary.
func (s *listStore) resize(r *listRef, n uint32) {
	old := *r
	r.len = n
	switch {
	case n > 0 && old.len > 0 && size(n) == size(old.len):
		return
	case n > 0:
		r.place = s.take(size(n))
		copy(s.view(*r), s.view(old))
	default:
		r.place = 0
	}
	if old.len > 0 {
		from := &s.sizes[size(old.len)]
		from.spare = append(from.spare, old.place)
	}
}

// take returns the number of an unused place.
func (s *listStore) take(log int) uint32 {
	for len(s.sizes) <= log {
		s.sizes = append(s.sizes, listSize{})
	}
	at := &s.sizes[log]
	if last := len(at.spare) - 1; last >= 0 {
		place := at.spare[last]
		at.spare = at.spare[:last]
		return place
	}
	place := len(at.places) >> log
	at.places = slices.Grow(at.places, 1<<log)[:len(at.places)+1<<log]
	return uint32(place)
}
