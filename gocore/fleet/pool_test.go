package fleet

import (
	"slices"
	"testing"
)

func TestWorkerSet(t *testing.T) {
	s := newWorkerSet(200)
	want := []int{0, 63, 64, 127, 128, 199}
	for _, i := range want {
		s.add(i)
	}
	s.add(100)
	s.remove(100)
	var got []int
	for i, ok := s.next(0); ok; i, ok = s.next(i + 1) {
		got = append(got, i)
	}
	if !slices.Equal(got, want) || s.empty() {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, ok := s.next(200); ok {
		t.Error("found a member behind the last")
	}
	for _, i := range want {
		s.remove(i)
	}
	if !s.empty() {
		t.Error("not empty")
	}
}
