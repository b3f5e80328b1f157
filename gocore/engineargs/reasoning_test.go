package engineargs

import "testing"

func TestReasoningTokens(t *testing.T) {
	for _, test := range []struct {
		length int
		ratio  float64
		want   int
	}{
		{1, .6, 0}, {2, .6, 2}, {3, .6, 2}, {10, .05, 0}, {10, .1, 2}, {10, .6, 6}, {10, 1, 10}, {100, .6, 60},
	} {
		if got := (Reasoning{Ratio: test.ratio}).Tokens(test.length); got != test.want {
			t.Errorf("%d tokens, ratio %v: got %d, want %d", test.length, test.ratio, got, test.want)
		}
	}
}
