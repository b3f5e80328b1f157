package timing

import (
	"errors"
	"math"
	"slices"
	"testing"
)

func TestAround(t *testing.T) {
	for _, c := range []struct {
		n    int
		want [2]point
	}{
		{0, [2]point{{0, 1}, {1, 0}}},
		{7, [2]point{{7, 1}, {8, 0}}},
		{9, [2]point{{8, 0.5}, {10, 0.5}}},
		{16, [2]point{{16, 1}, {20, 0}}},
		{17, [2]point{{16, 0.75}, {20, 0.25}}},
		{8191, [2]point{{7168, 1.0 / 1024}, {8192, 1023.0 / 1024}}},
	} {
		if got := around(c.n); got != c.want {
			t.Errorf("%d: got %v, want %v", c.n, got, c.want)
		}
	}
}

// TestBetween: what is linear in each size is met exactly, on the grid and beside it, and each shape of the grid is
// asked once.
func TestBetween(t *testing.T) {
	linear := func(q Question) Answer {
		return Answer{Ms: 3 + 2*float64(q.Batch) + 0.5*float64(q.Tokens) + 0.25*float64(q.Prefix) +
			1e-3*float64(q.Batch*q.Tokens)}
	}
	outside := &sdk{answer: linear}
	predict := Between(outside.ask)
	for range 2 {
		for _, q := range []Question{
			{Decode, 1, 900, 0}, {Decode, 37, 901, 0}, {Decode, 37, 902, 0}, {Prefill, 3, 1000, 77},
			{Prefill, 1, 8192, 0}, {Prefill, 1, 5, 3},
		} {
			answers, err := predict([]Question{q})
			if err != nil || math.Abs(answers[0].Ms-linear(q).Ms) > 1e-9*linear(q).Ms {
				t.Errorf("%v: got %v, %v, want %v", q, answers, err, linear(q).Ms)
			}
		}
	}
	asked := slices.Concat(outside.batches...)
	for i, q := range asked {
		if slices.Index(asked, q) != i {
			t.Errorf("%v was asked twice", q)
		}
	}
	if !slices.Contains(asked, Question{Prefill, 1, 8192, 0}) || slices.Contains(asked, Question{Decode, 37, 901, 0}) {
		t.Errorf("asked %v", asked)
	}
}

// TestBetweenOrder: an answer is the same to the last bit whatever was asked before.
func TestBetweenOrder(t *testing.T) {
	curved := func(q Question) Answer {
		return Answer{Ms: math.Sqrt(float64(q.Batch)) * math.Log1p(float64(q.Tokens))}
	}
	var questions []Question
	for n := range 200 {
		questions = append(questions, Question{Decode, 1 + n%50, 100 + 37*n, 0})
	}
	together, _ := Between((&sdk{answer: curved}).ask)(questions)
	predict := Between((&sdk{answer: curved}).ask)
	for i, q := range slices.Backward(questions) {
		if alone, _ := predict([]Question{q}); alone[0] != together[i] {
			t.Errorf("%v: got %v alone, %v with others", q, alone[0], together[i])
		}
	}
}

// TestBetweenErrors: beside the end of the data the shape itself is asked for; a source that fails is an error.
func TestBetweenErrors(t *testing.T) {
	beyond := errors.New("beyond the data")
	outside := &sdk{answer: func(q Question) Answer {
		if q.Tokens > 1000 {
			return Answer{Err: beyond}
		}
		return Answer{Ms: float64(q.Tokens)}
	}}
	predict := Between(outside.ask)
	answers, err := predict([]Question{{Decode, 1, 990, 0}, {Decode, 1, 800, 0}, {Decode, 1, 1001, 0}})
	if err != nil || answers[0] != (Answer{Ms: 990}) || answers[1] != (Answer{Ms: 800}) || answers[2].Err == nil {
		t.Errorf("got %v, %v", answers, err)
	}
	gone := errors.New("gone")
	if _, err := Between((&sdk{err: gone}).ask)([]Question{{Decode, 1, 800, 0}}); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}
