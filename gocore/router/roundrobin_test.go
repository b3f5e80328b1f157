package router

import (
	"slices"
	"testing"
)

func TestRoundRobin(t *testing.T) {
	r := NewRoundRobin(3)
	var got []int
	for id := range int32(7) {
		admitted, err := r.Submit(Request{ID: id, PromptTokens: 1}, float64(id))
		if err != nil || len(admitted) != 1 || admitted[0].ID != id {
			t.Fatalf("request %d: got %v, %v", id, admitted, err)
		}
		got = append(got, admitted[0].Worker)
	}
	if want := []int{0, 1, 2, 0, 1, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestModes: names are unique, and each mode makes a router that sends a lone request to some worker.
func TestModes(t *testing.T) {
	for _, name := range ModeNames() {
		mode, ok := FindMode(name)
		if !ok {
			t.Fatalf("%s: not found", name)
		}
		options := Options{Config: DefaultConfig(), BlockSize: 4, MaxNumBatchedTokens: 100}
		admitted, err := mode.Factory(&options).Make(1).Submit(Request{ID: 7, PromptTokens: 3}, 0)
		if err != nil || len(admitted) != 1 || admitted[0].ID != 7 || admitted[0].Worker != 0 {
			t.Errorf("%s: got %v, %v", name, admitted, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a name was given to two modes")
		}
	}()
	Register(Mode{Name: KVMode})
}
