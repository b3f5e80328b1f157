package tokens

import (
	"slices"
	"testing"
)

func TestRepeat(t *testing.T) {
	// "a", a part of a character, the rest
	said := Spoken{Tokens: []uint32{7, 8, 9}, Text: "abcd", Ends: []int32{1, 1, 4}}
	tests := []struct {
		n    int
		text string
		ends []int32
	}{
		{1, "a", []int32{1}},
		{3, "abcd", []int32{1, 1, 4}},
		{4, "abcda", []int32{1, 1, 4, 5}},
		{9, "abcdabcdabcd", []int32{1, 1, 4, 5, 5, 8, 9, 9, 12}},
	}
	for _, tt := range tests {
		got := said.Repeat(tt.n)
		if got.Text != tt.text || !slices.Equal(got.Ends, tt.ends) || len(got.Tokens) != tt.n ||
			got.Tokens[tt.n-1] != said.Tokens[(tt.n-1)%3] {
			t.Errorf("Repeat(%d): got %+v, want %q %v", tt.n, got, tt.text, tt.ends)
		}
	}
}

// A short text that is repeated up to the longest answer takes no time worth mentioning: clients may ask for it.
func TestRepeatIsLinear(t *testing.T) {
	said := Spoken{Tokens: []uint32{7}, Text: "a", Ends: []int32{1}}
	if allocations := testing.AllocsPerRun(1, func() { said.Repeat(1 << 20) }); allocations > 10 {
		t.Errorf("got %v allocations, want one for each part", allocations)
	}
}
